//! Many columns: slicing, which keeps values and breaks links, against generalization, as in the experiments of the paper
//! (Wang, Yu and Zhang, "Anonymous algorithm based on local partition", 2018).
//!
//! Loss (NCP) and association retention of `asg_ls`, `slicing` (in our version and in the paper's) and `k_member` with
//! l = 3, by number of columns, k (10, 15 and 20) and the most columns of an association (3 and 4). On Adult these are the
//! paper's figures.
//!
//! Rules are between nodes of the hierarchies, at the thresholds of the paper (0.2 and 0.8) and with as many columns as
//! associations have.

use datafusion::common::Result;

use crate::columns::{Column, hierarchies, names, quoted};
use crate::people::{AdultRows, People, Wanted};
use crate::plot::{LinePlot, Series, Start};
use crate::table::{Table, number};
use crate::workspace::Workspace;

/// A method, and whether it is our version or the one that the paper prints.
type Method = (&'static str, &'static str);

const METHODS: [Method; 5] = [
    ("asg_ls", "best"),
    ("slicing", "best"),
    ("asg_ls", "paper"),
    ("slicing", "paper"),
    ("k_member", "best"),
];

const KS: [usize; 3] = [10, 15, 20];

/// Columns in the order in which they are added; the first is the sensitive one.
const CENSUS: &[Column] = &[
    ("occupation", Some("occupation_levels")),
    ("age", None),
    ("education", Some("education_levels")),
    ("marital_status", Some("marital_status_levels")),
    ("sex", Some("sex_levels")),
    ("workclass", Some("workclass_levels")),
    ("race", Some("race_levels")),
    ("native_country", Some("native_country_levels")),
    ("hours_per_week", None),
    ("salary_class", None),
    ("zip", Some("prefixes(3, 2, 1)")),
    ("birth_date", Some("date_steps('month', 'year', 'decade')")),
];

const ADULT: &[Column] = &[
    ("occupation", Some("occupation_levels")),
    ("age", None),
    ("education", Some("education_levels")),
    ("marital_status", Some("marital_status_levels")),
    ("sex", Some("sex_levels")),
    ("workclass", Some("workclass_levels")),
    ("race", Some("race_levels")),
    ("native_country", Some("native_country_levels")),
    ("relationship", None),
    ("hours_per_week", None),
    ("education_num", None),
    ("capital_gain", None),
    ("capital_loss", None),
    ("fnlwgt", None),
];

pub async fn run(workspace: &Workspace) -> Result<()> {
    let wanted = Wanted {
        sample: CENSUS,
        sample_rows: 20_000,
        adult: ADULT,
        adult_rows: AdultRows::Complete { at_most: usize::MAX },
    };
    let people = workspace.load_people(&wanted).await?;
    let columns = workspace.points(if people.is_adult { &[5, 10, 14] } else { &[5, 8, 12] });
    let experiment = Experiment { workspace, people, columns };
    for max_columns in [3, 4] {
        experiment.by_k_and_columns(max_columns).await?;
    }
    experiment.by_rare_values().await
}

/// What a report tells about one release.
#[derive(Clone, Copy)]
struct Found {
    loss: f64,
    retention: f64,
    suppressed: f64,
}

/// What is asked of one release.
#[derive(Clone, Copy)]
struct Run {
    /// Columns, the sensitive one included.
    columns: usize,
    k: usize,
    max_columns: usize,
    rare_below: f64,
}

struct Experiment<'a> {
    workspace: &'a Workspace,
    people: People,
    columns: Vec<usize>,
}

