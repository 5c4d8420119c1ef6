//! The partition kernel alone: codes in, classes out.
//!
//! ```sh
//! cargo bench -p datafusion-anonymize --no-default-features --bench kernels -- --rows 10000000
//! ```
//!
//! Prints nanoseconds per row beside a plain comparison sort of the same rows, on one thread and on
//! all of them.

#![allow(clippy::unwrap_used, missing_docs)]

use std::time::{Duration, Instant};

use datafusion_anonymize::Result;
use datafusion_anonymize::pure::hierarchy::Axis;
use datafusion_anonymize::pure::method::Variant;
use datafusion_anonymize::pure::method::layered::{Options, layered};
use datafusion_anonymize::pure::method::partition::{self, Cut, Job, Split, partition};
use datafusion_anonymize::pure::model::{Cancel, Classes, Requirement, RowKeys, RowTable};

/// Cardinalities like those of a census: age, sex, race, marital status, education, country, work
/// class, hours.
const CODES: [u32; 8] = [74, 2, 5, 7, 16, 41, 7, 99];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let at = args.iter().position(|arg| arg == "--rows");
    let rows = at.and_then(|at| args.get(at + 1)).map_or(1_000_000, |rows| rows.parse().unwrap());
    let codes = census(rows);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{rows} rows, 8 columns, k = 10");
    let sort = time(|| {
        let mut sorted = codes.clone();
        let start = Instant::now();
        sorted.sort_unstable();
        start.elapsed()
    });
    println!("{:<28} {:>7.1} ns/row", "sort_unstable, 1 thread", per_row(sort, rows));
    let at = args.iter().position(|arg| arg == "--only");
    let only = at.and_then(|at| args.get(at + 1)).map_or("", String::as_str);
    for pool_threads in [1, threads] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(pool_threads).build().unwrap();
        for (name, cut, split) in [
            ("rounded, least loss", Cut::Rounded, Split::LeastLoss),
            ("rounded, widest", Cut::Rounded, Split::Widest),
            ("mondrian, least loss", Cut::Strict, Split::LeastLoss),
        ]
        .into_iter()
        .filter(|(name, ..)| name.starts_with(only))
        {
            let spent = time(|| pool.install(|| run(&codes, cut, split)));
            let label = format!("{name}, {pool_threads} thread(s)");
            println!("{label:<34} {:>7.1} ns/row", per_row(spent, rows));
        }
        if !"layered".starts_with(only) {
            continue;
        }
        let spent = time(|| pool.install(|| run_layered(&codes)));
        let label = format!("layered, {pool_threads} thread(s)");
        println!("{label:<34} {:>7.1} ns/row", per_row(spent, rows));
    }
}

fn run(codes: &[[u32; 8]], cut: Cut, split: Split) -> Duration {
    let options = partition::Options { cut, split, variant: Variant::Best };
    form(codes, |rows, job| partition(rows, job, options))
}

fn run_layered(codes: &[[u32; 8]]) -> Duration {
    let options = Options { split: Split::LeastLoss, suppress: false };
    form(codes, |rows, job| Ok(layered(rows, job, &options)?.classes))
}

fn form(
    codes: &[[u32; 8]],
    method: impl FnOnce(&mut RowTable, &Job) -> Result<Classes>,
) -> Duration {
    let values = |codes: u32| (0..codes).map(f64::from).collect::<Vec<f64>>();
    let axes: Vec<Axis> = CODES.iter().map(|codes| Axis::line(&values(*codes), false)).collect();
    let (requirement, keys, cancel) = (Requirement::k(10), RowKeys::default(), Cancel::default());
    let job = Job {
        axes: &axes,
        requirement: &requirement,
        sensitive: &[],
        keys: &keys,
        cancel: &cancel,
    };
    let mut rows = RowTable::from_codes(codes).unwrap();
    let start = Instant::now();
    let classes = method(&mut rows, &job).unwrap();
    assert!(classes.rows() == codes.len());
    start.elapsed()
}

/// Skewed, correlated codes.
fn census(rows: usize) -> Vec<[u32; 8]> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..rows)
        .map(|_| {
            let shared = next();
            std::array::from_fn(|column| {
                let own = next();
                let draw = if own & 3 == 0 { shared.rotate_left(column as u32 * 8) } else { own };
                // The smaller of two draws: low codes are frequent.
                let (a, b) =
                    ((draw >> 8) as u32 % CODES[column], (draw >> 36) as u32 % CODES[column]);
                a.min(b)
            })
        })
        .collect()
}

/// The best of three.
fn time(mut f: impl FnMut() -> Duration) -> Duration {
    (0..3).map(|_| f()).min().unwrap()
}

fn per_row(time: Duration, rows: usize) -> f64 {
    time.as_nanos() as f64 / rows as f64
}
