//! Teaching a session the functions.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::config::AnonymizeConfig;
use super::exec::PlanCells;
use super::execution_error;
use super::physical::AnonymizeQueryPlanner;
use super::planner::AnonymizeRelationPlanner;
use super::visible_order::OrderByVisibleColumns;
use crate::model::Seed;

/// The seed of queries that name none, drawn once so that queries of a session agree.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionSeed(pub(super) Seed);

impl SessionSeed {
    pub(super) fn of(config: &SessionConfig) -> Result<Seed> {
        match config.get_extension::<Self>() {
            Some(seed) => Ok(seed.0),
            None => Seed::random().map_err(execution_error),
        }
    }
}

/// Registers everything: the SQL functions, the settings and the planning of their operators.
///
/// ```
/// # use datafusion::prelude::SessionContext;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let context = SessionContext::new();
/// datafusion_anonymize::register_all(&context)?;
/// let release = context
///     .sql("SELECT * FROM anonymize(
///             (SELECT age, zip, occupation FROM sample_census(rows => 1000)),
///             k => 10, quasi_identifiers => ['age', 'zip'], sensitive => ['occupation'])")
///     .await?;
/// assert_eq!(release.count().await?, 1000);
/// # Ok(())
/// # }
/// ```
pub fn register_all(context: &SessionContext) -> Result<()> {
    register_sql(context)?;
    let state = context.state_ref();
    let mut state = state.write();
    let inner = Arc::clone(state.query_planner());
    let session_id = state.session_id().to_owned();
    let planner = Arc::new(AnonymizeQueryPlanner::new(inner));
    *state = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(session_id)
        .with_query_planner(planner)
        .with_physical_optimizer_rule(Arc::new(OrderByVisibleColumns))
        .with_physical_optimizer_rule(Arc::new(PlanCells))
        .build();
    Ok(())
}

/// Registers the SQL functions and the settings only, for hosts that plan elsewhere (a cluster's
/// scheduler) or put [`super::AnonymizeExtensionPlanner`] into a query planner of their own. Such a host
/// also adds [`OrderByVisibleColumns`] to its physical optimizer; without it the rows of a class leave in
/// the order of a keyed hash, which tells nothing but does not compress as well.
pub fn register_sql(context: &SessionContext) -> Result<()> {
    let seed = Seed::random().map_err(execution_error)?;
    {
        let state = context.state_ref();
        let mut state = state.write();
        let config = state.config_mut();
        config.set_extension(Arc::new(SessionSeed(seed)));
        config.options_mut().extensions.insert(AnonymizeConfig::default());
        // Releases say in their schemas how they were made. Where two of them are united, the
        // logical and the physical plan merge these notes differently, and a check that an aggregate
        // makes for its own sake would refuse the query.
        config.options_mut().execution.skip_physical_aggregate_schema_check = true;
    }
    let planner = AnonymizeRelationPlanner::new(context.state_weak_ref());
    context.register_relation_planner(Arc::new(planner))
}
