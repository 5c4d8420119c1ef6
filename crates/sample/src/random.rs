//! Random draws that need no state: a draw is a function of seed, purpose and position.

/// The golden ratio in 64 bits: steps of it visit every `u64` before one repeats.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Scrambles 64 bits one-to-one so that neighbours share nothing visible (the finalizer of `SplitMix64`).
pub(super) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// An endless sequence of draws that can be read at any position in any order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draws {
    start: u64,
}

impl Draws {
    /// The sequence of one purpose (a column, say) under a seed; two purposes have unrelated sequences.
    pub(super) const fn new(seed: u64, purpose: u64) -> Self {
        let purpose = mix(purpose.wrapping_add(1).wrapping_mul(STEP));
        Self { start: mix(mix(seed.wrapping_add(STEP)) ^ purpose) }
    }

    /// The draw at a position, uniform over 64 bits.
    #[inline]
    pub(super) const fn at(self, position: u64) -> u64 {
        mix(self.start.wrapping_add(position.wrapping_mul(STEP)))
    }
}

/// Weighted outcomes, one distribution per condition, drawn in constant time by Walker's alias method.
///
/// The line `0..outcomes` is cut into slots of equal width. A slot belongs to its own outcome up to a
/// threshold and to one other outcome beyond it; a uniform point on the line then has the wanted
/// distribution, at the price of one multiplication, one load and one comparison.
#[derive(Debug)]
pub(super) struct Choices {
    outcomes: usize,
    slots: Vec<Slot>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    threshold: u32,
    other: u32,
}

impl Choices {
    /// Builds one distribution per item; all items are equally long and have a positive weight somewhere.
    pub(super) fn new(conditions: impl IntoIterator<Item = Vec<f64>>) -> Self {
        let mut slots = Vec::new();
        let mut outcomes = 0;
        for weights in conditions {
            outcomes = weights.len();
            slots.extend(alias_slots(&weights));
        }
        Self { outcomes, slots }
    }

    /// The outcome under a condition (its position in [`Choices::new`]) for a uniform draw.
    #[inline]
    pub(super) fn pick(&self, condition: usize, draw: u32) -> u32 {
        let point = u64::from(draw) * self.outcomes as u64;
        let own = (point >> 32) as u32;
        let slot = self.slots[condition * self.outcomes + own as usize];
        if (point as u32) < slot.threshold { own } else { slot.other }
    }
}

/// Vose's construction: every outcome short of a full slot is topped up by one that has too much.
fn alias_slots(weights: &[f64]) -> Vec<Slot> {
    let total: f64 = weights.iter().sum();
    let mut share: Vec<f64> =
        weights.iter().map(|weight| weight * weights.len() as f64 / total).collect();
    // An outcome that keeps its slot to the end is its own other: the threshold does not matter there.
    let mut slots: Vec<Slot> =
        (0..weights.len() as u32).map(|own| Slot { threshold: u32::MAX, other: own }).collect();
    let (mut poor, mut rich): (Vec<usize>, Vec<usize>) =
        (0..weights.len()).partition(|&outcome| share[outcome] < 1.0);
    while let (Some(&short), Some(&long)) = (poor.last(), rich.last()) {
        poor.pop();
        slots[short] =
            Slot { threshold: (share[short] * 2f64.powi(32)) as u32, other: long as u32 };
        share[long] -= 1.0 - share[short];
        if share[long] < 1.0 {
            rich.pop();
            poor.push(long);
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_as_often_as_their_weights_say() {
        let weights = [vec![1.0, 0.0, 3.0, 6.0], vec![5.0, 5.0, 0.0, 0.0]];
        let choices = Choices::new(weights.clone());
        let draws = Draws::new(1, 2);
        for (condition, weights) in weights.iter().enumerate() {
            let mut seen = [0u32; 4];
            for position in 0..100_000 {
                let draw = (draws.at(position) >> 32) as u32;
                seen[choices.pick(condition, draw) as usize] += 1;
            }
            for (seen, weight) in seen.iter().zip(weights) {
                let expected = weight * 10_000.0;
                assert!((f64::from(*seen) - expected).abs() < 600.0, "{seen} of {expected}");
                assert!(*weight > 0.0 || *seen == 0);
            }
        }
    }

    #[test]
    fn purposes_and_seeds_have_sequences_of_their_own() {
        let read = |seed, purpose| -> Vec<u64> {
            let draws = Draws::new(seed, purpose);
            (0..4).map(|position| draws.at(position)).collect()
        };
        assert_ne!(read(1, 1), read(1, 2));
        assert_ne!(read(1, 1), read(2, 1));
        assert_eq!(read(3, 4), read(3, 4));
    }
}
