//! Verification of the classes before anything is published.
//!
//! Written apart from the counters the methods steer by, and on purpose the plain way (sort the
//! values of a class, walk the runs): a mistake there must not be able to hide here. Only the
//! distance of t-closeness is shared with [`Tally`], because the plain sum over a domain would cost
//! its size once per class.

use rayon::prelude::*;

use super::requirement::{Model, ROUNDING, Requirement, SensitiveColumn};
use super::{AlphaScope, Classes, GlobalShares, Grades, Tally};
use crate::error::{Error, Result};

/// Where a method left the rows: class after class, and behind them the rows it suppressed.
#[derive(Clone, Copy)]
pub struct Placement<'a> {
    /// Number of the row at a position.
    pub id_at: &'a (dyn Fn(usize) -> u32 + Sync),
    /// Rows of the whole input.
    pub rows: usize,
    /// The classes, over the first positions.
    pub classes: &'a Classes,
    /// Rows behind the classes that are not published.
    pub suppressed: usize,
}

/// Errors unless every row is in exactly one class or among the suppressed ones, and every class
/// satisfies the requirement.
pub fn check_placement(
    placement: &Placement,
    requirement: &Requirement,
    sensitive: &[SensitiveColumn],
) -> Result<()> {
    let Placement { id_at, rows, classes, suppressed } = *placement;
    if classes.rows().checked_add(suppressed) != Some(rows) {
        let classed = classes.rows();
        return Err(Error::bug(format!(
            "{classed} of {rows} rows are in a class and {suppressed} are suppressed"
        )));
    }
    every_row_once(id_at, rows)?;
    let global = GlobalShares::new(requirement, sensitive);
    let closeness = Requirement {
        k: requirement.k,
        models: requirement.models.iter().filter(|model| is_closeness(model)).cloned().collect(),
    };
    let per_thread = || (Tally::new(&closeness, sensitive, &global), Vec::new());
    (0..classes.len()).into_par_iter().try_for_each_init(per_thread, |(tally, values), class| {
        let range = classes.range(class);
        if range.len() < requirement.k as usize {
            let (size, k) = (range.len(), requirement.k);
            return Err(Error::bug(format!("a class has {size} rows, fewer than k = {k}")));
        }
        if !closeness.models.is_empty() && !tally.holds_for(range.clone().map(id_at)) {
            return Err(Error::bug("a class does not satisfy t"));
        }
        for model in &requirement.models {
            let codes = &sensitive[model.column()].codes;
            values.clear();
            values.extend(range.clone().map(|at| codes[id_at(at) as usize]));
            values.sort_unstable();
            if !satisfies(model, values) {
                return Err(Error::bug(format!("a class does not satisfy {model}")));
            }
        }
        Ok(())
    })
}

fn is_closeness(model: &Model) -> bool {
    matches!(model, Model::Closeness { .. })
}

fn every_row_once(id_at: &(dyn Fn(usize) -> u32 + Sync), rows: usize) -> Result<()> {
    let mut seen = vec![0u64; rows.div_ceil(64)];
    for at in 0..rows {
        let id = id_at(at) as usize;
        let (word, bit) = (id / 64, 1u64 << (id % 64));
        if id >= rows || seen[word] & bit != 0 {
            return Err(Error::bug("a row is in two classes or in none"));
        }
        seen[word] |= bit;
    }
    Ok(())
}

fn satisfies(model: &Model, sorted: &[u32]) -> bool {
    let rows = sorted.len() as f64;
    let runs = || sorted.chunk_by(|a, b| a == b);
    let shares = || runs().map(|run| run.len() as f64 / rows);
    match model {
        Model::Distinct { at_least, .. } => runs().count() >= *at_least as usize,
        Model::Entropy { l, .. } => -shares().map(|p| p * p.ln()).sum::<f64>() >= l.ln() - ROUNDING,
        Model::Share { alpha: most, .. } | Model::UnitShare { at_most: most, .. } => {
            shares().all(|p| p <= most + ROUNDING)
        }
        Model::Graded { grades, .. } => keeps_grades(grades, sorted),
        Model::Closeness { .. } => true,
    }
}

