//! Tables with missing cells: `kaim`, which keeps incomplete rows, against `k_member`, which drops them, as in the
//! experiments of the paper (Gong, Yang and Luo, "Data anonymization approach for incomplete microdata", 2013).
//!
//! ILossRate by k, by number of quasi-identifiers, by rows, by VMR (the share of missing cells, from that of the table up
//! to 30 % by deleting cells at random), and over 20 seeds.
//!
//! As in the paper, `k_member` gets no record with a missing value in any of the columns, used or not. ILossRate counts a
//! row that is not published as lost in every column. Where fewer than k rows are complete `k_member` publishes
//! nothing, and its ILossRate is 1.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, nullif, take};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion_anonymize::pure::method::{Family, methods};

use crate::Report;
use crate::columns::{Column, names, quoted};
use crate::line::Line;
use crate::people::{AdultRows, People, Wanted};
use crate::plot::{LinePlot, Start};
use crate::random::Random;
use crate::variant::Variant;
use crate::workspace::{Measures, Workspace};
use claims::{K_MEMBER, KAIM, Plots};

mod claims;

const KS: [f64; 3] = [2.0, 5.0, 10.0];

/// Tables of the paper are random parts of the whole.
const PARTS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// Shares of missing cells, after that of the table itself.
const MISSING: [f64; 7] = [0.03, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3];

/// The same where all methods are compared, after that of a table without missing cells.
const MISSING_OF_ALL: [f64; 3] = [0.05, 0.1, 0.3];

const SEEDS: usize = 20;

/// Quasi-identifiers in the order of the paper; ages are ranges.
const COLUMNS: &[Column] = &[
    ("age", None),
    ("sex", Some("sex_levels")),
    ("race", Some("race_levels")),
    ("marital_status", Some("marital_status_levels")),
    ("education", Some("education_levels")),
    ("native_country", Some("native_country_levels")),
    ("workclass", Some("workclass_levels")),
    ("occupation", Some("occupation_levels")),
];

/// Deleted from `sample_census`, which misses less than Adult.
const SAMPLE_MISSING: f64 = 0.0165;

pub async fn run(workspace: &Workspace) -> Result<Report> {
    let wanted = Wanted {
        sample: COLUMNS.to_vec(),
        sample_rows: 20_000,
        adult: COLUMNS.to_vec(),
        adult_rows: AdultRows::All,
    };
    let people = workspace.load_people(&wanted).await?;
    let mut own = workspace.numbers(&missing_share("people")).await?[0];
    if !people.is_adult && own < SAMPLE_MISSING {
        delete_cells(workspace, "people", (SAMPLE_MISSING - own) / (1.0 - own)).await?;
        own = workspace.numbers(&missing_share("people")).await?[0];
    }
    let experiment = Experiment { workspace, people: &people };
    let mut plots = Plots::default();
    for columns in workspace.points(&[2, 5, 8]) {
        plots.by_k.push(experiment.by_k(columns).await);
    }
    for k in workspace.points(&KS) {
        plots.by_columns.push(experiment.by_columns(k).await);
        plots.by_rows.push(experiment.by_rows(k).await?);
        plots.by_seed.push(experiment.by_seed(k).await);
    }
    let missing: Vec<f64> = [own].into_iter().chain(MISSING).collect();
    let missing = experiment.tables_with_holes(&workspace.points(&missing)).await?;
    plots.by_missing = Some(experiment.by_missing(&missing).await);
    plots.parts = Some(experiment.parts(&missing).await);
    let claims = plots.claims();
    let mut plots = plots.into_plots();
    plots.push(experiment.all_methods(own).await?);
    Ok(Report { people: people.title, plots, claims })
}

/// One release and its report.
#[derive(Clone, Copy)]
struct Run<'a> {
    table: &'a str,
    columns: usize,
    k: f64,
    seed: f64,
    /// Further options, each with its comma before it.
    options: &'a str,
}

impl Run<'_> {
    async fn rate(&self, workspace: &Workspace, method: &str, variant: Variant) -> Result<f64> {
        self.measures(workspace, method, variant).await?.get("iloss_rate")
    }

    async fn measures(
        &self,
        workspace: &Workspace,
        method: &str,
        variant: Variant,
    ) -> Result<Measures> {
        let columns = &COLUMNS[..self.columns];
        let list = names(columns).join(", ");
        let complete = match method {
            K_MEMBER => format!(" WHERE {}", all_complete()),
            _ => String::new(),
        };
        let roles = format!("quasi_identifiers => [{}]", quoted(&names(columns)));
        let hierarchies = workspace.hierarchies(columns);
        let release = format!(
            "anonymize((SELECT {list} FROM {}{complete}), k => {}, method => '{method}', suppression_limit => 1, \
             {roles}, seed => {}{hierarchies}{}{})",
            self.table,
            self.k,
            self.seed,
            variant.option(),
            self.options
        );
        let report = |release: &str| {
            format!(
                "utility_report((SELECT {list} FROM {}), {release}, {roles}{hierarchies})",
                self.table
            )
        };
        let count = format!("SELECT count(*) FROM {}{complete}", self.table);
        match workspace.numbers(&count).await?[0] >= self.k {
            true => workspace.measures(&report(&release)).await,
            false => {
                // Nothing is published: everything is lost.
                let texts = names(columns)
                    .into_iter()
                    .map(|name| format!("CAST({name} AS VARCHAR) AS {name}"));
                let texts = texts.collect::<Vec<_>>().join(", ");
                let nothing = format!("(SELECT {texts} FROM {} WHERE false)", self.table);
                workspace.measures(&report(&nothing)).await
            }
        }
    }
}

