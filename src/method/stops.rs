//! Methods notice in the middle of their work that a release was cancelled.

use super::{Family, Job, MethodRef, Settings, methods};
use crate::error::{Error, Result};
use crate::hierarchy::Axis;
use crate::model::{Cancel, Requirement, RowKeys, RowTable, Secret};

const ROWS: u32 = 2000;

/// How the method ended, and how often it asked whether it is still wanted.
fn run(method: MethodRef, cancel: &Cancel) -> (Result<()>, usize) {
    let codes: Vec<[u32; 3]> = (0..ROWS).map(|i| [i % 97, i * 7 % 89, i * 5 % 83]).collect();
    let values: Vec<f64> = (0..100).map(f64::from).collect();
    let axes = vec![Axis::line(&values, false); 3];
    let (requirement, keys) = (Requirement::k(5), RowKeys::default());
    let job = Job { axes: &axes, requirement: &requirement, sensitive: &[], keys: &keys, cancel };
    let formed = Secret::from_text("stops").and_then(|secret| {
        let mut rows = RowTable::from_codes(&codes).ok_or_else(|| Error::bug("too wide"))?;
        // Small blocks, so that a clustering has several of them.
        let settings = Settings { block_rows: Some(500), ..Settings::new(secret) };
        method.form(&mut rows, &job, &settings).map(drop)
    });
    (formed, cancel.looks())
}

#[test]
fn every_method_stops_in_the_middle_when_it_is_told() {
    for method in methods().filter(|method| method.family() == Family::Classes) {
        let (done, looks) = run(method, &Cancel::default());
        assert_eq!(done, Ok(()), "{method}");
        println!("{method} asks {looks} times for {ROWS} rows");
        assert!(looks >= 20, "{method} asks {looks} times");
        for at in [0, 1, looks / 2] {
            let (stopped, asked) = run(method, &Cancel::after(at));
            assert_eq!(stopped, Err(Error::Cancelled), "{method} at {at} of {looks}");
            // Threads that work beside the one that was told ask once more each.
            assert!(asked < looks, "{method} went on to its end");
        }
    }
}
