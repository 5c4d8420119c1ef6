//! Counting rows by the nodes that they share.

/// A hash of one node of one axis; the hashes of a row's nodes are summed to its key, so that climbing on one
/// axis changes one term. Two tuples of nodes with one sum would be counted together.
pub(in crate::method) fn node_key(axis: usize, node: u32) -> u64 {
    let mut hash = ((axis as u64 + 1) << 32) ^ u64::from(node);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// What is known of one key.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::method) struct Count {
    key: u64,
    /// Open rows.
    rows: u32,
    /// Rows that classes under the same nodes could lend.
    lent: u32,
}

impl Count {
    /// Whether the open rows are enough for a class, or almost enough and others lend the rest.
    pub(in crate::method) fn is_ready(&self, k: u32, own: u32) -> bool {
        self.rows >= k || (self.rows >= own && self.rows.saturating_add(self.lent) >= k)
    }
}

/// A hash table from keys, which are hashes already, to counts. Its memory is kept between uses.
#[derive(Debug, Default)]
pub(in crate::method) struct Counter {
    slots: Vec<Count>,
    mask: usize,
}

impl Counter {
    /// Forgets everything and makes room for this many keys.
    pub(in crate::method) fn clear(&mut self, keys: usize) {
        let slots = (2 * keys + 1).next_power_of_two();
        self.mask = slots - 1;
        self.slots.clear();
        self.slots.resize(slots, Count::default());
    }

    /// The slot of a key, or the empty one where it belongs. There are always empty ones.
    #[inline]
    fn slot(&self, key: u64) -> usize {
        let mut at = key as usize & self.mask;
        while self.slots[at].rows > 0 && self.slots[at].key != key {
            at = (at + 1) & self.mask;
        }
        at
    }

    #[inline]
    pub(in crate::method) fn add(&mut self, key: u64, rows: u32) {
        let at = self.slot(key);
        let slot = &mut self.slots[at];
        slot.key = key;
        slot.rows += rows;
    }

    /// Notes rows that could be lent; keys without open rows need none.
    pub(in crate::method) fn lend(&mut self, key: u64, rows: u32) {
        let at = self.slot(key);
        let slot = &mut self.slots[at];
        if slot.rows > 0 {
            slot.lent += rows;
        }
    }

    #[cfg(test)]
    fn get(&self, key: u64) -> Count {
        self.slots[self.slot(key)]
    }

    /// How many keys have open rows.
    pub(in crate::method) fn keys(&self) -> usize {
        self.slots.iter().filter(|slot| slot.rows > 0).count()
    }

    /// Open rows of all keys that are ready.
    pub(in crate::method) fn ready_rows(&self, k: u32, own: u32) -> u64 {
        self.slots
            .iter()
            .filter(|slot| slot.is_ready(k, own))
            .map(|slot| u64::from(slot.rows))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_meet_in_one_slot_are_counted_apart() {
        let mut counter = Counter::default();
        for _ in 0..2 {
            counter.clear(3);
            for key in [8, 16, 24, 8] {
                counter.add(key, 2);
            }
            counter.lend(16, 5);
            counter.lend(32, 5);
            assert_eq!((counter.get(8).rows, counter.get(16).rows), (4, 2));
            assert_eq!((counter.get(16).lent, counter.get(32).rows), (5, 0));
            assert_eq!(counter.keys(), 3);
            assert_eq!(counter.ready_rows(4, 4), 4, "key 8 alone");
            assert_eq!(counter.ready_rows(4, 2), 6, "and 16 with what is lent");
        }
    }
}
