//! The secret of a release, and the seeds that are drawn from it.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::error::{Error, Result};

/// A secret of fewer characters is short. 16 hexadecimal digits are 64 bits.
const LEAST_CHARACTERS: usize = 16;

/// So is one of fewer different characters: padding takes nobody any time to try.
const LEAST_DIFFERENT: usize = 5;

/// The secret that a release is made under: what `seed => …` names, or one that was drawn.
///
/// It is like a salt: somebody who knows it and guesses rows could replay how ties were broken. It is only used to
/// derive a [`Seed`] for each [`Purpose`]. Its `Debug` output shows nothing, so that it cannot reach a log or a plan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct Secret {
    root: Seed,
    is_short: bool,
}

impl Secret {
    /// A secret from the operating system's randomness.
    pub fn random() -> Result<Self> {
        let mut bytes = [0u8; 16];
        getrandom::fill(&mut bytes)
            .map_err(|_| Error::bug("the operating system gave no randomness for the seed"))?;
        let value = u128::from_le_bytes(bytes);
        Ok(Self { root: Seed([value as u64, (value >> 64) as u64]), is_short: false })
    }

    /// The secret a caller named.
    pub fn from_text(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Err(Error::invalid(
                "option 'seed' is empty: leave it out, and one is drawn from the operating system, or write a \
                 secret of 16 characters or more (openssl rand -hex 16 prints one)",
            ));
        }
        let characters: Vec<char> = text.trim().chars().collect();
        let different: BTreeSet<&char> = characters.iter().collect();
        let is_short = characters.len() < LEAST_CHARACTERS || different.len() < LEAST_DIFFERENT;
        Ok(Self { root: Seed::from_bytes(text.as_bytes()), is_short })
    }

    /// Whether it is short enough to be found by trying: a release made with it must not be published.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// A text by which the same secret is recognized. It is not the secret, and short secrets can be found from it by
    /// trying, so it belongs where only the owner of the secret looks.
    pub fn fingerprint(&self) -> String {
        let Seed([one, other]) = self.seed(Purpose::SeriesFingerprint);
        format!("{one:016x}{other:016x}")
    }

    /// The seed of one use.
    pub fn seed(&self, purpose: Purpose) -> Seed {
        self.root.derive([purpose.name()].into_iter())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

macro_rules! purposes {
    ($($(#[$doc:meta])* $purpose:ident = $hashed:literal,)*) => {
        /// Everything that a secret is used for. Each use has a seed of its own, so that what one reveals says nothing
        /// about the others.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Purpose {
            $($(#[$doc])* $purpose,)*
        }

        impl Purpose {
            #[cfg(test)]
            const ALL: &[Self] = &[$(Self::$purpose,)*];

            /// The text that is hashed with the secret.
            fn name(self) -> &'static str {
                match self {
                    $(Self::$purpose => $hashed,)*
                }
            }
        }
    };
}

// Changing a text changes every release that uses it.
purposes! {
    /// Hashes of the sensitive values and the privacy unit of a row.
    SensitiveValues = "sensitive values",
    /// Hashes of the kept columns of a row.
    KeptValues = "kept values",
    /// The order of rows with equal quasi-identifiers.
    Ties = "ties",
    /// The order of persons with equal quasi-identifiers.
    Persons = "persons",
    /// Which rows join the suppressed ones, for methods with constraints.
    Suppressed = "suppressed rows",
    /// The order of classes that publish the same.
    AlikeClasses = "classes that publish the same",
    /// The class numbers that two tables share.
    ClassNumbers = "numbers of classes",
    /// The order of the rows of a class in a table without sensitive values.
    RowOrder = "order of rows",
    /// Which row of a sensitive value goes into which class, in two tables.
    Mixing = "mixing",
    /// Buckets and permutations of the slicing methods.
    Slicing = "slicing",
    /// The rows at which groups of the clustering methods start.
    Starts = "starts of groups",
    /// The sample by which a table is cut into cells.
    CellSample = "sample of cells",
    /// The persons that are counted in cells.
    CellPersons = "persons in cells",
    /// The order of classes over all cells.
    CellClasses = "classes over cells",
    /// Pseudonyms of persons in the state of a series.
    SeriesPersons = "persons of a series",
    /// Ids of the cohorts of a series.
    SeriesCohorts = "cohorts of a series",
    /// Values of the last release of a series, which are compared and ordered by their hashes.
    SeriesRows = "rows of a series",
    /// What tells the seed of a series from any other.
    SeriesFingerprint = "fingerprint of a series",
}

/// A key for one use of a [`Secret`], which its `Debug` output does not show.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct Seed([u64; 2]);

impl Seed {
    /// The seed of some bytes. Both halves are mixed, so that nearby numbers share nothing.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let half = |key| {
            let mut hasher = SipHasher13::new_with_keys(0x616e_6f6e, key);
            hasher.write(bytes);
            hasher.finish()
        };
        Self([half(1), half(2)])
    }

    /// A seed of its own for every sequence of texts.
    pub fn derive<'t>(&self, texts: impl Iterator<Item = &'t str>) -> Self {
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

    /// The key as it is, for hash functions other than the one of [`Seed::hasher`].
    pub(super) fn halves(&self) -> [u64; 2] {
        self.0
    }

    /// A hasher keyed with this seed. The outcome is the same on every machine.
    pub fn hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(secret)")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_secret_never_shows_itself() -> Result<()> {
        let secret = Secret::from_text("4711")?;
        let shown = format!("{secret:?} {:?}", secret.seed(Purpose::Ties));
        assert_eq!(shown, "Secret Seed(secret)");
        Ok(())
    }

    #[test]
    fn a_secret_knows_whether_it_is_short() -> Result<()> {
        assert!(Secret::from_text("42")?.is_short());
        assert!(Secret::from_text("123456789012345")?.is_short());
        assert!(!Secret::from_text("1234567890123456")?.is_short());
        // Characters and not bytes.
        assert!(Secret::from_text("éééééééééé")?.is_short());
        assert!(!Secret::random()?.is_short());
        let Err(empty) = Secret::from_text("") else {
            return Err(Error::bug("an empty seed was accepted"));
        };
        assert!(empty.to_string().contains("openssl rand -hex 16"), "{empty}");
        Ok(())
    }

    #[test]
    fn a_fingerprint_recognizes_a_secret() -> Result<()> {
        let of = |text| Secret::from_text(text).map(|secret| secret.fingerprint());
        assert_eq!(of("one")?, of("one")?);
        assert_ne!(of("one")?, of("two")?);
        Ok(())
    }

    #[test]
    fn every_purpose_has_a_seed_of_its_own() -> Result<()> {
        let secret = Secret::from_text("one")?;
        let mut seeds: BTreeSet<Seed> = Purpose::ALL.iter().map(|of| secret.seed(*of)).collect();
        seeds.insert(secret.root);
        assert_eq!(seeds.len(), Purpose::ALL.len() + 1);
        assert_eq!(secret.seed(Purpose::Ties), Secret::from_text("one")?.seed(Purpose::Ties));
        assert_ne!(secret.seed(Purpose::Ties), Secret::from_text("two")?.seed(Purpose::Ties));
        Ok(())
    }

    #[test]
    fn texts_are_told_apart() {
        let seed = Seed::from_bytes(b"one");
        let of = |texts: &[&str]| seed.derive(texts.iter().copied());
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
