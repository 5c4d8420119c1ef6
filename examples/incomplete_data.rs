//! Tables with holes: `kaim`, which keeps rows with missing cells, against `k_member`, which drops
//! them, as in the experiments of the paper (Gong, Yang and Luo, "Data anonymization approach for
//! incomplete microdata", 2013).
//!
//! ```sh
//! cargo run --release --example incomplete_data -- target/incomplete_data
//! ADULT_DIR=… cargo run --release --example incomplete_data -- target/incomplete_data
//! ```
//!
//! Prints ILossRate, RMR and VMR by the share of missing cells on `sample_census`, and writes them as
//! SVG plots into the directory. With `ADULT_DIR` naming a directory with `adult_full.csv` and
//! `hierarchies/*.csv` also the paper's figures: ILossRate by k and by number of quasi-identifiers, by
//! VMR from that of the table up to 30 % by deleting cells at random, and over 20 seeds.
//!
//! ILossRate counts a row that is not published as lost in every column. Where fewer than k rows are
//! complete `k_member` publishes nothing, and its ILossRate is 1.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::nullif;
use datafusion::arrow::datatypes::Float64Type;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::datasource::MemTable;
use datafusion::prelude::{CsvReadOptions, SessionContext};
use datafusion_anonymize::register_all;

use plot::{LinePlot, Series, Start};

#[path = "common/plot.rs"]
mod plot;

const METHODS: [&str; 2] = ["kaim", "k_member"];

/// Quasi-identifiers in the order of the paper, each with its hierarchy; ages are ranges.
const CENSUS: [(&str, &str); 8] = [
    ("age", ""),
    ("sex", "sample_hierarchy(column => 'sex')"),
    ("race", "sample_hierarchy(column => 'race')"),
    ("marital_status", "sample_hierarchy(column => 'marital_status')"),
    ("education", "sample_hierarchy(column => 'education')"),
    ("native_country", "sample_hierarchy(column => 'native_country')"),
    ("workclass", "sample_hierarchy(column => 'workclass')"),
    ("occupation", "sample_hierarchy(column => 'occupation')"),
];

const ADULT: [(&str, &str); 8] = [
    ("age", ""),
    ("sex", "sex_levels"),
    ("race", "race_levels"),
    ("marital_status", "marital_status_levels"),
    ("education", "education_levels"),
    ("native_country", "native_country_levels"),
    ("workclass", "workclass_levels"),
    ("occupation", "occupation_levels"),
];

#[tokio::main]
async fn main() -> Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "target/incomplete_data".to_owned());
    let directory = PathBuf::from(directory);
    std::fs::create_dir_all(&directory)?;
    let context = SessionContext::new();
    register_all(&context)?;
    anonymize_sample::register(&context)?;
    on_census(&context, &directory).await?;
    match std::env::var_os("ADULT_DIR") {
        Some(adult) => on_adult(&context, Path::new(&adult), &directory).await?,
        None => println!(
            "Skipped: the figures on Adult. Set ADULT_DIR to a directory with adult_full.csv and \
             hierarchies/*.csv."
        ),
    }
    println!("Plots are in {}.", directory.display());
    Ok(())
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
    columns: &'a [(&'static str, &'static str)],
    k: usize,
    seed: usize,
}

impl Run<'_> {
    async fn measure(&self, context: &SessionContext, method: &str) -> Result<Found> {
        let names: Vec<String> = self.columns.iter().map(|(name, _)| format!("'{name}'")).collect();
        let roles = format!("quasi_identifiers => [{}]", names.join(", "));
        let given = self.columns.iter().filter(|(_, hierarchy)| !hierarchy.is_empty());
        let given: Vec<String> = given.map(|(name, source)| format!("{name}: {source}")).collect();
        let hierarchies = match given.is_empty() {
            true => String::new(),
            false => format!(", hierarchies => {{{}}}", given.join(", ")),
        };
        let columns: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        let original = format!("(SELECT {} FROM {})", columns.join(", "), self.table);
        let release = format!(
            "anonymize({original}, k => {}, method => '{method}', suppression_limit => 1, {roles}, \
             seed => {}{hierarchies})",
            self.k, self.seed
        );
        let report = |release: &str| {
            format!(
                "SELECT measure, value FROM utility_report({original}, {release}, {roles}{hierarchies}) \
                 WHERE column_name IS NULL AND measure IN ('iloss_rate', 'vmr', 'rmr')"
            )
        };
        match measures(context, &report(&release)).await {
            Err(error) if error.strip_backtrace().contains("cannot form a class") => {
                // Nothing is published: everything is lost.
                let columns =
                    columns.iter().map(|name| format!("CAST({name} AS VARCHAR) AS {name}"));
                let nothing = format!(
                    "(SELECT {} FROM {} WHERE false)",
                    columns.collect::<Vec<_>>().join(", "),
                    self.table
                );
                measures(context, &report(&nothing)).await
            }
            other => other,
        }
    }
}

