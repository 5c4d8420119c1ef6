//! The functions in SQL, and the sessions that know them.

mod arguments;
mod methods;
mod planner;
mod reports;
mod session;

pub use planner::AnonymizeRelationPlanner;
#[cfg(feature = "cluster")]
pub use session::with_cluster_planning;
pub use session::{register_all, register_sql, use_seed, with_planning, with_settings};
