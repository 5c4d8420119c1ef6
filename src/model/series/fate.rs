//! What a cohort publishes tonight.

/// What happens to a cohort of which somebody is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub enum Leavers {
    /// It repeats its rows of the last release.
    #[default]
    Hold,
    /// It is left out, for good.
    Withdraw,
}

/// Which values of persons who stay are published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
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
    /// Its rows of the last release. Whether somebody is gone, or tonight's rows do not meet the requirement.
    Repeated {
        /// Somebody is gone.
        is_held: bool,
    },
    /// Nothing, tonight and ever after.
    Withdrawn,
}

impl Fate {
    /// A cohort is published whole or not at all.
    ///
    /// One whose rows do not meet the requirement is always repeated: that it vanished would tell what its rows
    /// are like to somebody who knows that all its members are here.
    pub fn of(presence: Presence, leavers: Leavers) -> Self {
        match (presence.was_published, presence.is_whole, leavers) {
            (false, _, _) | (true, false, Leavers::Withdraw) => Self::Withdrawn,
            (true, false, Leavers::Hold) => Self::Repeated { is_held: true },
            (true, true, _) if presence.holds => Self::Live,
            (true, true, _) => Self::Repeated { is_held: false },
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
            assert_eq!(fate(true, false, true), Fate::Repeated { is_held: false });
            let left = match leavers {
                Leavers::Hold => Fate::Repeated { is_held: true },
                Leavers::Withdraw => Fate::Withdrawn,
            };
            assert_eq!((fate(false, true, true), fate(false, false, true)), (left, left));
            for (is_whole, holds) in [(true, true), (true, false), (false, true), (false, false)] {
                assert_eq!(fate(is_whole, holds, false), Fate::Withdrawn);
            }
        }
    }
}