async fn measures(context: &SessionContext, sql: &str) -> Result<Found> {
    let batches = context.sql(sql).await?.collect().await?;
    let value = |name: &str| {
        batches.iter().find_map(|batch| {
            let names = batch.column(0).as_string::<i32>();
            let at = names.iter().position(|measure| measure == Some(name))?;
            Some(batch.column(1).as_primitive::<Float64Type>().value(at))
        })
    };
    let found = |name| value(name).ok_or_else(|| exec_datafusion_err!("no {name} in the report"));
    Ok(Found { rate: found("iloss_rate")?, vmr: found("vmr")?, rmr: found("rmr")? })
}

async fn on_census(context: &SessionContext, directory: &Path) -> Result<()> {
    let mut found = Vec::new();
    for missing in [0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3] {
        let names: Vec<&str> = CENSUS.iter().map(|(name, _)| *name).collect();
        let table = format!(
            "CREATE OR REPLACE TABLE census AS SELECT {} FROM sample_census(rows => 20000, seed => 7, missing => {missing})",
            names.join(", ")
        );
        context.sql(&table).await?.collect().await?;
        let run = Run { table: "census", columns: &CENSUS, k: 5, seed: 1 };
        found.push([
            run.measure(context, METHODS[0]).await?,
            run.measure(context, METHODS[1]).await?,
        ]);
    }
    by_missing("sample_census, 20 000 rows", &found);
    plot_by_missing("sample_census, k = 5, 8 columns", &found, &directory.join("census_by_vmr.svg"))
}

fn by_missing(title: &str, found: &[[Found; 2]]) {
    println!("{title}, k = 5, 8 quasi-identifiers: ILossRate by missing cells");
    println!("|    VMR |    RMR |   kaim | k_member | kaim / k_member |");
    println!("| ------ | ------ | ------ | -------- | --------------- |");
    for [kaim, k_member] in found {
        println!(
            "| {:.4} | {:.4} | {:.4} | {:8.4} | {:15.3} |",
            kaim.vmr,
            kaim.rmr,
            kaim.rate,
            k_member.rate,
            kaim.rate / k_member.rate
        );
    }
    println!();
}

fn plot_by_missing(title: &str, found: &[[Found; 2]], file: &Path) -> Result<()> {
    // Rounded, so that the axis has short labels.
    let percent = |share: f64| (1000.0 * share).round() / 10.0;
    let line = |name: &str, value: &dyn Fn(&[Found; 2]) -> f64| Series {
        name: name.to_owned(),
        points: found.iter().map(|both| (percent(both[0].vmr), value(both))).collect(),
    };
    let plot = LinePlot {
        title: title.to_owned(),
        x_label: "VMR, % of cells missing".to_owned(),
        y_label: "share".to_owned(),
        y_start: Start::Zero,
        series: vec![
            line("ILossRate, kaim", &|both| both[0].rate),
            line("ILossRate, k_member", &|both| both[1].rate),
            line("RMR", &|both| both[0].rmr),
            line("VMR", &|both| both[0].vmr),
        ],
    };
    Ok(std::fs::write(file, plot.to_svg())?)
}

async fn on_adult(context: &SessionContext, adult: &Path, directory: &Path) -> Result<()> {
    load_adult(context, adult).await?;
    by_k(context, directory).await?;
    let base = Run { table: "adult", columns: &ADULT, k: 5, seed: 1 };
    let base = base.measure(context, METHODS[0]).await?;
    let mut found = Vec::new();
    for vmr in [base.vmr, 0.03, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3] {
        delete_cells(context, (vmr - base.vmr) / (1.0 - base.vmr)).await?;
        let run = Run { table: "adult_with_holes", columns: &ADULT, k: 5, seed: 1 };
        found.push([
            run.measure(context, METHODS[0]).await?,
            run.measure(context, METHODS[1]).await?,
        ]);
    }
    by_missing("Adult, 48 842 rows", &found);
    let file = directory.join("adult_by_vmr.svg");
    plot_by_missing("Adult, k = 5, 8 columns", &found, &file)?;
    stability(context, directory).await
}