fn all_complete() -> String {
    let complete = names(COLUMNS).into_iter().map(|name| format!("{name} IS NOT NULL"));
    complete.collect::<Vec<_>>().join(" AND ")
}

/// VMR in SQL.
fn missing_share(table: &str) -> String {
    let missing = names(COLUMNS).into_iter().map(|name| format!("(count(*) - count({name}))"));
    let missing = missing.collect::<Vec<_>>().join(" + ");
    format!("SELECT CAST({missing} AS DOUBLE) / {} / count(*) FROM {table}", COLUMNS.len())
}

/// A table with more cells missing, and its VMR in per cent.
struct WithHoles {
    table: String,
    percent: f64,
}

struct Experiment<'a> {
    workspace: &'a Workspace,
    people: &'a People,
}

impl Experiment<'_> {
    /// ILossRate of both methods in both versions.
    async fn rates<'a>(&self, places: &[f64], run: impl Fn(f64) -> Run<'a>) -> Vec<Line> {
        let mut lines = Vec::new();
        for method in [KAIM, K_MEMBER] {
            for variant in Variant::BOTH {
                let measure = async |place| run(place).rate(self.workspace, method, variant).await;
                lines.push(Line::measure(variant.name(method), places, measure).await);
            }
        }
        lines
    }

    async fn by_k(&self, columns: usize) -> LinePlot {
        let run = |k| Run { table: "people", columns, k, seed: 1.0, options: "" };
        let lines = self.rates(&self.workspace.points(&KS), run).await;
        plot("k", &format!("{columns} quasi-identifiers"), lines)
    }

    async fn by_columns(&self, k: f64) -> LinePlot {
        let run = |columns: f64| Run {
            table: "people",
            columns: columns as usize,
            k,
            seed: 1.0,
            options: "",
        };
        let all: Vec<f64> = (2..=COLUMNS.len()).map(|columns| columns as f64).collect();
        let lines = self.rates(&self.workspace.points(&all), run).await;
        plot("quasi-identifiers", &format!("k = {k}"), lines)
    }

    async fn by_rows(&self, k: f64) -> Result<LinePlot> {
        let mut tables = Vec::new();
        for part in self.workspace.points(&PARTS) {
            let rows = (part * self.people.rows as f64).round();
            tables.push((rows, self.workspace.sample_people(rows as usize).await?));
        }
        let run = |rows: f64| {
            let table = tables
                .iter()
                .find(|table| table.0 == rows)
                .map_or("people", |table| table.1.as_str());
            Run { table, columns: COLUMNS.len(), k, seed: 1.0, options: "" }
        };
        let rows: Vec<f64> = tables.iter().map(|table| table.0).collect();
        Ok(plot("rows", &format!("k = {k}"), self.rates(&rows, run).await))
    }

    /// The release is drawn anew with every seed: how far its loss moves.
    async fn by_seed(&self, k: f64) -> LinePlot {
        let seeds: Vec<f64> = (1..=SEEDS).map(|seed| seed as f64).collect();
        let mut lines = Vec::new();
        for variant in Variant::BOTH {
            let measure = async |seed| {
                let run = Run { table: "people", columns: COLUMNS.len(), k, seed, options: "" };
                run.rate(self.workspace, KAIM, variant).await
            };
            lines.push(
                Line::measure(variant.name(KAIM), &self.workspace.points(&seeds), measure).await,
            );
        }
        plot("seed", &format!("k = {k}"), lines)
    }

    async fn tables_with_holes(&self, shares: &[f64]) -> Result<Vec<WithHoles>> {
        let own = shares.first().copied().unwrap_or_default();
        let mut tables = Vec::new();
        for share in shares {
            let table = format!("people_with_holes_{}", tables.len());
            delete_cells(self.workspace, &table, (share - own) / (1.0 - own)).await?;
            tables.push(self.with_holes(table).await?);
        }
        Ok(tables)
    }

    async fn with_holes(&self, table: String) -> Result<WithHoles> {
        let share = self.workspace.numbers(&missing_share(&table)).await?[0];
        // Rounded, so that the axis has short labels.
        Ok(WithHoles { table, percent: (1000.0 * share).round() / 10.0 })
    }

    /// Every method that keeps incomplete rows, as it is by default.
    async fn all_methods(&self, own: f64) -> Result<LinePlot> {
        fill_cells(self.workspace, "people_without_holes").await?;
        let mut tables = vec![self.with_holes("people_without_holes".to_owned()).await?];
        let missing: Vec<f64> = [own].into_iter().chain(MISSING_OF_ALL).collect();
        tables.extend(self.tables_with_holes(&self.workspace.points(&missing)).await?);
        let places: Vec<f64> = tables.iter().map(|table| table.percent).collect();
        let keep = methods()
            .filter(|method| method.family() == Family::Classes && !method.drops_incomplete_rows());
        let mut runs: Vec<(String, &str, &str)> =
            keep.map(|method| (method.name().to_owned(), method.name(), "")).collect();
        runs.push((format!("{KAIM}, one block"), KAIM, ", block_rows => 100000"));
        let mut lines = Vec::new();
        for (name, method, options) in runs {
            let measure = async |percent| {
                let run = Run { options, ..run_with_holes(&tables, percent) };
                run.rate(self.workspace, method, Variant::Default).await
            };
            lines.push(Line::measure(name, &places, measure).await);
        }
        let plot = plot("missing cells, %", "k = 5", lines);
        Ok(LinePlot {
            title: "ILossRate of all methods by missing cells, k = 5".to_owned(),
            ..plot
        })
    }

    async fn by_missing(&self, tables: &[WithHoles]) -> LinePlot {
        let places: Vec<f64> = tables.iter().map(|table| table.percent).collect();
        let lines = self.rates(&places, |percent| run_with_holes(tables, percent)).await;
        plot("missing cells, %", "k = 5", lines)
    }

    /// What of the loss is generalization and what are rows left out.
    async fn parts(&self, tables: &[WithHoles]) -> LinePlot {
        let places: Vec<f64> = tables.iter().map(|table| table.percent).collect();
        let mut lines = Vec::new();
        for (part, measure) in claims::PARTS {
            for variant in Variant::BOTH {
                let measure = async |percent| {
                    let run = run_with_holes(tables, percent);
                    run.measures(self.workspace, K_MEMBER, variant).await?.get(measure)
                };
                lines.push(Line::measure(variant.name(part), &places, measure).await);
            }
        }
        let plot = plot("missing cells, %", "k = 5", lines);
        LinePlot { title: "ILossRate of k_member in two parts, k = 5".to_owned(), ..plot }
    }
}

