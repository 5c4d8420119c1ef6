//! What every experiment needs: a session, how large it is to be, and a place for its plots.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_anonymize::AnonymizeExec;

use crate::plot::LinePlot;

/// Rows of `--quick`.
const QUICK_ROWS: usize = 2_000;

/// How the experiments are run.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Whether to try everything on few rows, with few points and runs.
    pub quick: bool,
    /// Where each experiment has a directory for its plots.
    pub output: PathBuf,
    /// The directory of the Adult census; `sample_census` without it.
    pub adult: Option<PathBuf>,
}

/// The session of one experiment, its setting, and the directory of its plots.
pub struct Workspace {
    pub(crate) context: SessionContext,
    pub(crate) setting: Setting,
    plots: PathBuf,
}

impl Workspace {
    pub(crate) fn new(setting: &Setting, experiment: &str) -> Result<Self> {
        let plots = setting.output.join(experiment);
        std::fs::create_dir_all(&plots)?;
        let context = SessionContext::new();
        datafusion_anonymize::register_all(&context)?;
        anonymize_sample::register(&context)?;
        Ok(Self { context, setting: setting.clone(), plots })
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

    pub(crate) async fn query(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        self.context.sql(sql).await?.collect().await
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

    pub(crate) fn draw(&self, file: &str, plot: &LinePlot) -> Result<()> {
        Ok(std::fs::write(self.plots.join(file), plot.to_svg())?)
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
pub(crate) fn release_in(plan: &Arc<dyn ExecutionPlan>) -> Result<&AnonymizeExec> {
    fn find(plan: &Arc<dyn ExecutionPlan>) -> Option<&AnonymizeExec> {
        let below = || plan.children().into_iter().find_map(find);
        plan.downcast_ref::<AnonymizeExec>().or_else(below)
    }
    find(plan).ok_or_else(|| exec_datafusion_err!("the plan has no release"))
}
