//! How much every method loses, by k.
//!
//! Loss is NCP per cell: 0 for an exact value, 1 for `*`, 1 for every cell of a row that is suppressed. Age is published as
//! a range and counted against the range of all ages; the other columns climb their hierarchies. `alpha_k` is not here: it
//! publishes quasi-identifiers as they are.

use datafusion::common::Result;

use crate::Report;
use crate::columns::{Column, names, quoted};
use crate::line::Line;
use crate::people::{AdultRows, Wanted};
use crate::plot::{LinePlot, Start};
use crate::workspace::Workspace;

const KS: [f64; 6] = [2.0, 5.0, 10.0, 25.0, 50.0, 100.0];

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

/// Lines that can still be told apart in one plot.
const LINES: usize = 5;

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

pub async fn run(workspace: &Workspace) -> Result<Report> {
    let wanted = Wanted {
        sample: QUASI_IDENTIFIERS.to_vec(),
        sample_rows: 30_162,
        adult: QUASI_IDENTIFIERS.to_vec(),
        adult_rows: AdultRows::Training,
    };
    let people = workspace.load_people(&wanted).await?;
    let ks = workspace.points(&KS);
    let mut lines = Vec::new();
    for method in METHODS {
        let loss = async |k| loss(workspace, method, k).await;
        lines.push(Line::measure(method.to_owned(), &ks, loss).await);
    }
    let plot = |(number, lines): (usize, &[Line])| LinePlot {
        title: format!("Loss of every method, {} of 2", number + 1),
        setting: String::new(),
        axis: "k".to_owned(),
        y_label: "NCP per cell".to_owned(),
        start: Start::Zero,
        lines: lines.to_vec(),
    };
    let plots = lines.chunks(LINES).enumerate().map(plot).collect();
    Ok(Report { people: people.title, plots, claims: Vec::new() })
}

/// The loss that the operator reports.
async fn loss(workspace: &Workspace, method: &str, k: f64) -> Result<f64> {
    // What a method leaves out counts as lost, however much it is.
    let sql = format!(
        "SELECT * FROM anonymize(people, k => {k}, method => '{method}', suppression_limit => 1, \
         quasi_identifiers => [{}]{}, seed => 1)",
        quoted(&names(QUASI_IDENTIFIERS)),
        workspace.hierarchies(QUASI_IDENTIFIERS)
    );
    workspace.release(&sql).await?.loss()
}
