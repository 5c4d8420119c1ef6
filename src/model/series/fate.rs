//! What a cohort publishes tonight.

/// What happens to a cohort of which somebody is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "engine", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "engine", serde(rename_all = "snake_case"))]
pub enum Leavers {
    /// It repeats its rows of the last release.
    #[default]
    Hold,
    /// It is left out, for good.
    Withdraw,
}

/// Which values of persons who stay are published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "engine", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "engine", serde(rename_all = "snake_case"))]
pub enum Changes {
    /// Tonight's.
    #[default]
    Publish,
    /// Those of the first release that they were in.
    Never,
}

/// What is known of a cohort tonight.
#[derive(Debug, Clone, Copy)]
pub struct Presence {
    /// Whether its members are those that it was made of, and all of them are here.
    pub is_whole: bool,
    /// Whether what it would publish meets the requirement.
    pub holds: bool,
    /// Whether the last release has it. One that it has not was withdrawn.
    pub was_published: bool,
}

/// What a cohort publishes tonight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Its members' rows of tonight.
    Live,
    /// Its members' quasi-identifiers of tonight with the values of the last release: tonight's do not meet the
    /// requirement.
    Kept,
    /// Its rows of the last release: somebody is gone.
    Held,
    /// Nothing, tonight and ever after.
    Withdrawn,
}

impl Fate {
    /// A cohort is published whole or not at all.
    ///
    /// One whose values do not meet the requirement publishes its last ones again, with tonight's quasi-identifiers.
    /// Somebody who knows that all its members are here, and how old they are tonight, would learn from a cohort that
    /// vanished, or showed old ranges, what its values are like.
    pub fn of(presence: Presence, leavers: Leavers) -> Self {
        match (presence.was_published, presence.is_whole, leavers) {
            (false, _, _) | (true, false, Leavers::Withdraw) => Self::Withdrawn,
            (true, false, Leavers::Hold) => Self::Held,
            (true, true, _) if presence.holds => Self::Live,
            (true, true, _) => Self::Kept,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_cohorts_that_meet_the_requirement_live() {
        for leavers in [Leavers::Hold, Leavers::Withdraw] {
            let fate = |is_whole, holds, was_published| {
                Fate::of(Presence { is_whole, holds, was_published }, leavers)
            };
            assert_eq!(fate(true, true, true), Fate::Live);
            assert_eq!(fate(true, false, true), Fate::Kept);
            let left = match leavers {
                Leavers::Hold => Fate::Held,
                Leavers::Withdraw => Fate::Withdrawn,
            };
            assert_eq!((fate(false, true, true), fate(false, false, true)), (left, left));
            for (is_whole, holds) in [(true, true), (true, false), (false, true), (false, false)] {
                assert_eq!(fate(is_whole, holds, false), Fate::Withdrawn);
            }
        }
    }
}
