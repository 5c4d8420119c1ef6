//! What a paper claims, and whether it was found.

use std::fmt;

use crate::variant::Variant;

/// One comparison that a claim makes.
#[derive(Debug, Clone)]
pub struct Check {
    /// Where on the axes.
    pub at: String,
    /// The numbers that decide.
    pub found: String,
    pub holds: bool,
}

/// All comparisons of a claim for one version of the methods, or why they could not be made.
pub type Found = Result<Vec<Check>, String>;

/// A sentence of a paper and what was measured.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The key of the paper and a number, such as `yang-2006.3`.
    pub number: &'static str,
    /// What the paper says.
    pub says: &'static str,
    /// Where it says so.
    pub place: &'static str,
    pub as_printed: Found,
    pub by_default: Found,
}

/// What the paper says, and where.
#[derive(Debug, Clone, Copy)]
pub struct Statement {
    number: &'static str,
    says: &'static str,
    place: &'static str,
}

/// How a claim is introduced.
pub const fn claim(number: &'static str, says: &'static str, place: &'static str) -> Statement {
    Statement { number, says, place }
}

impl Claim {
    /// Decides the claim for both versions.
    pub fn decide(statement: Statement, check: impl Fn(Variant) -> Found) -> Self {
        let Statement { number, says, place } = statement;
        let [as_printed, by_default] = Variant::BOTH.map(check);
        Self { number, says, place, as_printed, by_default }
    }
}

/// What a paper says, and how that is decided from what was measured.
pub type Rule<P> = (Statement, fn(&P, Variant) -> Found);

pub fn decide_all<P>(rules: &[Rule<P>], measured: &P) -> Vec<Claim> {
    let decide = |(statement, check): &Rule<P>| {
        Claim::decide(*statement, |variant| check(measured, variant))
    };
    rules.iter().map(decide).collect()
}

/// Decided by the comparisons alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Holds,
    /// In so many of all comparisons.
    InPart {
        holds: usize,
        of: usize,
    },
    DoesNotHold,
    NotMeasured,
}

impl Verdict {
    pub fn of(found: &Found) -> Self {
        let Ok(checks) = found else { return Self::NotMeasured };
        let of = checks.len();
        match checks.iter().filter(|check| check.holds).count() {
            _ if of == 0 => Self::NotMeasured,
            0 => Self::DoesNotHold,
            holds if holds == of => Self::Holds,
            holds => Self::InPart { holds, of },
        }
    }

    /// One word for style sheets.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::InPart { .. } => "in-part",
            Self::DoesNotHold => "fails",
            Self::NotMeasured => "unknown",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds => f.write_str("holds"),
            Self::InPart { holds, of } => write!(f, "holds in part ({holds} of {of})"),
            Self::DoesNotHold => f.write_str("does not hold"),
            Self::NotMeasured => f.write_str("not measured"),
        }
    }
}

/// The comparisons as rows: where, and what each version gave there.
pub fn rows(claim: &Claim) -> Vec<[String; 5]> {
    let part = |found: &Found, index: usize| match found {
        Ok(checks) => checks.get(index).map_or_else(Default::default, |check| {
            [check.found.clone(), if check.holds { "yes" } else { "no" }.to_owned()]
        }),
        Err(_) => ["not measured".to_owned(), "–".to_owned()],
    };
    let all = [&claim.as_printed, &claim.by_default];
    let longest =
        all.into_iter().filter_map(|found| found.as_ref().ok()).max_by_key(|checks| checks.len());
    let count = longest.map_or(1, |checks| checks.len().max(1));
    let row = |index: usize| {
        let at = longest.and_then(|checks| checks.get(index)).map(|check| check.at.clone());
        let [printed, printed_holds] = part(&claim.as_printed, index);
        let [ours, ours_holds] = part(&claim.by_default, index);
        [at.unwrap_or_else(|| "all".to_owned()), printed, printed_holds, ours, ours_holds]
    };
    (0..count).map(row).collect()
}

/// Why the claim could not be decided, for each version that could not.
pub fn refusals(claim: &Claim) -> impl Iterator<Item = String> {
    let versions = [("As printed", &claim.as_printed), ("By default", &claim.by_default)];
    versions
        .into_iter()
        .filter_map(|(version, found)| Some(format!("{version}: {}", found.as_ref().err()?)))
}

/// So many exceptions are named in a line.
const NAMED: usize = 3;

/// The comparisons in a line: the first, the last, and where it does not hold.
pub fn summary(found: &Found) -> String {
    let checks = match found {
        Ok(checks) => checks,
        Err(reason) => return reason.clone(),
    };
    let ends = match checks.as_slice() {
        [first, .., last] => vec![first, last],
        one => one.iter().collect(),
    };
    let told = ends.iter().map(|check| format!("{}: {}", check.at, check.found));
    let mut told = told.collect::<Vec<_>>().join("; ");
    let failing: Vec<&str> =
        checks.iter().filter(|check| !check.holds).map(|check| check.at.as_str()).collect();
    if !failing.is_empty() && failing.len() < checks.len() {
        let more = failing.len().saturating_sub(NAMED);
        told.push_str(&format!("; not with {}", failing[..failing.len() - more].join("; ")));
        if more > 0 {
            told.push_str(&format!(" and {more} more"));
        }
    }
    told
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn found(holds: &[bool]) -> Found {
        let check = |(at, holds): (usize, &bool)| Check {
            at: format!("k = {at}"),
            found: at.to_string(),
            holds: *holds,
        };
        Ok(holds.iter().enumerate().map(check).collect())
    }

    #[test]
    fn a_verdict_counts_the_comparisons() {
        assert_eq!(Verdict::of(&found(&[true, true])), Verdict::Holds);
        assert_eq!(Verdict::of(&found(&[true, false])), Verdict::InPart { holds: 1, of: 2 });
        assert_eq!(Verdict::of(&found(&[false, false])), Verdict::DoesNotHold);
        assert_eq!(Verdict::of(&found(&[])), Verdict::NotMeasured);
        assert_eq!(Verdict::of(&Err("refused".to_owned())), Verdict::NotMeasured);
    }

    #[test]
    fn a_refusal_is_shown_beside_what_was_measured() {
        let claim = Claim::decide(claim("P0.1", "", ""), |variant| match variant {
            Variant::Paper => Err("refused".to_owned()),
            Variant::Default => found(&[true, false]),
        });
        let rows = rows(&claim);
        assert_eq!(rows[0], ["k = 0", "not measured", "–", "0", "yes"]);
        assert_eq!(rows[1], ["k = 1", "not measured", "–", "1", "no"]);
        assert_eq!(refusals(&claim).collect::<Vec<_>>(), ["As printed: refused"]);
        assert_eq!(summary(&claim.as_printed), "refused");
        assert_eq!(summary(&claim.by_default), "k = 0: 0; k = 1: 1; not with k = 1");
    }
}
