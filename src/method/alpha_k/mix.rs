//! Which row of a sensitive value takes which of its places.

use std::hash::Hasher;

use rayon::prelude::*;

use super::Plan;
use super::groups::{Group, sizes};
use crate::error::Result;
use crate::method::blocks::slices;
use crate::model::{Code, Row, RowTable, Seed, with_rows};

/// What is hashed, beside the quasi-identifiers, to order the rows of a sensitive value.
///
/// Every part is needed. Otherwise rows of equal quasi-identifiers get related places, which readers of both tables
/// can compare: without the value they have the same rank among the rows of every value, without the number they are
/// neighbours. Only the tests of those attacks leave a part out.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyParts {
    /// The sensitive value.
    pub(super) value: bool,
    /// The number of the row among those that are equal in quasi-identifiers and value.
    pub(super) number: bool,
}

/// What decides which row of a value takes which place.
#[derive(Debug, Clone, Copy)]
pub(super) struct MixingKey {
    pub(super) seed: Seed,
    pub(super) parts: KeyParts,
}

impl MixingKey {
    /// The whole key.
    pub(super) fn new(seed: Seed) -> Self {
        Self { seed, parts: KeyParts::ALL }
    }
}

impl KeyParts {
    pub(super) const ALL: Self = Self { value: true, number: true };
}

/// The rows of every group in the order in which they take its places: positions in the table.
///
/// The rows of a group must stand in canonical order, so that equal ones are neighbours.
pub(super) fn order(
    rows: &RowTable,
    groups: &[Group],
    plan: &Plan,
    key: MixingKey,
) -> Result<Vec<u32>> {
    let mut order = vec![0u32; rows.len()];
    let stretches = slices(&mut order, &sizes(groups)).into_par_iter().zip(groups);
    stretches.try_for_each(|(stretch, group)| {
        plan.job.cancel.check()?;
        let mut keys = with_rows!(rows, rows => keys(rows, group, key));
        keys.par_sort_unstable();
        stretch.iter_mut().zip(keys).for_each(|(place, (_, at))| *place = at);
        Ok(())
    })?;
    Ok(order)
}

/// The hash of every row of a group, and its position.
fn keys<C: Code, const W: usize>(
    rows: &[Row<C, W>],
    group: &Group,
    key: MixingKey,
) -> Vec<(u64, u32)> {
    let MixingKey { seed, parts } = key;
    let mut number = 0;
    let key = |at: u32| {
        let codes = &rows[at as usize].codes;
        let is_next = at > group.start && *codes == rows[at as usize - 1].codes;
        number = if is_next { number + 1 } else { 0 };
        let mut hasher = seed.hasher();
        codes.iter().for_each(|code| hasher.write_u32(code.get()));
        hasher.write_u32(if parts.value { group.code } else { 0 });
        hasher.write_u32(if parts.number { number } else { 0 });
        (hasher.finish(), at)
    };
    (group.start..group.end).map(key).collect()
}