impl Experiment<'_> {
    async fn by_k_and_columns(&self, max_columns: usize) -> Result<()> {
        let title = format!("{}, l = 3, at most {max_columns} columns", self.people.title);
        let of_methods =
            |measure: &str| METHODS.map(|(name, variant)| format!("{measure} {name} ({variant})"));
        let measured = [of_methods("NCP"), of_methods("AR")].concat();
        let heads = ["columns", "k"].into_iter().chain(measured.iter().map(String::as_str));
        let heads: Vec<&str> = heads.chain(["suppressed"]).collect();
        let table = Table::start(format!("{title} in an association"), &heads);
        let mut found = Vec::new();
        for columns in self.columns.iter().copied() {
            for k in self.workspace.points(&KS) {
                let run = Run { columns, k, max_columns, rare_below: 0.0 };
                let mut of_run = Vec::with_capacity(METHODS.len());
                for method in METHODS {
                    of_run.push(self.measure(method, run).await?);
                }
                let suppressed: f64 = of_run.iter().map(|found| found.suppressed).sum();
                let losses = of_run.iter().map(|found| number(found.loss));
                let retentions = of_run.iter().map(|found| number(found.retention));
                let cells = [k.to_string()].into_iter().chain(losses).chain(retentions);
                table.row(columns, cells.chain([suppressed.to_string()]));
                found.push((run, of_run));
            }
        }
        table.end();
        let draw = |file: &str, y_label: &str, value: fn(&Found) -> f64| {
            let plot = LinePlot {
                title: title.clone(),
                x_label: "columns".to_owned(),
                y_label: y_label.to_owned(),
                y_start: Start::Zero,
                series: lines(&found, value),
            };
            self.workspace.draw(&format!("{file}_mc{max_columns}.svg"), &plot)
        };
        draw("loss", "NCP", |found| found.loss)?;
        draw("retention", "association retention", |found| found.retention)
    }

    async fn by_rare_values(&self) -> Result<()> {
        let title = &self.people.title;
        let table = Table::start(
            format!("{title}, k = 10, at most 4 columns: values below a share are generalized"),
            &["columns", "rare_below", "NCP asg_ls", "slicing", "AR asg_ls", "slicing"],
        );
        for columns in self.columns.iter().copied() {
            for rare_below in [0.00005, 0.0005] {
                let run = Run { columns, k: 10, max_columns: 4, rare_below };
                let asg_ls = self.measure(METHODS[0], run).await?;
                let slicing = self.measure(METHODS[1], run).await?;
                let cells = [asg_ls.loss, slicing.loss, asg_ls.retention, slicing.retention];
                table.row(columns, [rare_below.to_string()].into_iter().chain(cells.map(number)));
            }
        }
        table.end();
        Ok(())
    }

    async fn measure(&self, (method, variant): Method, run: Run) -> Result<Found> {
        let columns = &self.people.columns[..run.columns];
        let (sensitive, quasi_identifiers) = (columns[0].0, &columns[1..]);
        let roles = format!(
            "quasi_identifiers => [{}], sensitive => ['{sensitive}']",
            quoted(&names(quasi_identifiers))
        );
        // Only slicing looks at the hierarchy of the sensitive column.
        let how = match method {
            "k_member" => hierarchies(quasi_identifiers),
            _ => format!(
                "{}, max_columns => {}, variant => '{variant}'",
                hierarchies(columns),
                run.max_columns
            ),
        };
        let rare = match run.rare_below > 0.0 {
            true => format!(", rare_below => {}", run.rare_below),
            false => String::new(),
        };
        let original = format!("(SELECT {} FROM people)", names(columns).join(", "));
        let release = format!(
            "anonymize({original}, k => {}, l => 3, method => '{method}', suppression_limit => 1, \
             {roles}, seed => 1{how}{rare})",
            run.k
        );
        let report = format!(
            "utility_report({original}, {release}, {roles}{}, min_support => 0.2, \
             min_confidence => 0.8, max_columns => {})",
            hierarchies(columns),
            run.max_columns
        );
        let measures = self.workspace.measures(&report).await?;
        Ok(Found {
            loss: measures.get("ncp")?,
            retention: measures.get("association_retention")?,
            suppressed: measures.get("suppressed_rows")?,
        })
    }
}

/// For every method a line by columns with the smallest and one with the largest k.
fn lines(found: &[(Run, Vec<Found>)], value: fn(&Found) -> f64) -> Vec<Series> {
    let lines = METHODS.iter().enumerate().flat_map(|(method, (name, variant))| {
        [10, 20].map(|k| {
            let of_k = found.iter().filter(|(run, _)| run.k == k);
            let points = of_k.map(|(run, found)| (run.columns as f64, value(&found[method])));
            Series { name: format!("{name} ({variant}), k = {k}"), points: points.collect() }
        })
    });
    lines.collect()
}
