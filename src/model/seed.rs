//! The secret under which ties are broken.

use std::cmp::Ordering;
use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::Store;
use crate::error::{Error, Result};

/// A secret, like a salt: somebody who knows it and guesses rows could replay how ties were broken.
///
/// Its `Debug` output shows nothing, so that it cannot reach a log or a plan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "codec", derive(serde::Serialize, serde::Deserialize))]
pub struct Seed([u64; 2]);

impl Seed {
    /// A seed from the operating system's randomness.
    pub fn random() -> Result<Self> {
        let mut bytes = [0u8; 16];
        getrandom::fill(&mut bytes)
            .map_err(|_| Error::bug("the operating system gave no randomness for the seed"))?;
        let value = u128::from_le_bytes(bytes);
        Ok(Self([value as u64, (value >> 64) as u64]))
    }

    /// The seed a caller named. Both halves are mixed, so that nearby numbers share nothing.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let half = |key| {
            let mut hasher = SipHasher13::new_with_keys(0x616e_6f6e, key);
            hasher.write(bytes);
            hasher.finish()
        };
        Self([half(1), half(2)])
    }

    /// A secret of its own for every text: what is drawn by the one says nothing about the other.
    pub fn for_purpose<'t>(&self, texts: impl Iterator<Item = &'t str>) -> Self {
        let mut halves = [1u8, 2].map(|half| {
            let mut hasher = self.hasher();
            hasher.write_u8(half);
            hasher
        });
        for text in texts {
            for hasher in &mut halves {
                hasher.write_usize(text.len());
                hasher.write(text.as_bytes());
            }
        }
        Self(halves.map(|hasher| hasher.finish()))
    }

    /// A hasher keyed with this secret. The outcome is the same on every machine.
    pub fn hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(secret)")
    }
}

/// One keyed hash per row and kind of column, by which rows with equal quasi-identifiers are told
/// apart without looking at where they stood in the input.
///
/// The sensitive values come first and the kept columns second: a query that reads fewer kept
/// columns puts the same quasi-identifiers and sensitive values into the same classes.
#[derive(Debug, Default)]
pub struct RowKeys {
    /// Hash of the sensitive values (and of the privacy unit), empty if there is none.
    pub sensitive: Store<u64>,
    /// Hash of the kept columns that are read, empty if there is none.
    pub kept: Store<u64>,
}

impl RowKeys {
    /// The keys of one row. Equal keys mean rows that nobody can tell apart.
    pub fn key(&self, id: u32) -> (u64, u64) {
        let at = |keys: &[u64]| keys.get(id as usize).copied().unwrap_or(0);
        (at(&self.sensitive), at(&self.kept))
    }

    /// Orders two rows of equal quasi-identifiers.
    pub fn compare(&self, a: u32, b: u32) -> Ordering {
        self.key(a).cmp(&self.key(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_never_shows_itself() {
        let shown = format!("{:?}", Seed::from_bytes(b"42"));
        assert_eq!(shown, "Seed(secret)");
    }

    #[test]
    fn every_purpose_has_a_secret_of_its_own() {
        let seed = Seed::from_bytes(b"one");
        let of = |texts: &[&str]| seed.for_purpose(texts.iter().copied());
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        assert_ne!(of(&["a", "b"]), of(&["ab"]));
        assert_ne!(of(&[]), seed);
    }

    #[test]
    fn different_seeds_give_different_hashes() {
        let hash = |seed: Seed| seed.hasher().finish();
        assert_ne!(hash(Seed::from_bytes(b"1")), hash(Seed::from_bytes(b"2")));
    }
}