fn run_with_holes(tables: &[WithHoles], percent: f64) -> Run<'_> {
    let table = tables.iter().find(|table| table.percent == percent);
    let table = table.map_or("people", |table| table.table.as_str());
    Run { table, columns: COLUMNS.len(), k: 5.0, seed: 1.0, options: "" }
}

fn plot(axis: &str, setting: &str, lines: Vec<Line>) -> LinePlot {
    LinePlot {
        title: format!("ILossRate by {}, {setting}", axis.split(',').next().unwrap_or(axis)),
        setting: setting.to_owned(),
        axis: axis.to_owned(),
        y_label: "ILossRate".to_owned(),
        start: Start::Zero,
        lines,
    }
}

/// Makes a table of `people` in which missing cells have values of other rows, drawn at random.
async fn fill_cells(workspace: &Workspace, table: &str) -> Result<()> {
    let people = workspace.query("SELECT * FROM people").await?;
    let [first, ..] = people.as_slice() else { return exec_err!("there are no people") };
    let people = concat_batches(&first.schema(), &people)?;
    let mut random = Random::new(1);
    let mut fill = |column: &ArrayRef| {
        let known: Vec<u32> =
            (0..column.len()).filter(|at| column.is_valid(*at)).map(|at| at as u32).collect();
        let source = |at: usize| match column.is_valid(at) || known.is_empty() {
            true => at as u32,
            false => known[random.below(known.len() as u64) as usize],
        };
        let from: UInt32Array = (0..column.len()).map(source).collect();
        Ok::<ArrayRef, DataFusionError>(take(column, &from, None)?)
    };
    let columns = people.columns().iter().map(&mut fill).collect::<Result<Vec<_>>>()?;
    workspace.register(table, RecordBatch::try_new(people.schema(), columns)?)
}

/// Makes a table from `people`, or in its place. A cell that is deleted at a share is so at every larger one.
async fn delete_cells(workspace: &Workspace, table: &str, share: f64) -> Result<()> {
    let people = workspace.query("SELECT * FROM people").await?;
    let [first, ..] = people.as_slice() else { return exec_err!("there are no people") };
    let people = concat_batches(&first.schema(), &people)?;
    let fields = people
        .schema()
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect::<Vec<Field>>();
    let mut random = Random::new(1);
    let mut delete = |column: &ArrayRef| {
        let deleted: BooleanArray =
            (0..column.len()).map(|_| Some(random.share() < share)).collect();
        Ok::<ArrayRef, DataFusionError>(nullif(column, &deleted)?)
    };
    let columns = people.columns().iter().map(&mut delete).collect::<Result<Vec<_>>>()?;
    workspace.register(table, RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}
