//! Which rows belong to one person, and what the person is called.
//!
//! Nine persons in ten own one row, the others two to four (think of a row per job). A person's rows lie
//! in one block of 64 rows, scattered by one of 256 fixed patterns that the seed picks for the block:
//! so the owner of row `i` is found from `i` alone, and no list of persons is kept.

use std::sync::LazyLock;

use super::random::{Draws, mix};

/// Rows per block; a pattern stores positions in it as `u8`.
const BLOCK: usize = 64;

/// Number of patterns; the low bits of a draw select one.
const PATTERNS: usize = 256;

/// For every pattern and position the first position of the same person.
static OWNERS: LazyLock<Vec<[u8; BLOCK]>> =
    LazyLock::new(|| (0..PATTERNS as u64).map(pattern).collect());

/// The row that stands for the person who owns `row`: the first row of that person.
///
/// `blocks` are the draws that select the patterns.
pub(super) fn owner(blocks: Draws, row: u64) -> u64 {
    let pattern = blocks.at(row / BLOCK as u64) as usize % PATTERNS;
    let position = row % BLOCK as u64;
    row - position + u64::from(OWNERS[pattern][position as usize])
}

/// Deals the positions of a block out to persons.
fn pattern(number: u64) -> [u8; BLOCK] {
    let order_draws = Draws::new(number, 0);
    let size_draws = Draws::new(number, 1);
    let mut order: Vec<u8> = (0..BLOCK as u8).collect();
    order.sort_by_key(|&position| order_draws.at(u64::from(position)));
    let mut owners = [0; BLOCK];
    let mut dealt = 0;
    while dealt < BLOCK {
        let rows = match size_draws.at(dealt as u64) % 1000 {
            0..900 => 1,
            900..960 => 2,
            960..985 => 3,
            _ => 4,
        };
        let hand = &order[dealt..BLOCK.min(dealt + rows)];
        let first = hand.iter().copied().min().unwrap_or_default();
        for &position in hand {
            owners[usize::from(position)] = first;
        }
        dealt += rows;
    }
    owners
}

/// Bits of a person's number that are scrambled: ids stay at 13 digits for the first 2⁴⁰ rows.
const ID_BITS: u32 = 40;
const ID_MASK: u64 = (1 << ID_BITS) - 1;

/// The id of a person, unique within a seed and without visible order.
///
/// Every step can be undone within the scrambled bits, hence two persons never share an id.
pub(super) fn person_id(seed: u64, owner: u64) -> i64 {
    let key = mix(!seed);
    let mut id = (owner ^ key) & ID_MASK;
    id = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) & ID_MASK;
    id ^= id >> (ID_BITS / 2);
    id = id.wrapping_add(key >> 20).wrapping_mul(0xbf58_476d_1ce4_e5b9) & ID_MASK;
    id ^= id >> (ID_BITS / 2);
    id = id.wrapping_mul(0x94d0_49bb_1331_11eb) & ID_MASK;
    id ^= id >> (ID_BITS / 2);
    let beyond = owner >> ID_BITS << ID_BITS;
    ((beyond | id) & i64::MAX as u64) as i64
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn one_person_in_ten_owns_two_to_four_rows() {
        let blocks = Draws::new(5, 0);
        let mut rows: HashMap<u64, u32> = HashMap::new();
        for row in 0..64_000 {
            let owner = owner(blocks, row);
            assert!(owner <= row);
            *rows.entry(owner).or_default() += 1;
        }
        assert!(rows.values().all(|rows| (1..=4).contains(rows)));
        let several = rows.values().filter(|rows| **rows > 1).count();
        let share = several as f64 / rows.len() as f64;
        assert!((0.08..0.12).contains(&share), "{share}");
    }

    #[test]
    fn ids_are_unique_and_not_in_sequence() {
        let ids: Vec<i64> = (0..100_000).map(|owner| person_id(9, owner)).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
        assert!(ids.iter().all(|id| *id >= 0));
        let ascents = ids.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((45_000..55_000).contains(&ascents), "{ascents}");
    }
}
