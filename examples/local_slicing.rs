//! Many columns: slicing, which keeps values and breaks links, against generalization, as in the
//! experiments of the paper (Wang, Yu and Zhang, "Anonymous algorithm based on local partition", 2018).
//!
//! ```sh
//! cargo run --release --example local_slicing -- target/local_slicing
//! ADULT_DIR=… cargo run --release --example local_slicing -- target/local_slicing
//! ```
//!
//! Prints loss (NCP) and association retention of `asg_ls`, `slicing` (in our version and in the paper's) and
//! `k_member` with l = 3 on `sample_census`, and writes them as SVG plots into the directory. With `ADULT_DIR` naming a directory
//! with `adult_full.csv` and `hierarchies/*.csv` also the paper's figures: 5, 10 and 14 columns, k of
//! 10, 15 and 20, associations of at most 3 and 4 columns.
//!
//! Rules are between nodes of the hierarchies, at the thresholds of the paper (0.2 and 0.8) and with as
//! many columns as associations have.

use std::path::{Path, PathBuf};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Float64Type;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::prelude::{CsvReadOptions, SessionContext};
use datafusion_anonymize::register_all;

use plot::{LinePlot, Series, Start};

#[path = "common/plot.rs"]
mod plot;

/// Each method in our version, and those of the paper as it prints them.
const METHODS: [(&str, &str); 5] = [
    ("asg_ls", "best"),
    ("slicing", "best"),
    ("asg_ls", "paper"),
    ("slicing", "paper"),
    ("k_member", "best"),
];
const SENSITIVE: &str = "occupation";

/// Columns beside the sensitive one in the order in which they are added, each with its hierarchy.
const CENSUS: [(&str, &str); 11] = [
    ("age", ""),
    ("education", "sample_hierarchy(column => 'education')"),
    ("marital_status", "sample_hierarchy(column => 'marital_status')"),
    ("sex", "sample_hierarchy(column => 'sex')"),
    ("workclass", "sample_hierarchy(column => 'workclass')"),
    ("race", "sample_hierarchy(column => 'race')"),
    ("native_country", "sample_hierarchy(column => 'native_country')"),
    ("hours_per_week", ""),
    ("salary_class", ""),
    ("zip", "prefixes(3, 2, 1)"),
    ("birth_date", "date_steps('month', 'year', 'decade')"),
];

const ADULT: [(&str, &str); 13] = [
    ("age", ""),
    ("education", "education_levels"),
    ("marital_status", "marital_status_levels"),
    ("sex", "sex_levels"),
    ("workclass", "workclass_levels"),
    ("race", "race_levels"),
    ("native_country", "native_country_levels"),
    ("relationship", ""),
    ("hours_per_week", ""),
    ("education_num", ""),
    ("capital_gain", ""),
    ("capital_loss", ""),
    ("fnlwgt", ""),
];

#[tokio::main]
async fn main() -> Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "target/local_slicing".to_owned());
    let directory = PathBuf::from(directory);
    std::fs::create_dir_all(&directory)?;
    let context = SessionContext::new();
    register_all(&context)?;
    anonymize_sample::register(&context)?;
    let names: Vec<&str> = CENSUS.iter().map(|(name, _)| *name).collect();
    let census = format!(
        "CREATE TABLE census AS SELECT {SENSITIVE}, {} FROM sample_census(rows => 20000, seed => 7)",
        names.join(", ")
    );
    context.sql(&census).await?.collect().await?;
    let census = Table {
        title: "sample_census, 20 000 rows",
        name: "census",
        columns: &CENSUS,
        sensitive_hierarchy: "sample_hierarchy(column => 'occupation')",
    };
    census.figures(&context, &[5, 8, 12], &directory).await?;
    match std::env::var_os("ADULT_DIR") {
        Some(adult) => {
            let rows = load_adult(&context, Path::new(&adult)).await?;
            let adult = Table {
                title: &format!("Adult, {rows} complete rows"),
                name: "adult",
                columns: &ADULT,
                sensitive_hierarchy: "occupation_levels",
            };
            adult.figures(&context, &[5, 10, 14], &directory).await?;
        }
        None => println!(
            "Skipped: the figures on Adult. Set ADULT_DIR to a directory with adult_full.csv and \
             hierarchies/*.csv."
        ),
    }
    println!("Plots are in {}.", directory.display());
    Ok(())
}

