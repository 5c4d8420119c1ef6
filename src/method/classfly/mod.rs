//! Many constraints at once: Classfly+ (`classfly_complete`, `classfly_partial`, `classfly_naive`),
//! its forerunner for one constraint (`classfly`) and Datafly (`datafly`).
//!
//! **Guarantee.** A constraint ⟨columns, K⟩ asks that every combination of published values in its
//! columns occurs at least K times. It holds for every constraint and every published combination, `*`
//! included. Constraints that share no column, directly or through others, form independent parts;
//! a row suppressed in one part publishes `*` in all columns of that part only, and so do at least as
//! many rows as the part's largest K, or none.
//!
//! **Steps.**
//!
//! 1. drop every constraint contained in another (fewer or the same columns, smaller or the same K);
//! 2. cut the rest into independent parts, and solve each alone on its own columns;
//! 3. while at least max K rows of the part are open: freeze, as they are, the largest set of open
//!    rows that satisfies the constraints together with the rows frozen before, then generalize one
//!    column by one level for the rows still open: the one with the best (rows that would freeze + 5 % of
//!    the open rows) per NCP added, the first declared of several (a column at its top is skipped);
//! 4. suppress the rows left. They are fewer than max K (for `datafly`: at most as many as allowed), so
//!    others join them until there are max K: the rows that lose least among those that every constraint
//!    can spare, where the secret seed chooses between equals. If there are too few such rows, the group
//!    that is cheapest to suppress is suppressed whole, with all rows that then fall below a K. Rows that
//!    are dropped (`suppress => 'rows'`) need no others to join them.
//!
//! [`Search`] says how step 3 finds the set. `datafly` freezes nothing before the end: it
//! generalizes all rows, the column with the most different values first, until few enough are outside the
//! set, and suppresses those. Few enough is at most max K, and at most the share of the rows that
//! `suppression_limit` allows.
//!
//! A frozen row counts for every open row that would publish the same projection. It never changes again, so what
//! relies on it holds; rows that leave their group later, to join the suppressed ones, do so only where the
//! published counts allow it.
//!
//! Worked on figures 1 and 2 of the paper, ⟨{Race, Birth}, 3⟩ and ⟨{Birth, ZIP}, 2⟩. The first
//! seven rows already satisfy both, so complete and partial publish them unchanged; the naive search
//! asks for three equal rows in all columns. The two rows left are fewer than three.
//!
//! | rows | Race | Birth | ZIP | complete, partial | naive |
//! | --- | --- | --- | --- | --- | --- |
//! | t1, t2 | White | 8/25/65 | 02138 | unchanged | White, 8/25/65, 0213* |
//! | t3, t4 | White | 8/25/65 | 02135 | unchanged | White, 8/25/65, 0213* |
//! | t5 – t7 | Black | 6/20/66 | 02137 | unchanged | unchanged |
//! | t8 | Black | 6/20/66 | 02136 | `*`, `*`, `*` | `*`, `*`, `*` |
//! | t9 | White | 6/20/66 | 02136 | `*`, `*`, `*` | `*`, `*`, `*` |
//!
//! **Cost.** Rows of equal values are one tuple, and tuples are grouped once per constraint, from their values.
//! All open rows are always on the same levels, so a climb only merges groups and tuples: it costs one lookup
//! per tuple and constraint that has the column, and one per open row. There are at most as many rounds as the trees have
//! levels, and a round is linear in the open tuples times the constraints: counts are kept, not made anew, and
//! tuples that fall one after the other are found through their groups. Which column gains most is found without
//! trying all of them: a bound from counting merged groups rules most of them out.
//!
//! **Departures.** As printed, all of these are [`Variant::Paper`]; NCP on 30 162 rows of the Adult census:
//!
//! | ours | the paper | gain |
//! | --- | --- | --- |
//! | frozen rows count, and the column climbs that gains most rows per loss | the open rows alone satisfy the constraints; the column with the most different values climbs | eleven sets of five overlapping constraints (K 3 to 25): 0.56 to 0.81 of the paper's NCP, 0.71 in the mean; one constraint on eight columns, k = 10: 0.0503 against 0.0640 (0.79); on four to nine columns, k = 2 to 100: 0.78 to 0.88 |
//! | rows join the suppressed ones until there are max K | fewer than max K rows publish `*` | whoever knows everybody's quasi-identifiers would know who they are, and that each of their kept and sensitive values belongs to one of these few, often to one person |
//!
//! In both variants: `datafly` climbs by width, because by gain it lost more as often as less (NCP on eight columns of
//! Adult, k = 2 to 100: 0.63 to 0.75 against 0.59 to 0.68). Its violating rows are those outside the largest satisfying set, because with several
//! constraints, suppressing only the rows that break one now can break another. A table of fewer rows than a K is an
//! error instead of a table of stars. The paper's figure generalizes rows of its sub-table ⟨{Sex, Work_Hrs}, 2⟩
//! that already satisfy the constraint; by its own rule they stay.
//!
//! **Source.** Yang, Liu, Wang and Yu, "K-Anonymization approaches for supporting multiple
//! constraints", Journal of Software 17(5), 2006 (the Classfly+ paper); Sweeney, "Datafly", 1997.

