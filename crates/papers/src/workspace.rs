//! What every experiment needs: a session, how large it is to be, and releases with what they tell of themselves.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use datafusion_anonymize::AnonymizeExec;

/// Rows of `--quick`.
const QUICK_ROWS: usize = 2_000;

/// How the experiments are run.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// Whether to try everything on few rows, with few points and runs.
    pub quick: bool,
    /// The directory of the Adult census; `sample_census` without it.
    pub adult: Option<PathBuf>,
}

/// The session of one experiment, and its setting.
pub struct Workspace {
    pub(crate) context: SessionContext,
    pub(crate) setting: Setting,
}

impl Workspace {
    pub(crate) fn new(setting: &Setting) -> Result<Self> {
        let context = SessionContext::new();
        datafusion_anonymize::register_all(&context)?;
        anonymize_sample::register(&context)?;
        Ok(Self { context, setting: setting.clone() })
    }

    /// This many rows, or the few of a quick run.
    pub(crate) fn rows(&self, rows: usize) -> usize {
        if self.setting.quick { rows.min(QUICK_ROWS) } else { rows }
    }

    /// This many repetitions, or one.
    pub(crate) fn runs(&self, runs: usize) -> usize {
        if self.setting.quick { 1 } else { runs }
    }

    /// All points of an axis; of a quick run the first and the last.
    pub(crate) fn points<T: Copy>(&self, all: &[T]) -> Vec<T> {
        match all {
            [first, .., last] if self.setting.quick => vec![*first, *last],
            all => all.to_vec(),
        }
    }

    /// A table in memory, in place of one that has this name.
    pub(crate) fn register(&self, name: &str, rows: RecordBatch) -> Result<()> {
        let table = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
        self.context.deregister_table(name)?;
        self.context.register_table(name, Arc::new(table))?;
        Ok(())
    }

    pub(crate) async fn query(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        self.context.sql(sql).await?.collect().await
    }

    /// The numbers of a query that has one row.
    pub(crate) async fn numbers(&self, sql: &str) -> Result<Vec<f64>> {
        let batches = self.query(sql).await?;
        numbers(&batches)
    }

    /// What a report says of the whole table, or of the column it speaks of where it says nothing of the table.
    pub(crate) async fn measures(&self, report: &str) -> Result<Measures> {
        let sql = format!("SELECT measure, value FROM {report} ORDER BY column_name NULLS FIRST");
        let mut measures = HashMap::new();
        for batch in self.query(&sql).await? {
            let names = batch.column(0).as_string::<i32>().iter().flatten();
            for (name, value) in names.zip(batch.column(1).as_primitive::<Float64Type>()) {
                // A measure may be NULL: no rule can be kept where there is none.
                measures.entry(name.to_owned()).or_insert(value.unwrap_or(f64::NAN));
            }
        }
        Ok(Measures(measures))
    }

    /// Runs a query that makes a release.
    pub(crate) async fn release(&self, sql: &str) -> Result<Release> {
        let plan = self.context.sql(sql).await?.create_physical_plan().await?;
        let batches = collect(Arc::clone(&plan), self.context.task_ctx()).await?;
        Ok(Release { plan, batches })
    }
}

/// The numbers of the only row.
pub(crate) fn numbers(batches: &[RecordBatch]) -> Result<Vec<f64>> {
    let row = batches.iter().find(|batch| batch.num_rows() == 1);
    let row = row.ok_or_else(|| exec_datafusion_err!("the query has no row"))?;
    let number = |column: &ArrayRef| {
        let column = cast(column, &DataType::Float64)?;
        let column = column.as_primitive::<Float64Type>();
        Ok(if column.is_null(0) { f64::NAN } else { column.value(0) })
    };
    row.columns().iter().map(number).collect()
}

/// What a query that makes a release gave.
pub(crate) struct Release {
    plan: Arc<dyn ExecutionPlan>,
    pub(crate) batches: Vec<RecordBatch>,
}

impl Release {
    /// Milliseconds from codes to classes.
    pub(crate) fn forming(&self) -> Result<f64> {
        let metrics = release_in(&self.plan)?.metrics().unwrap_or_default();
        let time = metrics.sum_by_name("partition_time");
        let time = time.ok_or_else(|| exec_datafusion_err!("the operator reports no time"))?;
        Ok(time.as_usize() as f64 / 1e6)
    }

    /// NCP per cell.
    pub(crate) fn loss(&self) -> Result<f64> {
        let metrics = release_in(&self.plan)?.metrics().unwrap_or_default();
        let loss = metrics.iter().find(|metric| metric.value().name() == "loss");
        let loss = loss.and_then(|metric| metric.value().to_string().parse().ok());
        loss.ok_or_else(|| exec_datafusion_err!("the operator reports no loss"))
    }
}

/// The measures of a report by name.
pub(crate) struct Measures(HashMap<String, f64>);

impl Measures {
    /// NaN for a measure that is NULL.
    pub(crate) fn get(&self, name: &str) -> Result<f64> {
        let found = self.0.get(name).copied();
        found.ok_or_else(|| exec_datafusion_err!("no {name} in the report"))
    }
}

/// The operator of a release in a plan.
fn release_in(plan: &Arc<dyn ExecutionPlan>) -> Result<&AnonymizeExec> {
    fn find(plan: &Arc<dyn ExecutionPlan>) -> Option<&AnonymizeExec> {
        let below = || plan.children().into_iter().find_map(find);
        plan.downcast_ref::<AnonymizeExec>().or_else(below)
    }
    find(plan).ok_or_else(|| exec_datafusion_err!("the plan has no release"))
}
