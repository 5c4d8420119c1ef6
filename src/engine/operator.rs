//! What the operators of releases and of reports share.

use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;

use super::join_error;

/// What `ExecutionPlan` requires of every operator and is the same in ours: none evaluates expressions.
macro_rules! common_plan_methods {
    () => {
        fn apply_expressions(
            &self,
            _f: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            ) -> datafusion::common::Result<
                datafusion::common::tree_node::TreeNodeRecursion,
            >,
        ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }

        fn with_new_children(
            self: std::sync::Arc<Self>,
            children: Vec<std::sync::Arc<dyn ExecutionPlan>>,
        ) -> datafusion::common::Result<std::sync::Arc<dyn ExecutionPlan>> {
            use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode::Recompute;
            self.replace_children(children, ReplaceChildrenOptions::new(Recompute))
        }
    };
}
pub(super) use common_plan_methods;

/// Runs work on a thread of its own. It starts at once, not when it is first polled: batches are made ahead.
pub(super) fn running<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> impl Future<Output = Result<T>> + Send {
    let task = SpawnedTask::spawn_blocking(work);
    async { task.join().await.map_err(join_error)? }
}
