//! From one operator to the steps of a release in cells.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};

use super::CellExec;
use super::step::{CELL_KEY, CellColumns, CellStep, class_order, row_order};
use crate::engine::exec::{AnonymizeExec, pipeline};
use crate::engine::options::AnonymizeConfig;

type Plan = Arc<dyn ExecutionPlan>;

/// Makes releases in cells where `anonymize.cells` asks for it and the method allows it. It must be the last
/// rule: nothing may come between the steps.
#[derive(Debug, Default)]
pub struct PlanCells;

impl PhysicalOptimizerRule for PlanCells {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        let cells = AnonymizeConfig::of(config).cells;
        if cells < 2 {
            return Ok(plan);
        }
        let in_cells = |plan: Plan| {
            let Some(release) = plan.downcast_ref::<AnonymizeExec>() else {
                return Ok(Transformed::no(plan));
            };
            if release.spec.series.is_some() {
                return plan_err!(
                    "option 'series': a release of a series is not made in cells: SET anonymize.cells = 0"
                );
            }
            let plan: Plan = match release.spec.method.works_in_cells() {
                true => steps(release, cells, config)?,
                false => Arc::new(release.in_one_task()),
            };
            Ok(Transformed::yes(plan))
        };
        plan.transform_up(in_cells).data()
    }

    fn name(&self) -> &str {
        "PlanCells"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The steps of a release over its input, which is read three times.
fn steps(release: &AnonymizeExec, cells: u32, config: &ConfigOptions) -> Result<Plan> {
    let new = |step: CellStep, children: Vec<Plan>| -> Result<Plan> {
        Ok(Arc::new(CellExec::try_new(Arc::clone(&release.spec), cells, step, children)?))
    };
    let layout =
        pipeline::layout(&release.spec, &release.binding, release.input.schema(), Vec::new());
    let of_input = CellColumns {
        quasi_identifiers: layout.quasi_identifiers.clone(),
        modelled: layout.modelled.clone(),
    };
    let target = config.execution.target_partitions.max(1);
    let partitions = target.min(cells as usize);
    let tables = || release.tables.iter().map(|of| reset_plan_states(Arc::clone(of)));

    let (input, columns) = project_input(release, &layout.quasi_identifiers, &[], config)?;
    let input_schema = input.schema();
    let sketch = new(CellStep::Sketch(columns.clone()), vec![input])?;
    let mut children = vec![coalesced(sketch)];
    children.extend(tables().collect::<Result<Vec<Plan>>>()?);
    let survey = new(CellStep::Survey { columns, input_schema }, children)?;

    let (input, columns) =
        project_input(release, &layout.quasi_identifiers, &layout.modelled, config)?;
    let input_schema = input.schema();
    let count = new(CellStep::Count(columns.clone()), vec![coalesced(survey), input])?;
    let arrange = CellStep::Arrange { columns, input_schema, partitions };
    let arrange = new(arrange, vec![coalesced(count)])?;

    let input = reset_plan_states(Arc::clone(&release.input))?;
    let assign = new(CellStep::Assign(of_input), vec![coalesced(arrange), input])?;

    let key = Arc::new(Column::new_with_schema(CELL_KEY, &assign.schema())?);
    let exchange: Plan =
        Arc::new(RepartitionExec::try_new(assign, Partitioning::Hash(vec![key], partitions))?);
    let mut children = vec![exchange];
    children.extend(tables().collect::<Result<Vec<Plan>>>()?);
    let step = CellStep::Release {
        binding: release.binding.clone(),
        input_schema: release.input.schema(),
        schema: release.schema(),
        projection: release.shape.projection.clone(),
        order_by: release.shape.order_by.clone(),
    };
    let classes = new(step, children)?;

    let order = row_order(&classes.schema())?;
    let sorted: Plan = Arc::new(SortExec::new(order, classes).with_preserve_partitioning(true));
    let order = class_order(&sorted.schema())?;
    let merged: Plan = Arc::new(SortPreservingMergeExec::new(order, sorted));
    let step = CellStep::Gather {
        schema: release.schema(),
        class_ids: release.class_id_columns(),
        fetch: release.shape.fetch,
    };
    new(step, vec![merged])
}

/// All partitions of a step's notes as one. Always an operator of its own: on a cluster it is where one
/// stage ends and the next begins.
fn coalesced(notes: Plan) -> Plan {
    Arc::new(CoalescePartitionsExec::new(notes))
}

/// The input with the columns that a step needs, and where they are then. The plan shares no state with the
/// original.
fn project_input(
    release: &AnonymizeExec,
    quasi_identifiers: &[usize],
    modelled: &[usize],
    config: &ConfigOptions,
) -> Result<(Plan, CellColumns)> {
    let mut needed: Vec<usize> = quasi_identifiers.iter().chain(modelled).copied().collect();
    needed.sort_unstable();
    needed.dedup();
    let schema = release.input.schema();
    let column = |at: &usize| ProjectionExpr {
        expr: Arc::new(Column::new(schema.field(*at).name(), *at)),
        alias: schema.field(*at).name().clone(),
    };
    let input = reset_plan_states(Arc::clone(&release.input))?;
    let partitions = input.output_partitioning().partition_count();
    let projection =
        ProjectionExec::try_new(needed.iter().map(column).collect::<Vec<ProjectionExpr>>(), input)?;
    let projected = ProjectionPushdown::new().optimize(Arc::new(projection), config)?;
    let places = |columns: &[usize]| {
        columns.iter().filter_map(|column| needed.binary_search(column).ok()).collect()
    };
    let columns =
        CellColumns { quasi_identifiers: places(quasi_identifiers), modelled: places(modelled) };
    debug_assert_eq!(projected.output_partitioning().partition_count(), partitions);
    Ok((projected, columns))
}
