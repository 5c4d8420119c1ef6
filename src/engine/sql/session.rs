//! Registering the functions with a session.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};

use super::methods::{self, Methods};
use super::planner::AnonymizeRelationPlanner;
#[cfg(feature = "cells")]
use crate::engine::exec::PlanCells;
use crate::engine::options::{AnonymizeConfig, SessionSecret};
use crate::engine::planning_error;
#[cfg(feature = "cluster")]
use crate::engine::rules::ignoring_file_statistics;
use crate::engine::rules::{AnonymizeQueryPlanner, IgnoreFileStatistics, OrderByVisibleColumns};
use crate::engine::staging::StageReleases;
use crate::model::Secret;

/// Registers everything: the SQL functions, the settings and the planning of their operators.
///
/// ```
/// # use datafusion::prelude::SessionContext;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let context = SessionContext::new();
/// datafusion_anonymize::register_all(&context)?;
/// anonymize_sample::register(&context)?;
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
    *state = with_planning(state.clone());
    Ok(())
}

/// A session that plans the operators of this crate, without the SQL functions: what a cluster's scheduler
/// needs, which gets its plans from elsewhere.
pub fn with_planning(state: SessionState) -> SessionState {
    let inner = Arc::clone(state.query_planner());
    let session_id = state.session_id().to_owned();
    // Before the session's own rules: the first of them would answer aggregates from file statistics.
    let first = std::iter::once(Arc::new(IgnoreFileStatistics::default()) as _);
    let rules = first.chain(state.physical_optimizers().iter().cloned()).collect();
    let state = SessionStateBuilder::new_from_existing(state)
        .with_session_id(session_id)
        .with_query_planner(Arc::new(AnonymizeQueryPlanner::new(inner)))
        .with_physical_optimizer_rules(rules)
        .with_physical_optimizer_rule(Arc::new(OrderByVisibleColumns));
    #[cfg(feature = "cells")]
    let state = state.with_physical_optimizer_rule(Arc::new(PlanCells));
    state.with_physical_optimizer_rule(Arc::new(StageReleases)).build()
}

/// The same for an engine that runs every partition of a scan in a task of its own, as Ballista does. Queries without an
/// operator of this crate read what is in their files too.
#[cfg(feature = "cluster")]
pub fn with_cluster_planning(state: SessionState) -> SessionState {
    let planner = AnonymizeQueryPlanner::for_cluster(Arc::clone(state.query_planner()));
    let session_id = state.session_id().to_owned();
    let rules = ignoring_file_statistics(state.physical_optimizers());
    SessionStateBuilder::new_from_existing(state)
        .with_session_id(session_id)
        .with_query_planner(Arc::new(planner))
        .with_physical_optimizer_rules(rules)
        .build()
}

/// The settings of this crate, which `SET anonymize.… = …` changes.
pub fn with_settings(mut config: SessionConfig) -> SessionConfig {
    let options = config.options_mut();
    options.extensions.insert(AnonymizeConfig::default());
    // Releases say in their schemas how they were made. Where two of them are united, the logical and the
    // physical plan merge these notes differently, and a check that an aggregate makes for its own sake would
    // refuse the query.
    options.execution.skip_physical_aggregate_schema_check = true;
    config
}

/// Gives queries of this session that name no seed this one, as `seed => …` would: a host keeps the secret
/// out of the texts of its queries. Call it after [`register_all`].
pub fn use_seed(context: &SessionContext, seed: &str) -> Result<()> {
    let state = context.state_ref();
    let secret = Secret::from_text(seed).map_err(planning_error)?;
    let secret = SessionSecret { secret, is_named: true };
    state.write().config_mut().set_extension(Arc::new(secret));
    Ok(())
}

/// Registers the SQL functions and the settings only, for hosts that plan elsewhere (a cluster's
/// scheduler) or put [`AnonymizeExtensionPlanner`](crate::engine::AnonymizeExtensionPlanner) into a query planner of their own. Such a host
/// also adds the rules of [`with_planning`] to its physical optimizer; without them the rows of a class leave
/// in the order of a keyed hash, which tells nothing but does not compress as well, no table is cut into cells, and
/// a `COPY` that fails can leave a part of a release.
pub fn register_sql(context: &SessionContext) -> Result<()> {
    let secret = SessionSecret::drawn()?;
    {
        let state = context.state_ref();
        let mut state = state.write();
        let config = state.config_mut();
        *config = with_settings(std::mem::take(config));
        config.set_extension(Arc::new(secret));
    }
    context.register_udtf(methods::NAME, Arc::new(Methods));
    let planner = AnonymizeRelationPlanner::new(context.state_weak_ref());
    context.register_relation_planner(Arc::new(planner))
}
