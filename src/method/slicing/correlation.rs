//! Attributes that go together, by their correlation in the whole table.

use rayon::prelude::*;

use super::columns::{Columns, even_parts};
use crate::error::Result;
use crate::hierarchy::Axis;
use crate::method::Job;
use crate::model::RowTable;

/// Attributes with more values are looked at in this many classes of about as many rows each.
const MOST_VALUES: usize = 32;

/// How much any two of the first attributes go together, from 0 to 1.
pub(super) fn correlations(rows: &RowTable, job: &Job, axes: &[&Axis]) -> Result<Vec<Vec<f64>>> {
    let few_values = |(at, axis): (usize, &&Axis)| {
        let all = 0..rows.len();
        few_values(&rows.codes(all.clone(), at), &rows.counts(all, at, axis.codes))
    };
    let values: Vec<Vec<u8>> = axes.iter().enumerate().map(few_values).collect();
    let attributes = values.len();
    let pairs: Vec<(usize, usize)> =
        (0..attributes).flat_map(|a| (a + 1..attributes).map(move |b| (a, b))).collect();
    let found: Vec<f64> = pairs
        .par_iter()
        .map(|(a, b)| {
            job.cancel.check()?;
            Ok(contingency(&values[*a], &values[*b]))
        })
        .collect::<Result<_>>()?;
    let mut near = vec![vec![1.0; attributes]; attributes];
    for ((a, b), found) in pairs.into_iter().zip(found) {
        near[a][b] = found;
        near[b][a] = found;
    }
    Ok(near)
}

/// The columns of the paper: so many, or as many as lie closest together, each of at most `most` attributes.
/// The sensitive attribute is the last one.
pub(super) fn global_columns(near: &[Vec<f64>], wanted: Option<usize>, most: usize) -> Columns {
    let far: Vec<Vec<f64>> =
        near.iter().map(|near| near.iter().map(|near| 1.0 - near).collect()).collect();
    let attributes = far.len();
    let column_of = match wanted {
        Some(columns) => medoids(&far, columns.clamp(2, attributes)),
        None => best(&far),
    };
    let sensitive = attributes - 1;
    let mut columns = Columns { with_sensitive: 0, others: Vec::new() };
    let mut others = vec![0u64; attributes];
    for at in 0..sensitive {
        let beside = columns.with_sensitive.count_ones() as usize + 1;
        match column_of[at] == column_of[sensitive] && beside < most {
            true => columns.with_sensitive |= 1 << at,
            false => others[column_of[at]] |= 1 << at,
        }
    }
    columns.others = others.into_iter().flat_map(|column| even_parts(column, most)).collect();
    columns
}

/// The attribute in at most [`MOST_VALUES`] classes of neighbouring codes.
fn few_values(column: &[u32], counts: &[u32]) -> Vec<u8> {
    let mut below = 0;
    let class: Vec<u8> = (counts.iter().enumerate())
        .map(|(code, count)| {
            let is_few = counts.len() <= MOST_VALUES;
            let class = if is_few { code } else { below * MOST_VALUES / column.len().max(1) };
            below += *count as usize;
            class as u8
        })
        .collect();
    column.iter().map(|code| class[*code as usize]).collect()
}

/// Mean square contingency: 0 for attributes that have nothing to do with each other, 1 where one
/// tells the other.
fn contingency(a: &[u8], b: &[u8]) -> f64 {
    let mut joint = vec![0u32; MOST_VALUES * MOST_VALUES];
    a.iter().zip(b).for_each(|(a, b)| joint[*a as usize * MOST_VALUES + *b as usize] += 1);
    let of_a: Vec<u64> =
        joint.chunks(MOST_VALUES).map(|row| row.iter().map(|n| u64::from(*n)).sum()).collect();
    let of_b: Vec<u64> = (0..MOST_VALUES)
        .map(|b| joint.iter().skip(b).step_by(MOST_VALUES).map(|n| u64::from(*n)).sum())
        .collect();
    let present = |counts: &[u64]| counts.iter().filter(|count| **count > 0).count();
    let smaller = present(&of_a).min(present(&of_b));
    if smaller < 2 {
        return 0.0;
    }
    let rows = a.len() as f64;
    let mut sum = 0.0;
    for (cell, count) in joint.iter().enumerate() {
        let expected = of_a[cell / MOST_VALUES] as f64 * of_b[cell % MOST_VALUES] as f64 / rows;
        if expected > 0.0 {
            sum += (f64::from(*count) - expected).powi(2) / expected;
        }
    }
    (sum / rows / (smaller - 1) as f64).min(1.0)
}

