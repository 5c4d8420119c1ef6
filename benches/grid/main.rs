//! The methods alone on tables that are easy, hard and strange: what a row costs, and how that grows.
//!
//! ```sh
//! cargo bench -p datafusion-anonymize --no-default-features --bench grid -- --rows 100000
//! cargo bench -p datafusion-anonymize --no-default-features --bench grid -- --methods layered --tables dates --models none,l,t --k 10
//! ADULT_DIR=… cargo bench -p datafusion-anonymize --no-default-features --bench grid -- --tables adult --k 2,5,10,25,50,100
//! ```
//!
//! Every line is a method on two tables of one kind, the second with four times the rows (`--times`): CPU seconds of the
//! process, microseconds per row, the growth from one to the other, and what the larger release loses. A cell of more than
//! `--limit` seconds of CPU is cancelled and marked. Lists are given with commas; `n/4` is a k.

#![allow(clippy::unwrap_used, missing_docs, clippy::expect_used)]

mod tables;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use datafusion_anonymize::pure::hierarchy::Axis;
use datafusion_anonymize::pure::measure::loss;
use datafusion_anonymize::pure::method::classfly::Constraint;
use datafusion_anonymize::pure::method::{
    Family, Job, MethodRef, Settings, Unverified, methods, slicing,
};
use datafusion_anonymize::pure::model::{
    Cancel, Grades, Model, Placement, Purpose, Requirement, RowKeys, RowTable, Secret,
    SensitiveColumn, check_placement,
};
use tables::{Table, table};

struct Arguments(Vec<String>);

impl Arguments {
    fn text(&self, name: &str, default: &str) -> String {
        let at = self.0.iter().position(|argument| argument.strip_prefix("--") == Some(name));
        at.and_then(|at| self.0.get(at + 1)).map_or(default, String::as_str).to_owned()
    }

    fn list(&self, name: &str, default: &str) -> Vec<String> {
        self.text(name, default).split(',').map(str::to_owned).collect()
    }

    fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(&self, name: &str, default: &str) -> T {
        self.text(name, default).parse().unwrap()
    }
}

fn main() {
    let arguments = Arguments(std::env::args().collect());
    let names: Vec<String> = methods().map(|method| method.name().to_owned()).collect();
    let rows: usize = arguments.number("rows", "25000");
    let times: usize = arguments.number("times", "4");
    let limit: f64 = arguments.number("limit", "60");
    let threads: usize = arguments.number("threads", "1");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    println!(
        "{:<20}{:<10}{:>4} {:>8} {:<8}{:>9}{:>9}{:>8}{:>8}{:>9}{:>9}",
        "method", "table", "QIs", "k", "model", "s", "s", "us/row", "growth", "loss", "classes"
    );
    for kind in arguments.list("tables", "census,dates,unique,equal,skewed,holes") {
        for columns in arguments.list("columns", "8") {
            let columns = columns.parse().unwrap();
            let sizes = if times == 1 { vec![rows] } else { vec![rows, rows * times] };
            let tables: Vec<Table> =
                sizes.iter().map(|rows| table(&kind, *rows, columns)).collect();
            for name in arguments.list("methods", &names.join(",")) {
                for k in arguments.list("k", "2,10,100,1000,n/4") {
                    for model in arguments.list("models", "none") {
                        let method = name.parse().unwrap();
                        let run = |table| {
                            let cell = Cell { method, k: &k, model: &model, limit };
                            pool.install(|| cell.run(table))
                        };
                        let done: Vec<Done> = tables.iter().map(run).collect();
                        print(&name, &tables, (&k, &model), &done);
                    }
                }
            }
        }
    }
}

fn print(name: &str, tables: &[Table], (k, model): (&str, &str), done: &[Done]) {
    let (small, large) = (&done[0], done.last().unwrap());
    let last = tables.last().unwrap();
    let rows = last.columns[0].len() as f64;
    let growth = large.seconds / small.seconds.max(0.01);
    let seconds = |done: &Done| match &done.failed {
        Some(why) => why.clone(),
        None => format!("{:.2}", done.seconds),
    };
    println!(
        "{name:<20}{:<10}{:>4} {k:>8} {model:<8}{:>9}{:>9}{:>8.2}{growth:>8.1}{:>9.4}{:>9}",
        last.kind,
        last.axes.len(),
        seconds(small),
        seconds(large),
        large.seconds / rows * 1e6,
        large.loss,
        large.classes,
    );
}

/// One method on one table.
struct Cell<'a> {
    method: MethodRef,
    k: &'a str,
    model: &'a str,
    limit: f64,
}

#[derive(Default)]
struct Done {
    seconds: f64,
    failed: Option<String>,
    loss: f64,
    classes: usize,
}