mod check;
mod classes;
mod climb;
mod gain;
mod group;
mod join;
mod memory;
mod method;
mod number;
mod plan;
mod subtable;

use rayon::prelude::*;

pub use check::check_constraints;
pub use classes::{PublishedClasses, into_classes};
use join::join_suppressed;
pub use method::trees;
pub(super) use method::{CLASSFLY, CLASSFLY_COMPLETE, CLASSFLY_NAIVE, CLASSFLY_PARTIAL, DATAFLY};
use plan::{Part, plan};
use subtable::{Outcome, SubTable};

use crate::error::{Error, Result};
use crate::hierarchy::Tree;
use crate::method::Variant;
use crate::model::{Cancel, RowKeys, RowTable, Seed};

/// Every combination of published values in these columns must occur at least k times.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct Constraint {
    /// The columns, by their positions among the quasi-identifiers.
    pub columns: Vec<usize>,
    /// The smallest number of equal rows.
    pub k: u32,
}

/// How the rows that can be published as they are get found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
pub enum Search {
    /// Drop the rows that some constraint rejects, with all constraints in turn, until none is left
    /// (method `classfly_complete`; with one constraint, `classfly`).
    Complete,
    /// The same set, found by adding the constraints one at a time (method `classfly_partial`).
    Partial,
    /// Only rows with max K equals in all columns of the part (method `classfly_naive`).
    Naive,
}

/// What the methods work from, beside the rows.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The hierarchies of the quasi-identifiers, in the order of the codes.
    pub trees: &'a [&'a Tree],
    /// What the release must satisfy.
    pub constraints: &'a [Constraint],
    /// The best version, or the paper's rules: then frozen rows do not count, the column with the most different values
    /// climbs, and no rows join the suppressed ones.
    pub variant: Variant,
    /// Whether rows that are suppressed in every component are left out.
    pub drop_suppressed: bool,
    /// Tells equal rows apart.
    pub keys: &'a RowKeys,
    /// Chooses between rows that cost the same to suppress.
    pub seed: Seed,
    /// Checked in every pass so that a dropped stream stops the work.
    pub cancel: &'a Cancel,
}

impl Job<'_> {
    /// Whether rows may have to join the suppressed ones of a part. They need not if suppressed rows are dropped,
    /// which is certain only where there is a single part.
    fn may_join(&self, part: &Part) -> bool {
        let is_only =
            self.constraints.iter().flat_map(|c| &c.columns).all(|c| part.columns.contains(c));
        self.variant == Variant::Best && !(self.drop_suppressed && is_only)
    }
}

/// What is published of every row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recoding {
    /// By column, the published node of each row in the column's tree, by position in the table.
    /// Columns in no constraint publish their values.
    pub nodes: Vec<Vec<u32>>,
    /// The independent parts of the constraints, in the order of their first columns.
    pub components: Vec<Component>,
}

