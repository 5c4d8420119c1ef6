//! What a user's connections work in: a session with the releases of the user's views and nothing else.
//!
//! There is no raw table in it, no way to name a file, and no object store but that of the releases. The
//! sources are read elsewhere, by the refresh, whose session no client ever meets.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::error::DataFusionError;
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::object_store::ObjectStore;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_anonymize::ignore_file_statistics;
use datafusion_postgres::DfSessionService;
use datafusion_postgres::datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_postgres::datafusion_pg_catalog::setup_pg_catalog;
use datafusion_postgres::hooks::set_show::SetShowHook;
use datafusion_postgres::hooks::transactions::TransactionStatementHook;

use crate::catalog;
use crate::growth::Budget;
use crate::growth::bounded::bound;
use crate::policy::User;
use crate::query::QueryHook;
use crate::release::{ReleaseTable, Releases};
use crate::to_char::to_char;

/// The name of the one database there is.
pub const DATABASE: &str = "releases";

/// The schema of the views, which clients need not write.
pub const SCHEMA: &str = "public";

/// The scheme under which the files of releases are known. No client can write a location.
pub const SCHEME: &str = "release";

/// Functions that make much of little: the engine does not count the memory of what a single call
/// returns, so no limit would hold.
const UNBOUNDED: [&str; 7] =
    ["repeat", "lpad", "rpad", "array_repeat", "array_resize", "range", "generate_series"];

/// Functions that tell of files, which are the service's own.
const OF_FILES: [&str; 2] = ["file_row_index", "input_file_name"];

/// What the connections of one user share.
pub struct Workspace {
    /// The user.
    pub user: String,
    /// Whether the user may ask for a refresh.
    pub may_refresh: bool,
    /// The views the user sees.
    pub views: BTreeSet<String>,
    /// Erased, because the compiler otherwise proves in every handler that all types of plans and statements can be
    /// shared between threads, which takes it seconds each time.
    protocol: Box<dyn AsRef<DfSessionService> + Send + Sync>,
}

impl Workspace {
    /// The workspace of a user of the policy.
    pub fn new(
        name: &str,
        user: &User,
        releases: &Arc<Releases>,
        runtime: &Arc<RuntimeEnv>,
    ) -> Result<Self> {
        let config = SessionConfig::new()
            .with_information_schema(true)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(DATABASE, SCHEMA);
        let context = SessionContext::new_with_config_rt(config, Arc::clone(runtime));
        let catalog = Arc::new(MemoryCatalogProvider::new());
        let schema = PermittedViews { views: user.views.clone(), releases: Arc::clone(releases) };
        catalog.register_schema(SCHEMA, Arc::new(schema))?;
        context.register_catalog(DATABASE, catalog);
        datafusion_anonymize::register_all(&context)?;
        ignore_file_statistics(&context);
        setup_pg_catalog(&context, DATABASE, EmptyContextProvider).map_err(|error| *error)?;
        context.register_udf(session_user(name));
        for function in catalog::functions() {
            context.register_udf(function);
        }
        for name in UNBOUNDED.iter().chain(&OF_FILES) {
            context.deregister_udf(name);
        }
        // Also what is computed while a statement is planned has a bound.
        for function in context.state().scalar_functions().values() {
            context.register_udf(bound(function, &Budget::default()).as_ref().clone());
        }
        // After all others: the engine's function has this name too, and stays under its second one.
        let to_char = bound(&Arc::new(to_char()), &Budget::default());
        context.register_udf(to_char.as_ref().clone());
        let protocol = DfSessionService::new_with_hooks(
            Arc::new(context),
            vec![Arc::new(QueryHook), Arc::new(TransactionStatementHook), Arc::new(SetShowHook)],
        );
        let protocol = Box::new(Arc::new(protocol));
        let User { views, may_refresh, .. } = user.clone();
        Ok(Self { user: name.to_owned(), may_refresh, views, protocol })
    }

    /// The protocol's handlers over it.
    pub fn protocol(&self) -> &DfSessionService {
        (*self.protocol).as_ref()
    }
}

/// `current_user`, which the parser turns into a call of this.
fn session_user(user: &str) -> ScalarUDF {
    let user = ColumnarValue::Scalar(ScalarValue::Utf8(Some(user.to_owned())));
    let answer = move |_: &[ColumnarValue]| Ok(user.clone());
    create_udf("session_user", vec![], DataType::Utf8, Volatility::Stable, Arc::new(answer))
}

/// The schema of a user: the permitted views, each with its current release.
#[derive(Debug)]
struct PermittedViews {
    views: BTreeSet<String>,
    releases: Arc<Releases>,
}

#[async_trait]
impl SchemaProvider for PermittedViews {
    fn table_names(&self) -> Vec<String> {
        let ready = self.views.iter().filter(|view| self.releases.get(view).is_some());
        ready.cloned().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if !self.views.contains(name) {
            return Ok(None);
        }
        let release = self.releases.get(name).ok_or_else(|| {
            plan_datafusion_err!(
                "view '{name}' has no release yet: its first refresh runs or failed; the service's log tells"
            )
        })?;
        Ok(Some(Arc::new(ReleaseTable::new(&release))))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.views.contains(name)
    }
}

/// The only store that a client's query can reach.
#[derive(Debug)]
pub struct ReleaseStore {
    /// The directory of the releases.
    pub store: Arc<dyn ObjectStore>,
}

impl ObjectStoreRegistry for ReleaseStore {
    fn register_store(
        &self,
        _url: &url::Url,
        _store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, url: &url::Url) -> Result<Arc<dyn ObjectStore>> {
        if url.scheme() != SCHEME {
            return plan_err!("locations cannot be read here: query the views");
        }
        Ok(Arc::clone(&self.store))
    }
}
