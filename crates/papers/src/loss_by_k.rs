//! How much every method loses, by k.
//!
//! Loss is NCP per cell: 0 for an exact value, 1 for `*`, 1 for every cell of a row that is suppressed. Age is published as
//! a range and counted against the range of all ages; the other columns climb their hierarchies. `alpha_k` is not here: it
//! publishes quasi-identifiers as they are.

use std::sync::Arc;
use std::time::Instant;

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::TryStreamExt;

use crate::columns::{Column, hierarchies, names, quoted};
use crate::people::{AdultRows, Wanted};
use crate::plot::{LinePlot, Series, Start};
use crate::table::{Table, number};
use crate::workspace::{Workspace, release_in};

const KS: [u32; 6] = [2, 5, 10, 25, 50, 100];

const METHODS: [&str; 10] = [
    "layered",
    "rounded",
    "mondrian",
    "mondrian_relaxed",
    "k_member",
    "kaim",
    "bottom_up",
    "top_down",
    "classfly",
    "datafly",
];

const QUASI_IDENTIFIERS: &[Column] = &[
    ("sex", Some("sex_levels")),
    ("age", None),
    ("race", Some("race_levels")),
    ("marital_status", Some("marital_status_levels")),
    ("education", Some("education_levels")),
    ("native_country", Some("native_country_levels")),
    ("workclass", Some("workclass_levels")),
    ("salary_class", Some("salary_class_levels")),
];

pub async fn run(workspace: &Workspace) -> Result<()> {
    let wanted = Wanted {
        sample: QUASI_IDENTIFIERS,
        sample_rows: 30_162,
        adult: QUASI_IDENTIFIERS,
        adult_rows: AdultRows::Training,
    };
    let people = workspace.load_people(&wanted).await?;
    let ks = workspace.points(&KS);
    let shown: Vec<String> = ks.iter().map(u32::to_string).collect();
    let heads = ["k"].into_iter().chain(shown.iter().map(String::as_str)).chain(["seconds"]);
    let title = format!("Loss (NCP per cell), {}", people.title);
    let table = Table::start(&title, &heads.collect::<Vec<_>>());
    let mut series = Vec::new();
    for method in METHODS {
        let start = Instant::now();
        let mut points = Vec::new();
        for k in &ks {
            points.push((f64::from(*k), loss(workspace, method, *k).await?));
        }
        let seconds = format!("{:.1}", start.elapsed().as_secs_f64());
        table.row(method, points.iter().map(|(_, loss)| number(*loss)).chain([seconds]));
        series.push(Series { name: method.to_owned(), points });
    }
    table.end();
    let (x_label, y_label) = ("k".to_owned(), "NCP per cell".to_owned());
    let plot = LinePlot { title, x_label, y_label, y_start: Start::Zero, series };
    workspace.draw("loss.svg", &plot)
}

/// The loss that the operator reports.
async fn loss(workspace: &Workspace, method: &str, k: u32) -> Result<f64> {
    // What a method leaves out counts as lost, however much it is.
    let sql = format!(
        "SELECT * FROM anonymize(people, k => {k}, method => '{method}', suppression_limit => 1, \
         quasi_identifiers => [{}]{}, seed => 1)",
        quoted(&names(QUASI_IDENTIFIERS)),
        hierarchies(QUASI_IDENTIFIERS)
    );
    let plan = workspace.context.sql(&sql).await?.create_physical_plan().await?;
    let mut rows = execute_stream(Arc::clone(&plan), workspace.context.task_ctx())?;
    while rows.try_next().await?.is_some() {}
    let metrics = release_in(&plan)?.metrics().unwrap_or_default();
    let loss = metrics.iter().find(|metric| metric.value().name() == "loss");
    let loss = loss.and_then(|metric| metric.value().to_string().parse().ok());
    loss.ok_or_else(|| exec_datafusion_err!("the operator reports no loss"))
}
