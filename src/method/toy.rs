//! `sorted_runs`: runs of rows in the order of their codes. It keeps every promise and loses much.
//!
//! It is compiled for tests alone. This file and its line in the registry are all there is of it, which
//! `engine/toy_method.rs` runs through SQL: what a new method costs.

use super::{About, Family, Job, Method, MethodOption, Settings, Takes, Unverified};
use crate::error::Result;
use crate::model::{Classes, GlobalShares, RowTable, Tally, with_rows};

pub(super) static SORTED_RUNS: SortedRuns = SortedRuns;

pub(super) struct SortedRuns;

impl Method for SortedRuns {
    fn about(&self) -> &About {
        &About {
            name: "sorted_runs",
            family: Family::Classes,
            summary: "you test the registry",
            class_sizes: "at least k rows",
        }
    }

    fn accepts(&self, option: MethodOption, _given: &[MethodOption]) -> Takes {
        match option {
            MethodOption::RunRows => Ok(()),
            _ => self.family().accepts(option),
        }
    }

    fn form(&self, rows: &mut RowTable, job: &Job, _settings: &Settings) -> Result<Unverified> {
        let global = GlobalShares::new(job.requirement, job.sensitive);
        let mut tally = Tally::new(job.requirement, job.sensitive, &global);
        let sizes = with_rows!(rows, rows => {
            tally.check_whole_table(rows.iter().map(|row| row.id))?;
            rows.sort_unstable_by(|a, b| a.canonical_order(b, job.keys));
            let ids: Vec<u32> = rows.iter().map(|row| row.id).collect();
            runs(&ids, &mut tally, job)?
        });
        Classes::from_sizes(&sizes).map(Unverified::from)
    }
}

/// The shortest runs that satisfy the requirement; the rest joins as many of the last ones as it takes.
fn runs(ids: &[u32], tally: &mut Tally, job: &Job) -> Result<Vec<u32>> {
    let (mut sizes, mut start) = (Vec::new(), 0);
    tally.clear();
    for (at, id) in ids.iter().enumerate() {
        job.cancel.check()?;
        tally.add(*id);
        if at + 1 - start >= job.requirement.k as usize && tally.holds() {
            sizes.push((at + 1 - start) as u32);
            start = at + 1;
            tally.clear();
        }
    }
    if start == ids.len() {
        return Ok(sizes);
    }
    while !tally.holds_for(ids[start..].iter().copied()) {
        start -= sizes.pop().unwrap_or(0) as usize;
    }
    sizes.push((ids.len() - start) as u32);
    Ok(sizes)
}