/// A table and what its columns generalize by.
struct Table<'a> {
    title: &'a str,
    name: &'a str,
    columns: &'a [(&'static str, &'static str)],
    sensitive_hierarchy: &'a str,
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

impl Table<'_> {
    async fn figures(
        &self,
        context: &SessionContext,
        columns: &[usize],
        directory: &Path,
    ) -> Result<()> {
        for max_columns in [3, 4] {
            self.by_k_and_columns(context, columns, max_columns, directory).await?;
        }
        println!("{}, k = 10, at most 4 columns: values below a share are generalized", self.title);
        println!("| columns | rare_below | NCP asg_ls | slicing | AR asg_ls | slicing |");
        println!("| ------- | ---------- | ---------- | ------- | --------- | ------- |");
        for columns in columns {
            for rare_below in [0.00005, 0.0005] {
                let run = Run { columns: *columns, k: 10, max_columns: 4, rare_below };
                let asg_ls = self.measure(context, METHODS[0], run).await?;
                let slicing = self.measure(context, METHODS[1], run).await?;
                println!(
                    "| {columns:7} | {rare_below:10} | {:10.4} | {:7.4} | {:9.4} | {:7.4} |",
                    asg_ls.loss, slicing.loss, asg_ls.retention, slicing.retention
                );
            }
        }
        println!();
        Ok(())
    }

    async fn by_k_and_columns(
        &self,
        context: &SessionContext,
        columns: &[usize],
        max_columns: usize,
        directory: &Path,
    ) -> Result<()> {
        println!("{}, l = 3, at most {max_columns} columns in an association", self.title);
        let names = METHODS.map(|(method, variant)| format!("{method} ({variant})")).join(" | ");
        println!("| columns |  k | NCP {names} | AR {names} | suppressed |");
        println!("|{}", " --- |".repeat(3 + 2 * METHODS.len()));
        let mut found = Vec::new();
        for columns in columns {
            for k in [10, 15, 20] {
                let run = Run { columns: *columns, k, max_columns, rare_below: 0.0 };
                let mut of_run = Vec::with_capacity(METHODS.len());
                for method in METHODS {
                    of_run.push(self.measure(context, method, run).await?);
                }
                let suppressed: f64 = of_run.iter().map(|found| found.suppressed).sum();
                let listed = |of: fn(&Found) -> f64| {
                    let values = of_run.iter().map(|found| format!("{:.4}", of(found)));
                    values.collect::<Vec<String>>().join(" | ")
                };
                let (losses, retentions) =
                    (listed(|found| found.loss), listed(|found| found.retention));
                println!("| {columns:7} | {k:2} | {losses} | {retentions} | {suppressed} |");
                found.push((run, of_run));
            }
        }
        println!();
        for (measure, label, of) in [
            ("loss", "NCP", (|found: &Found| found.loss) as fn(&Found) -> f64),
            ("retention", "association retention", |found: &Found| found.retention),
        ] {
            let lines = METHODS.iter().enumerate().flat_map(|(method, (name, variant))| {
                let found = &found;
                [10usize, 20].map(move |k| {
                    let of_k = found.iter().filter(move |(run, _)| run.k == k);
                    let points = of_k.map(|(run, found)| (run.columns as f64, of(&found[method])));
                    Series {
                        name: format!("{name} ({variant}), k = {k}"),
                        points: points.collect(),
                    }
                })
            });
            let plot = LinePlot {
                title: format!("{}, mc = {max_columns}", self.title),
                x_label: "columns".to_owned(),
                y_label: label.to_owned(),
                y_start: Start::Zero,
                series: lines.collect(),
            };
            let file = format!("{}_{measure}_mc{max_columns}.svg", self.name);
            std::fs::write(directory.join(file), plot.to_svg())?;
        }
        Ok(())
    }

    async fn measure(
        &self,
        context: &SessionContext,
        (method, variant): (&str, &str),
        run: Run,
    ) -> Result<Found> {
        let quasi_identifiers = &self.columns[..run.columns - 1];
        let names: Vec<&str> = quasi_identifiers.iter().map(|(name, _)| *name).collect();
        let listed: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        let roles =
            format!("quasi_identifiers => [{}], sensitive => ['{SENSITIVE}']", listed.join(", "));
        let given = quasi_identifiers.iter().filter(|(_, hierarchy)| !hierarchy.is_empty());
        let given: Vec<String> = given.map(|(name, source)| format!("{name}: {source}")).collect();
        let sensitive = format!("{SENSITIVE}: {}", self.sensitive_hierarchy);
        let with_sensitive = format!("{}, {sensitive}", given.join(", "));
        // Only slicing looks at the hierarchy of the sensitive column.
        let (hierarchies, more) = match method {
            "k_member" => (&given.join(", "), String::new()),
            _ => {
                let bounded =
                    format!(", max_columns => {}, variant => '{variant}'", run.max_columns);
                (&with_sensitive, bounded)
            }
        };
        let rare = match run.rare_below > 0.0 {
            true => format!(", rare_below => {}", run.rare_below),
            false => String::new(),
        };
        let original = format!("(SELECT {SENSITIVE}, {} FROM {})", names.join(", "), self.name);
        let release = format!(
            "anonymize({original}, k => {}, l => 3, method => '{method}', suppression_limit => 1, {roles}, \
             hierarchies => {{{hierarchies}}}, seed => 1{more}{rare})",
            run.k
        );
        let report = format!(
            "SELECT measure, value FROM utility_report({original}, {release}, {roles}, hierarchies => \
             {{{with_sensitive}}}, min_support => 0.2, min_confidence => 0.8, max_columns => {}) \
             WHERE column_name IS NULL",
            run.max_columns
        );
        let batches = context.sql(&report).await?.collect().await?;
        let value = |name: &str| {
            let found = batches.iter().find_map(|batch| {
                let names = batch.column(0).as_string::<i32>();
                let at = names.iter().position(|measure| measure == Some(name))?;
                Some(batch.column(1).as_primitive::<Float64Type>().value(at))
            });
            found.ok_or_else(|| exec_datafusion_err!("no {name} in the report"))
        };
        Ok(Found {
            loss: value("ncp")?,
            retention: value("association_retention")?,
            suppressed: value("suppressed_rows")?,
        })
    }
}