fn keeps_grades(grades: &Grades, sorted: &[u32]) -> bool {
    let bound = |level: u32| grades.alpha(level) + ROUNDING;
    let share = |count: usize| count as f64 / sorted.len() as f64;
    match grades.scope() {
        AlphaScope::Value => sorted
            .chunk_by(|a, b| a == b)
            .all(|run| share(run.len()) <= bound(grades.level(run[0]))),
        AlphaScope::Level => (1..=grades.levels()).all(|level| {
            let of_level = sorted.iter().filter(|code| grades.level(**code) == level);
            share(of_level.count()) <= bound(level)
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn check(ids: &[u32], sizes: &[u32], models: Vec<Model>, codes: &[u32]) -> Result<()> {
        let requirement = Requirement { k: 2, models };
        let (id_at, classes) = (|at: usize| ids[at], Classes::from_sizes(sizes)?);
        let placement =
            Placement { id_at: &id_at, rows: ids.len(), classes: &classes, suppressed: 0 };
        check_placement(&placement, &requirement, &[SensitiveColumn::of_values(codes, true)])
    }

    /// Codes 0 and 2 are of level 1, codes 1 and 3 of level 2.
    fn graded(alpha: f64, scope: AlphaScope) -> Model {
        let grades = Grades::new(vec![1, 2, 1, 2], vec![alpha, 0.75], scope);
        Model::Graded { column: 0, grades: Arc::new(grades.unwrap_or_else(|_| unreachable!())) }
    }

    #[test]
    fn suppressed_rows_are_counted_and_never_in_a_class() {
        let column = SensitiveColumn::of_values(&[0, 1, 0, 1, 0], false);
        let sound = |ids: &[u32], sizes: &[u32], suppressed| {
            let classes = Classes::from_sizes(sizes).unwrap_or_default();
            let id_at = |at: usize| ids[at];
            let placement = Placement { id_at: &id_at, rows: 5, classes: &classes, suppressed };
            check_placement(&placement, &Requirement::k(2), std::slice::from_ref(&column)).is_ok()
        };
        assert!(sound(&[4, 1, 0, 3, 2], &[2, 2], 1));
        assert!(sound(&[4, 1, 0, 3, 2], &[], 5));
        assert!(!sound(&[4, 1, 0, 3, 2], &[2, 2], 0), "a row is neither");
        assert!(!sound(&[4, 1, 0, 3, 2], &[3, 2], 1), "a row is both");
        assert!(!sound(&[4, 1, 0, 3, 3], &[2, 2], 1), "a row is in a class and suppressed");
    }

    fn models(t: f64) -> Vec<Model> {
        vec![
            Model::Distinct { column: 0, at_least: 2, unit: false },
            Model::Entropy { column: 0, l: 2.0 },
            Model::Share { column: 0, alpha: 0.5 },
            Model::UnitShare { column: 0, at_most: 0.5 },
            Model::Closeness { column: 0, t, population: None },
            graded(0.5, AlphaScope::Value),
            graded(0.5, AlphaScope::Level),
        ]
    }

    #[test]
    fn a_sound_release_passes() {
        assert_eq!(check(&[3, 0, 2, 1], &[2, 2], models(0.5), &[0, 1, 2, 3]), Ok(()));
    }

    #[test]
    fn every_broken_promise_is_found() {
        let fails = |ids: &[u32], sizes: &[u32], models| {
            matches!(check(ids, sizes, models, &[0, 0, 1, 1]), Err(Error::Bug(_)))
        };
        assert!(fails(&[0, 1, 2, 3], &[1, 3], vec![]), "a class below k");
        assert!(fails(&[0, 1, 1, 3], &[2, 2], vec![]), "a row twice");
        assert!(fails(&[0, 1, 2, 4], &[2, 2], vec![]), "a row that does not exist");
        assert!(fails(&[0, 1, 2, 3], &[2], vec![]), "a row left out");
        for model in models(0.1) {
            assert!(fails(&[0, 1, 2, 3], &[2, 2], vec![model.clone()]), "{model}");
        }
    }
}
