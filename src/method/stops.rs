//! Methods notice in the middle of their work that a release was cancelled.

use super::Job;
use super::cluster::{self, Clustering, Scale, cluster};
use super::layered::{self, layered};
use super::partition::{Cut, Split, partition};
use crate::error::{Error, Result};
use crate::hierarchy::Axis;
use crate::model::{Cancel, Requirement, RowKeys, RowTable, Seed};

const ROWS: u32 = 2000;

type Method = fn(&mut RowTable, &Job) -> Result<()>;

fn clustered(rows: &mut RowTable, job: &Job, by: Clustering) -> Result<()> {
    let seed = Seed::from_bytes(b"stops");
    let options = cluster::Options { weights: &[], seed: &seed, block_rows: 500 };
    cluster(rows, job, by, &options).map(drop)
}

/// How the method ended, and how often it asked whether it is still wanted.
fn run(method: Method, cancel: &Cancel) -> (Result<()>, usize) {
    let codes: Vec<[u32; 3]> = (0..ROWS).map(|i| [i % 97, i * 7 % 89, i * 5 % 83]).collect();
    let values: Vec<f64> = (0..100).map(f64::from).collect();
    let axes = vec![Axis::line(&values, false); 3];
    let (requirement, keys) = (Requirement::k(5), RowKeys::default());
    let job = Job { axes: &axes, requirement: &requirement, sensitive: &[], keys: &keys, cancel };
    let rows = RowTable::from_codes(&codes).ok_or_else(|| Error::bug("too wide"));
    (rows.and_then(|mut rows| method(&mut rows, &job)), cancel.looks())
}

#[test]
fn every_method_stops_in_the_middle_when_it_is_told() {
    let methods: [(&str, Method); 7] = [
        ("rounded", |rows, job| partition(rows, job, Cut::Rounded, Split::LeastLoss).map(drop)),
        ("mondrian", |rows, job| partition(rows, job, Cut::Strict, Split::LeastLoss).map(drop)),
        ("relaxed", |rows, job| partition(rows, job, Cut::Relaxed, Split::LeastLoss).map(drop)),
        ("layered", |rows, job| {
            let options = layered::Options { split: Split::LeastLoss, suppress: false };
            layered(rows, job, &options).map(drop)
        }),
        ("kaim", |rows, job| clustered(rows, job, Clustering::Kaim(Scale::Column))),
        ("k_member", |rows, job| clustered(rows, job, Clustering::KMember)),
        ("bottom_up", |rows, job| clustered(rows, job, Clustering::BottomUp)),
    ];
    for (name, method) in methods {
        let (done, looks) = run(method, &Cancel::default());
        assert_eq!(done, Ok(()), "{name}");
        println!("{name} asks {looks} times for {ROWS} rows");
        assert!(looks >= 20, "{name} asks {looks} times");
        for at in [0, 1, looks / 2] {
            let (stopped, asked) = run(method, &Cancel::after(at));
            assert_eq!(stopped, Err(Error::Cancelled), "{name} at {at} of {looks}");
            // Threads that work beside the one that was told ask once more each.
            assert!(asked < looks, "{name} went on to its end");
        }
    }
}
