//! Counting open rows by the nodes that they share, in little memory.
//!
//! Keys are hashes. A slot keeps eight of their bits beside the count, so that two keys are now and then counted together.
//! Counts are never too small; who acts on one looks at the rows themselves.

/// The lower bits of a slot count rows, up to this many.
const ROWS: u32 = (1 << 24) - 1;

#[derive(Debug, Default)]
pub(super) struct Sketch {
    slots: Vec<u32>,
    /// Rows that classes under the same nodes could lend, by slot; empty as long as none does.
    lent: Vec<u32>,
    mask: usize,
}

/// When the rows of a key could be a class.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ready {
    /// Enough rows for a class.
    pub(super) k: u32,
    /// Enough rows if others lend the rest.
    pub(super) own: u32,
}

impl Ready {
    fn is(&self, rows: u32, lent: u32) -> bool {
        let enough = self.k.min(ROWS);
        rows >= enough || (rows >= self.own && rows.saturating_add(lent) >= enough)
    }
}

impl Sketch {
    /// Forgets everything and makes room for this many keys.
    pub(super) fn clear(&mut self, keys: usize) {
        let slots = (2 * keys + 1).next_power_of_two();
        self.mask = slots - 1;
        self.slots.clear();
        self.slots.resize(slots, 0);
        self.lent.clear();
    }

    /// The slot of a key, or the empty one where it belongs. There are always empty ones.
    #[inline]
    fn slot(&self, key: u64) -> usize {
        let tag = tag(key);
        let mut at = key as usize & self.mask;
        while self.slots[at] != 0 && self.slots[at] & !ROWS != tag {
            at = (at + 1) & self.mask;
        }
        at
    }

    /// Counts rows of a key.
    #[inline]
    pub(super) fn add(&mut self, key: u64, rows: u32) {
        let at = self.slot(key);
        let count = (self.slots[at] & ROWS).saturating_add(rows).min(ROWS);
        self.slots[at] = tag(key) | count;
    }

    /// Notes rows that could be lent; keys without open rows need none.
    pub(super) fn lend(&mut self, key: u64, rows: u32) {
        let at = self.slot(key);
        if self.slots[at] != 0 {
            self.lent.resize(self.slots.len(), 0);
            self.lent[at] += rows;
        }
    }

    /// Whether the rows of a key could be a class.
    pub(super) fn is_ready(&self, key: u64, ready: Ready) -> bool {
        let at = self.slot(key);
        ready.is(self.slots[at] & ROWS, self.lent.get(at).copied().unwrap_or(0))
    }

    /// Open rows of all keys that are ready.
    pub(super) fn ready_rows(&self, ready: Ready) -> u64 {
        let counts = self.slots.iter().map(|slot| slot & ROWS);
        if self.lent.is_empty() {
            let enough = ready.k.min(ROWS);
            return counts.map(|rows| if rows >= enough { u64::from(rows) } else { 0 }).sum();
        }
        let ready = counts.zip(&self.lent).filter(|(rows, lent)| ready.is(*rows, **lent));
        ready.map(|(rows, _)| u64::from(rows)).sum()
    }
}

fn tag(key: u64) -> u32 {
    (key >> 32) as u32 & !ROWS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_meet_in_one_slot_are_counted_apart() {
        let mut sketch = Sketch::default();
        let keys: Vec<u64> = (1..4).map(|tag: u64| (tag << 56) | 8).collect();
        for _ in 0..2 {
            sketch.clear(3);
            for key in [keys[0], keys[1], keys[2], keys[0]] {
                sketch.add(key, 2);
            }
            assert_eq!(sketch.ready_rows(Ready { k: 4, own: 2 }), 4, "the first key alone");
            sketch.lend(keys[1], 5);
            sketch.lend(9 << 56, 5);
            assert_eq!(sketch.ready_rows(Ready { k: 4, own: 4 }), 4, "too few of its own");
            assert_eq!(
                sketch.ready_rows(Ready { k: 4, own: 2 }),
                6,
                "and the second with what is lent"
            );
            let ready: Vec<bool> =
                keys.iter().map(|key| sketch.is_ready(*key, Ready { k: 4, own: 2 })).collect();
            assert_eq!(ready, [true, true, false]);
        }
    }
}
