//! Tables with missing cells: `kaim`, which keeps incomplete rows, against `k_member`, which drops them, as in the
//! experiments of the paper (Gong, Yang and Luo, "Data anonymization approach for incomplete microdata", 2013).
//!
//! ILossRate by k and by number of quasi-identifiers; by VMR, the share of missing cells, from that of the table up to 30 %
//! by deleting cells at random; and over 20 seeds.
//!
//! ILossRate counts a row that is not published as lost in every column. Where fewer than k rows are complete `k_member`
//! publishes nothing, and its ILossRate is 1.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::compute::nullif;
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::MemTable;

use crate::columns::{Column, hierarchies, names, quoted};
use crate::people::{AdultRows, People, Wanted};
use crate::plot::{LinePlot, Series, Start};
use crate::table::{Table, number};
use crate::workspace::Workspace;

const METHODS: [&str; 2] = ["kaim", "k_member"];

const KS: [usize; 3] = [2, 5, 10];

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

pub async fn run(workspace: &Workspace) -> Result<()> {
    let wanted =
        Wanted { sample: COLUMNS, sample_rows: 20_000, adult: COLUMNS, adult_rows: AdultRows::All };
    let people = workspace.load_people(&wanted).await?;
    by_k(workspace, &people).await?;
    by_missing(workspace, &people).await?;
    by_seed(workspace, &people).await
}

/// What a report tells about one release.
#[derive(Clone, Copy)]
struct Found {
    rate: f64,
    vmr: f64,
    rmr: f64,
}

/// One release and its report.
struct Run<'a> {
    table: &'a str,
    columns: &'a [Column],
    k: usize,
    seed: usize,
}

impl Run<'_> {
    async fn measure(&self, workspace: &Workspace, method: &str) -> Result<Found> {
        let columns = names(self.columns);
        let roles = format!("quasi_identifiers => [{}]", quoted(&columns));
        let hierarchies = hierarchies(self.columns);
        let original = format!("(SELECT {} FROM {})", columns.join(", "), self.table);
        let release = format!(
            "anonymize({original}, k => {}, method => '{method}', suppression_limit => 1, {roles}, \
             seed => {}{hierarchies})",
            self.k, self.seed
        );
        let report =
            |release: &str| format!("utility_report({original}, {release}, {roles}{hierarchies})");
        let measures = match workspace.measures(&report(&release)).await {
            Err(error) if error.strip_backtrace().contains("cannot form a class") => {
                // Nothing is published: everything is lost.
                let texts = columns.iter().map(|name| format!("CAST({name} AS VARCHAR) AS {name}"));
                let texts = texts.collect::<Vec<_>>().join(", ");
                let nothing = format!("(SELECT {texts} FROM {} WHERE false)", self.table);
                workspace.measures(&report(&nothing)).await?
            }
            other => other?,
        };
        let (rate, vmr) = (measures.get("iloss_rate")?, measures.get("vmr")?);
        Ok(Found { rate, vmr, rmr: measures.get("rmr")? })
    }

    async fn measure_both(&self, workspace: &Workspace) -> Result<[Found; 2]> {
        let [kaim, k_member] = METHODS;
        Ok([self.measure(workspace, kaim).await?, self.measure(workspace, k_member).await?])
    }
}

/// ILossRate by k, for 2, 5 and 8 quasi-identifiers.
async fn by_k(workspace: &Workspace, people: &People) -> Result<()> {
    let table = Table::start(
        format!("{}: ILossRate by k and number of quasi-identifiers", people.title),
        &["columns", "k", METHODS[0], METHODS[1], "kaim / k_member"],
    );
    for columns in workspace.points(&[2, 5, 8]) {
        let mut lines = METHODS.map(|name| Series { name: name.to_owned(), points: Vec::new() });
        for k in workspace.points(&KS) {
            let run = Run { table: "people", columns: &COLUMNS[..columns], k, seed: 1 };
            let [kaim, k_member] = run.measure_both(workspace).await?.map(|found| found.rate);
            let cells = [kaim, k_member, kaim / k_member].map(number);
            table.row(columns, [k.to_string()].into_iter().chain(cells));
            lines[0].points.push((k as f64, kaim));
            lines[1].points.push((k as f64, k_member));
        }
        let plot = LinePlot {
            title: format!("{}, {columns} columns", people.title),
            x_label: "k".to_owned(),
            y_label: "ILossRate".to_owned(),
            y_start: Start::Zero,
            series: lines.into(),
        };
        workspace.draw(&format!("by_k_{columns}_columns.svg"), &plot)?;
    }
    table.end();
    Ok(())
}