/// As many columns as give the largest mean silhouette, at most half as many as attributes.
fn best(far: &[Vec<f64>]) -> Vec<usize> {
    let most = far.len().div_ceil(2).max(2);
    let groupings = (2..=most).map(|columns| medoids(far, columns));
    let mut best: Option<(f64, Vec<usize>)> = None;
    for grouping in groupings {
        let found = silhouette(far, &grouping);
        if best.as_ref().is_none_or(|(so_far, _)| found > *so_far) {
            best = Some((found, grouping));
        }
    }
    best.map_or_else(Vec::new, |(_, grouping)| grouping)
}

/// How much closer attributes are to their own column than to the next, on average.
fn silhouette(far: &[Vec<f64>], column_of: &[usize]) -> f64 {
    let columns = column_of.iter().max().map_or(0, |last| last + 1);
    let of = |at: usize| {
        let mean = |column: usize| {
            let members =
                (0..far.len()).filter(|other| *other != at && column_of[*other] == column);
            let (sum, count) =
                members.fold((0.0, 0), |(sum, n), other| (sum + far[at][other], n + 1));
            (count > 0).then(|| sum / f64::from(count))
        };
        // A column of one attribute is neither good nor bad.
        let Some(own) = mean(column_of[at]) else { return 0.0 };
        let others = (0..columns).filter(|column| *column != column_of[at]).filter_map(mean);
        let next = others.fold(f64::INFINITY, f64::min);
        let larger = own.max(next);
        if larger > 0.0 && next.is_finite() { (next - own) / larger } else { 0.0 }
    };
    (0..far.len()).map(of).sum::<f64>() / far.len().max(1) as f64
}

/// Partitioning around medoids: the column of every attribute.
fn medoids(far: &[Vec<f64>], columns: usize) -> Vec<usize> {
    let attributes = far.len();
    let cost = |chosen: &[usize]| -> f64 {
        let nearest = |at: usize| chosen.iter().map(|m| far[at][*m]).fold(f64::INFINITY, f64::min);
        (0..attributes).map(nearest).sum()
    };
    let mut chosen: Vec<usize> = Vec::new();
    // Each new one is where it lowers the cost most; the first of equals.
    while chosen.len() < columns.min(attributes) {
        let candidates = (0..attributes).filter(|at| !chosen.contains(at));
        let with = |at: usize| (cost(&[chosen.as_slice(), &[at]].concat()), at);
        let best = candidates.map(with).min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        chosen.extend(best.map(|(_, at)| at));
    }
    // Then each is exchanged for another as long as that helps.
    loop {
        let mut best = (cost(&chosen) - 1e-12, None);
        for place in 0..chosen.len() {
            for at in (0..attributes).filter(|at| !chosen.contains(at)) {
                let mut other = chosen.clone();
                other[place] = at;
                let found = cost(&other);
                if found < best.0 {
                    best = (found, Some((place, at)));
                }
            }
        }
        let Some((place, at)) = best.1 else { break };
        chosen[place] = at;
    }
    let nearest = |at: usize| {
        let far_from = |column: &usize| far[at][chosen[*column]];
        let own = chosen.iter().position(|medoid| *medoid == at);
        let nearest = (0..chosen.len()).min_by(|a, b| far_from(a).total_cmp(&far_from(b)));
        own.or(nearest).unwrap_or(0)
    };
    (0..attributes).map(nearest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contingency_is_one_for_the_same_and_zero_for_unrelated_attributes() {
        let a: Vec<u8> = (0..900).map(|row| (row % 3) as u8).collect();
        let b: Vec<u8> = (0..900).map(|row| (row / 3 % 3) as u8).collect();
        let renamed: Vec<u8> = a.iter().map(|value| 7 - value).collect();
        assert!((contingency(&a, &renamed) - 1.0).abs() < 1e-9);
        assert!(contingency(&a, &b).abs() < 1e-9);
        assert_eq!(contingency(&a, &vec![4; 900]), 0.0);
    }

    #[test]
    fn attributes_that_go_together_share_a_column() {
        // 0 and 2 are alike, 1, 3 and 4 are alike.
        let group = [0, 1, 0, 1, 1];
        let far: Vec<Vec<f64>> = (0..5)
            .map(|a| {
                (0..5)
                    .map(|b| {
                        if a == b {
                            0.0
                        } else if group[a] == group[b] {
                            0.2
                        } else {
                            0.9
                        }
                    })
                    .collect()
            })
            .collect();
        for grouping in [medoids(&far, 2), best(&far)] {
            for a in 0..5 {
                for b in 0..5 {
                    assert_eq!(grouping[a] == grouping[b], group[a] == group[b], "{grouping:?}");
                }
            }
        }
        assert_eq!(medoids(&far, 5).iter().collect::<std::collections::BTreeSet<_>>().len(), 5);
    }
}