impl Cell<'_> {
    fn run(&self, table: &Table) -> Done {
        let rows = table.columns[0].len();
        let k = if self.k == "n/4" { rows / 4 } else { self.k.parse().unwrap() };
        let family = self.method.family();
        let with_trees = family == Family::Constraints || self.method.needs_hierarchies();
        let axes = if with_trees { table.trees() } else { table.axes.clone() };
        let mut columns = table.columns.clone();
        if family == Family::Slices {
            columns.push(table.sensitive.clone());
        }
        let models = match family {
            Family::TwoTables => vec![Model::Graded {
                column: 0,
                grades: Grades::one_level(tables::VALUES, 0.4).unwrap().into(),
            }],
            _ => model(self.model),
        };
        let persons = models.iter().any(|model| matches!(model, Model::UnitShare { .. }));
        let codes = if persons { table.persons() } else { table.sensitive.clone() };
        let cardinality = codes.iter().max().unwrap() + 1;
        let column = SensitiveColumn {
            name: "s".to_owned(),
            codes: codes.clone().into(),
            cardinality,
            ordered: false,
        };
        let mut rows_of_codes = tables::rows(&columns);
        let cancel = Cancel::default();
        let secret = Secret::from_text("grid").unwrap();
        let mut keys = RowKeys {
            ties: codes.iter().map(|code| u64::from(*code)).collect::<Vec<_>>().into(),
            ..RowKeys::default()
        };
        keys.break_ties(&rows_of_codes, secret.seed(Purpose::Ties), &cancel).unwrap();
        let requirement = Requirement { k: k as u32, models };
        let sensitive = [column];
        let job = Job {
            axes: &axes,
            requirement: &requirement,
            sensitive: &sensitive,
            keys: &keys,
            cancel: &cancel,
        };
        self.form(&mut rows_of_codes, &job, secret)
    }

    fn form(&self, rows: &mut RowTable, job: &Job, secret: Secret) -> Done {
        let seed = secret.seed(Purpose::Starts);
        let positions = vec![None; job.axes.len()];
        let values = Axis::set(tables::VALUES as usize, false);
        let settings = Settings {
            suppression_limit: 1.0,
            constraints: &[Constraint {
                columns: (0..job.axes.len()).collect(),
                k: job.requirement.k,
            }],
            slicing: Some(slicing::Settings {
                options: slicing::Options {
                    sensitive: &values,
                    positions: &positions,
                    l: 3,
                    variant: Default::default(),
                    max_columns: 4,
                    nodes: false,
                    rare_below: 0.0,
                    has_kept: false,
                    seed: &seed,
                },
                columns: None,
                min_columns: 2,
                min_support: 0.2,
                min_confidence: 0.8,
            }),
            ..Settings::new(secret)
        };
        let (formed, seconds) =
            timed(self.limit, job.cancel, || self.method.form(rows, job, &settings));
        match formed {
            Err(datafusion_anonymize::Error::Cancelled) => {
                Done { seconds, failed: Some(format!(">{:.0}", self.limit)), ..Done::default() }
            }
            Err(_) => Done { seconds, failed: Some("refused".to_owned()), ..Done::default() },
            Ok(Unverified::Classes { classes, suppressed }) => {
                let placement = Placement {
                    id_at: &|at| rows.id_at(at),
                    rows: rows.len(),
                    classes: &classes,
                    suppressed,
                };
                check_placement(&placement, job.requirement, job.sensitive).unwrap();
                let axes: Vec<&Axis> = job.axes.iter().collect();
                Done {
                    seconds,
                    failed: None,
                    loss: loss(rows, &classes, &axes),
                    classes: classes.len(),
                }
            }
            Ok(_) => Done { seconds, ..Done::default() },
        }
    }
}

/// The model of a name, on values of which the most frequent has a third of the rows, or on persons with a few rows each.
fn model(name: &str) -> Vec<Model> {
    match name {
        "none" => Vec::new(),
        "l" => vec![Model::Distinct { column: 0, at_least: 2, unit: false }],
        "entropy" => vec![Model::Entropy { column: 0, l: 2.0 }],
        "t" => vec![Model::Closeness { column: 0, t: 0.3, population: None }],
        "alpha" => vec![Model::Share { column: 0, alpha: 0.5 }],
        "unit" => vec![Model::UnitShare { column: 0, at_most: 0.25 }],
        _ => panic!("models are none, l, entropy, t, alpha and unit"),
    }
}

/// What the work returns and the CPU seconds it took; cancelled when it takes more than the limit.
fn timed<R: Send>(limit: f64, cancel: &Cancel, work: impl FnOnce() -> R) -> (R, f64) {
    let start = cpu_seconds();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_millis(200));
                if cpu_seconds() - start > limit {
                    cancel.cancel();
                }
            }
        });
        let result = work();
        let seconds = cpu_seconds() - start;
        done.store(true, Ordering::Relaxed);
        (result, seconds)
    })
}

/// User time of this process; the kernel counts in hundredths of a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<f64>().unwrap() / 100.0
}
