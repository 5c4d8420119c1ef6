//! What the methods allocate beside the rows.

use super::plan::plan;
use super::{Constraint, Search};
use crate::method::TableShape;

/// About how many bytes it takes to satisfy the constraints on a table.
///
/// Rows of equal values are one tuple, and tuples of equal projections one group. There are no more of either
/// than their columns have combinations of values.
pub(super) fn bytes(
    shape: &TableShape,
    constraints: &[Constraint],
    search: Option<Search>,
) -> usize {
    // In every part its position, its tuple and its step.
    const OPEN: usize = 4 + 4 + 4;
    // A key and a place while tuples are numbered.
    const NUMBERED: usize = 8 + 4;
    // Its tuple, its place among the tuple's rows, and its key when rows join the suppressed ones. By then
    // the groups are gone.
    const JOINING: usize = 4 + 4 + 24;
    let combinations = |columns: &[usize]| {
        let codes =
            columns.iter().map(|column| shape.codes.get(*column).map_or(1, |c| *c as usize));
        codes.fold(1usize, usize::saturating_mul).min(shape.rows)
    };
    let parts = plan(constraints, shape.codes.len()).unwrap_or_default();
    let solving = parts.iter().map(|part| {
        let constraints = match search {
            Some(Search::Naive) => vec![part.union()],
            _ => part.constraints.clone(),
        };
        let groups = constraints.iter().map(|c| (combinations(&c.columns), c.columns.len()));
        let groupings = grouping(combinations(&part.columns), &groups.collect::<Vec<_>>());
        OPEN * shape.rows + groupings.max(NUMBERED * shape.rows)
    });
    let solving: usize = solving.sum();
    4 * shape.codes.len() * shape.rows + solving.max(JOINING * shape.rows)
}

/// Bytes of the groupings of so many tuples; of each the groups and the columns.
fn grouping(tuples: usize, groupings: &[(usize, usize)]) -> usize {
    // Its rows, and whether it is a candidate.
    const TUPLE: usize = 4 + 4 + 1;
    // Its group, and its place among the group's tuples.
    const MEMBER: usize = 4 + 4;
    // Open and frozen rows, candidates, key; a key and a place while groups are numbered.
    const GROUP: usize = 4 + 4 + 4 + 8 + 12;
    // A place in a table that is at most half full.
    const COUNTED: usize = 2 * 16;
    let of_one =
        |(groups, columns): &(usize, usize)| MEMBER * tuples + (GROUP + 4 * columns) * groups;
    // All groupings as they are, and the largest after a climb, which is tried before it is chosen.
    let kept: usize = groupings.iter().map(of_one).sum();
    let tried = groupings.iter().map(of_one).max().unwrap_or(0);
    let largest = groupings.iter().map(|(groups, _)| *groups).max().unwrap_or(0);
    TUPLE * tuples + kept + tried + COUNTED * largest
}