impl Recoding {
    /// Rows that are suppressed in every component, by position, in order.
    pub fn suppressed_everywhere(&self) -> Vec<u32> {
        let Some((first, others)) = self.components.split_first() else { return Vec::new() };
        let in_all = |row: &&u32| {
            others.iter().all(|component| component.suppressed.binary_search(row).is_ok())
        };
        first.suppressed.iter().filter(in_all).copied().collect()
    }

    /// Rows that are not published, by position, in order.
    fn dropped(&self, job: &Job) -> Vec<u32> {
        if job.drop_suppressed { self.suppressed_everywhere() } else { Vec::new() }
    }

    /// Share of the cells in the components' columns that are suppressed.
    pub fn suppressed_share(&self) -> f64 {
        let columns = self.components.iter().map(|component| component.columns.len());
        let hidden = (self.components.iter())
            .map(|component| component.columns.len() * component.suppressed.len());
        let rows = self.nodes.first().map_or(0, Vec::len);
        hidden.sum::<usize>() as f64 / (columns.sum::<usize>() * rows).max(1) as f64
    }
}

/// An independent part of the constraints and what it cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Its columns, by their positions among the quasi-identifiers, as declared.
    pub columns: Vec<usize>,
    /// The largest k of its constraints.
    pub max_k: u32,
    /// Rows that publish the top in all its columns, by position in the table, in order.
    pub suppressed: Vec<u32>,
    /// How many of them fitted and were suppressed only to join the others.
    pub joined: usize,
    /// The most rows, not counting those that joined, that the method may suppress here.
    pub suppress_limit: usize,
    /// How often a column was generalized by one level.
    pub climbs: usize,
}

/// Satisfies all constraints, freezing rows as soon as they can be published.
///
/// The rows stay where they are; the recoding speaks of them by position. Works on the current
/// rayon pool; nothing but the counts of equal rows decides the outcome.
///
/// ```
/// use datafusion_anonymize::pure::hierarchy::{LabelTable, Tree};
/// use datafusion_anonymize::Variant;
/// use datafusion_anonymize::pure::method::classfly::{Constraint, Job, Search, classfly};
/// use datafusion_anonymize::pure::model::{Cancel, RowKeys, RowTable, Seed};
///
/// let table = LabelTable::parse("a;x;*\nb;x;*\nc;y;*\nd;y;*\n")?;
/// let (tree, _) = Tree::new(&table.levels_over(&[0, 1, 2, 3]), 4, false);
/// // Three times a stays, c and d become y, and b is left alone until an a joins it.
/// let rows = RowTable::from_codes(&[[0], [0], [0], [1], [2], [3]]).unwrap();
/// let job = Job {
///     trees: &[&tree],
///     constraints: &[Constraint { columns: vec![0], k: 2 }],
///     variant: Variant::Best,
///     drop_suppressed: false,
///     keys: &RowKeys::default(),
///     seed: Seed::from_bytes(b"a secret"),
///     cancel: &Cancel::default(),
/// };
/// let recoding = classfly(&rows, &job, Search::Complete)?;
/// let mut labels: Vec<_> = recoding.nodes[0].iter().map(|node| tree.label(*node)).collect();
/// labels.sort();
/// assert_eq!(labels, [None, None, Some("*"), Some("*"), Some("y"), Some("y")]);
/// # Ok::<(), datafusion_anonymize::Error>(())
/// ```
pub fn classfly(rows: &RowTable, job: &Job, search: Search) -> Result<Recoding> {
    recode(rows, job, |part, columns| {
        let constraints = match search {
            Search::Naive => vec![part.union()],
            Search::Complete | Search::Partial => part.constraints.clone(),
        };
        let mut table = SubTable::new(part, &constraints, columns, job)?;
        let subset = table.largest_subset(search)?;
        table.freeze(&subset);
        let mut climbs = 0;
        while table.is_worth_a_round() {
            let Some(subset) = table.climb(search)? else { break };
            table.freeze(&subset);
            climbs += 1;
        }
        let limit = part.max_k() as usize - 1;
        Ok(Solution { outcome: table.finish(), climbs, limit, kept: constraints })
    })
}