/// The complete rows of Adult under names without dashes, and its hierarchies as tables.
async fn load_adult(context: &SessionContext, adult: &Path) -> Result<usize> {
    let path = |name: &str| adult.join(name).display().to_string();
    context.register_csv("adult_file", path("adult_full.csv"), CsvReadOptions::new()).await?;
    let names: Vec<&str> = ADULT.iter().map(|(name, _)| *name).chain([SENSITIVE]).collect();
    let quoted = |name: &&str| format!("\"{}\"", name.replace('_', "-"));
    let columns: Vec<String> =
        names.iter().map(|name| format!("{} AS {name}", quoted(name))).collect();
    let complete: Vec<String> =
        names.iter().map(|name| format!("{} IS NOT NULL", quoted(name))).collect();
    let sql = format!(
        "CREATE TABLE adult AS SELECT {} FROM adult_file WHERE {}",
        columns.join(", "),
        complete.join(" AND ")
    );
    context.sql(&sql).await?.collect().await?;
    let levels = ADULT.iter().map(|(_, table)| *table).filter(|table| !table.is_empty());
    for table in levels.chain(["occupation_levels"]) {
        let name = table.trim_end_matches("_levels").replace('_', "-");
        let file = path(&format!("hierarchies/{name}.csv"));
        let options = CsvReadOptions::new().has_header(false).delimiter(b';');
        context.register_csv(format!("{table}_file"), file, options).await?;
        let sql = format!("CREATE TABLE {table} AS SELECT * FROM {table}_file");
        context.sql(&sql).await?.collect().await?;
    }
    context.table("adult").await?.count().await
}
