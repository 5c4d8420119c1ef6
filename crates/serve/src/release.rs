//! The current release of every view, and who still reads an older one.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_datafusion_err};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;
use parking_lot::RwLock;

/// A verified release of a view, as files that never change.
#[derive(Debug)]
pub struct Release {
    /// Its files.
    pub table: Arc<dyn TableProvider>,
}

/// The current release of every view that has one.
#[derive(Debug, Default)]
pub struct Releases {
    current: RwLock<BTreeMap<String, Arc<Release>>>,
}

impl Releases {
    /// The current release of a view.
    pub fn get(&self, view: &str) -> Option<Arc<Release>> {
        self.current.read().get(view).cloned()
    }

    /// Makes a release the current one, in one step; returns the one it replaces.
    pub fn replace(&self, view: &str, release: Release) -> Option<Arc<Release>> {
        self.current.write().insert(view.to_owned(), Arc::new(release))
    }
}

/// A release as a table. Prepared statements hold it for as long as their connection lives, so it does
/// not keep the files: a running query does, by [`lease`].
#[derive(Debug)]
pub struct ReleaseTable {
    release: Weak<Release>,
    schema: SchemaRef,
}

impl ReleaseTable {
    /// The table of a release.
    pub fn new(release: &Arc<Release>) -> Self {
        Self { release: Arc::downgrade(release), schema: release.table.schema() }
    }

    fn release(&self) -> Result<Arc<Release>> {
        self.release.upgrade().ok_or_else(|| {
            plan_datafusion_err!(
                "a newer release has replaced the one this query is about: run it again"
            )
        })
    }
}

impl TableProvider for ReleaseTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    // As `async_trait` would write it, for the reason that `QueryHook` has.
    fn scan<'s: 'f, 'c: 'f, 'p: 'f, 'e: 'f, 'f>(
        &'s self,
        state: &'c dyn Session,
        projection: Option<&'p Vec<usize>>,
        filters: &'e [Expr],
        limit: Option<usize>,
    ) -> BoxFuture<'f, Result<Arc<dyn ExecutionPlan>>> {
        scan(self.release(), state, projection, filters, limit)
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        self.release()?.table.supports_filters_pushdown(filters)
    }
}

fn scan<'a>(
    release: Result<Arc<Release>>,
    state: &'a dyn Session,
    projection: Option<&'a Vec<usize>>,
    filters: &'a [Expr],
    limit: Option<usize>,
) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
    Box::pin(async move { release?.table.scan(state, projection, filters, limit).await })
}

/// The releases that a plan reads. While they are held, their files stay.
pub fn lease(plan: &LogicalPlan) -> Result<Vec<Arc<Release>>> {
    let mut leased = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<ReleaseTable>()
        {
            leased.push(table.release()?);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(leased)
}