/// Satisfies all constraints by generalizing whole columns, until in each independent part few enough
/// rows are outside the largest set that satisfies them: at most its largest k, and at most
/// `may_suppress`, which may be all rows. If that is less than the largest k, and others would have to join
/// them up to it, none.
pub fn datafly(rows: &RowTable, job: &Job, may_suppress: Option<usize>) -> Result<Recoding> {
    recode(rows, job, |part, columns| {
        let max_k = part.max_k() as usize;
        let limit = match may_suppress {
            Some(most) if most < max_k && job.may_join(part) => 0,
            Some(most) => most.min(max_k),
            None => max_k,
        };
        let mut table = SubTable::new(part, &part.constraints, columns, job)?;
        let mut subset = table.largest_subset(Search::Complete)?;
        let mut climbs = 0;
        while table.open_rows() - subset.rows as usize > limit {
            let Some(found) = table.climb_by_width(Search::Complete)? else { break };
            subset = found;
            climbs += 1;
        }
        table.freeze(&subset);
        let kept = part.constraints.clone();
        Ok(Solution { outcome: table.finish(), climbs, limit, kept })
    })
}

/// How a part was solved.
struct Solution {
    outcome: Outcome,
    climbs: usize,
    limit: usize,
    /// The constraints that the published rows satisfy.
    kept: Vec<Constraint>,
}

/// Solves the parts of the constraints and puts their outcomes together.
fn recode(
    rows: &RowTable,
    job: &Job,
    solve: impl Fn(&Part, &[Vec<u32>]) -> Result<Solution> + Sync,
) -> Result<Recoding> {
    let parts = plan(job.constraints, job.trees.len())?;
    let max_k = parts.iter().map(Part::max_k).max().unwrap_or(0);
    if rows.len() < max_k as usize {
        return Err(Error::TooFewRows { rows: rows.len(), k: max_k });
    }
    // Grouping reads a few columns of all rows, so they stand apart; the codes of a column become
    // its published nodes in place.
    let mut nodes = columns(rows, job.trees)?;
    job.cancel.check()?;
    let solutions = parts.par_iter().map(|part| solve(part, &nodes)).collect::<Result<Vec<_>>>()?;
    let mut components = Vec::with_capacity(parts.len());
    let mut kept_in = Vec::with_capacity(parts.len());
    for (part, Solution { outcome, climbs, limit, kept }) in parts.into_iter().zip(solutions) {
        for (place, column) in part.columns.iter().enumerate() {
            outcome.publish(place, &mut nodes[*column], job.trees[*column]);
        }
        components.push(Component {
            max_k: part.max_k(),
            columns: part.columns,
            suppressed: outcome.suppressed,
            joined: 0,
            suppress_limit: limit,
            climbs,
        });
        kept_in.push(kept);
    }
    let mut recoding = Recoding { nodes, components };
    if job.variant == Variant::Best {
        join_suppressed(rows, job, &kept_in, &mut recoding)?;
    }
    Ok(recoding)
}

/// The codes of the rows, column by column, checked against the trees.
fn columns(rows: &RowTable, trees: &[&Tree]) -> Result<Vec<Vec<u32>>> {
    let width = rows.width();
    if trees.len() > width {
        return Err(Error::bug(format!("{} trees for rows of {width} columns", trees.len())));
    }
    let column = |(index, tree): (usize, &&Tree)| {
        let codes = rows.codes(0..rows.len(), index);
        match codes.iter().max() {
            Some(max) if *max >= tree.codes() => {
                Err(Error::bug(format!("quasi-identifier {} has codes beyond its tree", index + 1)))
            }
            _ => Ok(codes),
        }
    };
    trees.par_iter().enumerate().map(column).collect()
}

#[cfg(test)]
mod tests;