async fn by_missing(workspace: &Workspace, people: &People) -> Result<()> {
    let run = Run { table: "people", columns: COLUMNS, k: 5, seed: 1 };
    let own = run.measure(workspace, METHODS[0]).await?.vmr;
    let table = Table::start(
        format!("{}, k = 5, 8 quasi-identifiers: ILossRate by missing cells", people.title),
        &["VMR", "RMR", METHODS[0], METHODS[1], "kaim / k_member"],
    );
    let mut found = Vec::new();
    for vmr in workspace.points(&[own, 0.03, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]) {
        delete_cells(workspace, (vmr - own) / (1.0 - own)).await?;
        let run = Run { table: "people_with_holes", columns: COLUMNS, k: 5, seed: 1 };
        let [kaim, k_member] = run.measure_both(workspace).await?;
        let cells = [kaim.rmr, kaim.rate, k_member.rate, kaim.rate / k_member.rate];
        table.row(number(kaim.vmr), cells.map(number));
        found.push([kaim, k_member]);
    }
    table.end();
    // Rounded, so that the axis has short labels.
    let percent = |share: f64| (1000.0 * share).round() / 10.0;
    let line = |name: &str, value: fn(&[Found; 2]) -> f64| Series {
        name: name.to_owned(),
        points: found.iter().map(|both| (percent(both[0].vmr), value(both))).collect(),
    };
    let plot = LinePlot {
        title: format!("{}, k = 5, 8 columns", people.title),
        x_label: "VMR, % of cells missing".to_owned(),
        y_label: "share".to_owned(),
        y_start: Start::Zero,
        series: vec![
            line("ILossRate, kaim", |both| both[0].rate),
            line("ILossRate, k_member", |both| both[1].rate),
            line("RMR", |both| both[0].rmr),
            line("VMR", |both| both[0].vmr),
        ],
    };
    workspace.draw("by_vmr.svg", &plot)
}

/// The release is drawn anew with every seed: how far its loss moves.
async fn by_seed(workspace: &Workspace, people: &People) -> Result<()> {
    let seeds = workspace.runs(20);
    let table = Table::start(
        format!("{}, kaim, 8 quasi-identifiers: ILossRate, seeds 1 to {seeds}", people.title),
        &["k", "smallest", "mean", "largest"],
    );
    let mut series = Vec::new();
    for k in workspace.points(&KS) {
        let mut points = Vec::new();
        for seed in 1..=seeds {
            let run = Run { table: "people", columns: COLUMNS, k, seed };
            points.push((seed as f64, run.measure(workspace, METHODS[0]).await?.rate));
        }
        let rates = || points.iter().map(|(_, rate)| *rate);
        let (smallest, largest) =
            (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
        let mean = rates().sum::<f64>() / points.len() as f64;
        table.row(k, [smallest, mean, largest].map(number));
        series.push(Series { name: format!("k = {k}"), points });
    }
    table.end();
    let plot = LinePlot {
        title: format!("{}, kaim, 8 columns", people.title),
        x_label: "seed".to_owned(),
        y_label: "ILossRate".to_owned(),
        y_start: Start::Lowest,
        series,
    };
    workspace.draw("by_seed.svg", &plot)
}

/// Makes `people_with_holes` from `people`. A cell that is deleted at a share is so at every larger one.
async fn delete_cells(workspace: &Workspace, share: f64) -> Result<()> {
    let people = workspace.context.table("people").await?;
    let fields = people.schema().fields().iter();
    let fields: Vec<Field> =
        fields.map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut with_holes = Vec::new();
    for batch in people.collect().await? {
        let mut delete = |column: &ArrayRef| {
            let deleted: BooleanArray = (0..column.len()).map(|_| Some(next() < share)).collect();
            Ok::<ArrayRef, DataFusionError>(nullif(column, &deleted)?)
        };
        let columns = batch.columns().iter().map(&mut delete).collect::<Result<Vec<_>>>()?;
        with_holes.push(RecordBatch::try_new(Arc::clone(&schema), columns)?);
    }
    let table = MemTable::try_new(schema, vec![with_holes])?;
    workspace.context.deregister_table("people_with_holes")?;
    workspace.context.register_table("people_with_holes", Arc::new(table))?;
    Ok(())
}