async fn load_adult(context: &SessionContext, adult: &Path) -> Result<()> {
    let path = |name: &str| adult.join(name).display().to_string();
    context.register_csv("adult_file", path("adult_full.csv"), CsvReadOptions::new()).await?;
    let names = ADULT.map(|(name, _)| format!("\"{}\" AS {name}", name.replace('_', "-")));
    let sql = format!("CREATE TABLE adult AS SELECT {} FROM adult_file", names.join(", "));
    context.sql(&sql).await?.collect().await?;
    for (name, table) in &ADULT[1..] {
        let file = path(&format!("hierarchies/{}.csv", name.replace('_', "-")));
        let options = CsvReadOptions::new().has_header(false).delimiter(b';');
        context.register_csv(format!("{table}_file"), file, options).await?;
        let sql = format!("CREATE TABLE {table} AS SELECT * FROM {table}_file");
        context.sql(&sql).await?.collect().await?;
    }
    Ok(())
}

/// ILossRate by k, for 2, 5 and 8 quasi-identifiers.
async fn by_k(context: &SessionContext, directory: &Path) -> Result<()> {
    println!("Adult, 48 842 rows: ILossRate by k and number of quasi-identifiers");
    println!("| columns |  k |   kaim | k_member | kaim / k_member |");
    println!("| ------- | -- | ------ | -------- | --------------- |");
    for columns in [2, 5, 8] {
        let mut lines = METHODS.map(|name| Series { name: name.to_owned(), points: Vec::new() });
        for k in [2, 5, 10] {
            let run = Run { table: "adult", columns: &ADULT[..columns], k, seed: 1 };
            let kaim = run.measure(context, METHODS[0]).await?.rate;
            let k_member = run.measure(context, METHODS[1]).await?.rate;
            println!(
                "| {columns:7} | {k:2} | {kaim:.4} | {k_member:8.4} | {:15.3} |",
                kaim / k_member
            );
            lines[0].points.push((k as f64, kaim));
            lines[1].points.push((k as f64, k_member));
        }
        let plot = LinePlot {
            title: format!("Adult, {columns} columns"),
            x_label: "k".to_owned(),
            y_label: "ILossRate".to_owned(),
            y_start: Start::Zero,
            series: lines.into(),
        };
        let file = directory.join(format!("adult_by_k_{columns}_columns.svg"));
        std::fs::write(file, plot.to_svg())?;
    }
    println!();
    Ok(())
}

/// The release is drawn anew with every seed: how far its loss moves.
async fn stability(context: &SessionContext, directory: &Path) -> Result<()> {
    println!("Adult, 48 842 rows, kaim, 8 quasi-identifiers: ILossRate over 20 seeds");
    println!("|  k | smallest |   mean | largest |");
    println!("| -- | -------- | ------ | ------- |");
    let mut series = Vec::new();
    for k in [2, 5, 10] {
        let mut points = Vec::new();
        for seed in 1..=20 {
            let run = Run { table: "adult", columns: &ADULT, k, seed };
            points.push((seed as f64, run.measure(context, METHODS[0]).await?.rate));
        }
        let rates = || points.iter().map(|(_, rate)| *rate);
        println!(
            "| {k:2} | {:8.4} | {:.4} | {:7.4} |",
            rates().fold(f64::INFINITY, f64::min),
            rates().sum::<f64>() / points.len() as f64,
            rates().fold(0.0, f64::max)
        );
        series.push(Series { name: format!("k = {k}"), points });
    }
    let plot = LinePlot {
        title: "Adult, kaim, 8 columns".to_owned(),
        x_label: "seed".to_owned(),
        y_label: "ILossRate".to_owned(),
        y_start: Start::Lowest,
        series,
    };
    println!();
    Ok(std::fs::write(directory.join("adult_seeds.svg"), plot.to_svg())?)
}

/// Makes `adult_with_holes` from `adult`. A cell that is deleted at a share is so at every larger one.
async fn delete_cells(context: &SessionContext, share: f64) -> Result<()> {
    let batches = context.table("adult").await?.collect().await?;
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut with_holes = Vec::with_capacity(batches.len());
    for batch in batches {
        let mut delete = |column: &ArrayRef| {
            let deleted: BooleanArray = (0..column.len()).map(|_| Some(next() < share)).collect();
            Ok::<ArrayRef, DataFusionError>(nullif(column, &deleted)?)
        };
        let columns = batch.columns().iter().map(&mut delete).collect::<Result<Vec<_>>>()?;
        with_holes.push(RecordBatch::try_new(batch.schema(), columns)?);
    }
    let schema = context.table("adult").await?.schema().inner().clone();
    context.deregister_table("adult_with_holes")?;
    context.register_table(
        "adult_with_holes",
        Arc::new(MemTable::try_new(schema, vec![with_holes])?),
    )?;
    Ok(())
}
