//! Sentences about figures, for readers who decide and do not program.

use super::chart::{grouped, percent};
use super::facts::{CHANCES, Facts, Kind};
use crate::manifest::Measure;

/// What a group is called, by how the release is made.
pub(super) fn group(kind: Kind) -> &'static str {
    match kind {
        Kind::Sliced => "bucket",
        _ => "group",
    }
}

/// What became of the requirements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All hold.
    InOrder,
    /// Some do not, or cannot be told.
    NotInOrder,
    /// There are none, so nothing was checked.
    NotChecked,
}

/// Whether everything that was asked for holds.
pub(super) fn verdict(measures: &[Measure]) -> (Verdict, String) {
    let asked = measures.iter().filter(|measure| measure.is_asked()).count();
    let broken = measures.iter().filter(|measure| measure.is_broken()).count();
    match (asked, broken) {
        (0, _) => (
            Verdict::NotChecked,
            "No requirement was named, so this page does not say whether the records may be published."
                .to_owned(),
        ),
        (_, 0) => (
            Verdict::InOrder,
            "Every requirement holds. It was checked on the published records alone, without trusting the \
             program that made them."
                .to_owned(),
        ),
        (all, broken) => (
            Verdict::NotInOrder,
            format!("{broken} of {all} requirements do not hold. These records should not be published."),
        ),
    }
}

/// What a requirement asks for.
pub(super) fn requirement(measure: &Measure, kind: Kind) -> String {
    let group = group(kind);
    let of = measure.column.as_ref().map(|column| format!(" of “{column}”")).unwrap_or_default();
    match measure.measure.as_str() {
        "k" => match kind {
            Kind::Constraints => format!("Records that share their values{of}, at least"),
            _ => format!("Records in the smallest {group}, at least"),
        },
        "violating_groups" => format!("Combinations{of} that are too rare"),
        "violating_rows" if kind == Kind::Constraints => {
            format!("Records with such combinations{of}")
        }
        "violating_classes" => format!("{}s that are too small or too uniform{of}", capital(group)),
        "violating_rows" => format!("Records in such {group}s{of}"),
        "classes_that_differ" => "Groups in which the two tables do not agree".to_owned(),
        "naming_chance" => format!("Chance to name the value{of}, at most"),
        "l" => format!("Different values{of} in a {group}, at least"),
        "entropy_l" => format!("Evenness of the values{of} in a {group}, at least"),
        "t" => format!("Distance of a {group} from the whole table{of}, at most"),
        "alpha" => format!("Share of the most frequent value{of} in a {group}, at most"),
        other => format!("{}{of}", capital(&other.replace('_', " "))),
    }
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => String::new(),
    }
}

/// The sentence under the group sizes.
pub(super) fn sizes(facts: &Facts) -> String {
    let (Some(smallest), Some(average)) = (facts.measure("k"), facts.measure("average_class"))
    else {
        return "Group sizes cannot be told.".to_owned();
    };
    let largest = facts.measure("largest_class").unwrap_or(average);
    let what = match facts.kind {
        Kind::Sliced => "A bucket is a set of records whose parts were shuffled among each other.",
        Kind::TwoTables => "A group is the set of records among which a sensitive value is hidden.",
        _ => "A group is the set of records that look alike in everything somebody could know.",
    };
    let persons = match (facts.hides_persons, facts.measure("unit_share")) {
        (true, Some(share)) => format!(
            " One person may own several of them, at most {} of a {}; persons were counted when the groups were \
             made, and what is published does not tell them apart.",
            percent(share),
            group(facts.kind)
        ),
        (true, None) => {
            " One person may own several of them; persons were counted when the groups were made, \
                         and what is published does not tell them apart."
                .to_owned()
        }
        (false, _) => String::new(),
    };
    format!(
        "{what} The smallest has {} records, the average {:.1}, the largest {}. The larger a {}, the \
         better a person is hidden in it.{persons}",
        grouped(smallest as u64),
        average,
        grouped(largest as u64),
        group(facts.kind)
    )
}

/// The highest chance that matters for this kind of release, and what it is a chance of.
pub(super) fn highest_chance(facts: &Facts) -> Option<(f64, &'static str)> {
    let of_sensitive = |measure: &str| {
        let columns = facts.columns.iter().filter(|column| column.is_sensitive);
        columns.filter_map(|column| facts.of_column(measure, &column.name)).reduce(f64::max)
    };
    match facts.kind {
        Kind::Classes => Some((
            facts.measure("prosecutor_risk_max")?,
            "highest chance of picking a person’s record",
        )),
        Kind::Sliced => Some((
            of_sensitive("naming_chance")?,
            "highest chance of naming a person’s sensitive value",
        )),
        Kind::TwoTables => {
            Some((of_sensitive("alpha")?, "largest share of one sensitive value in a group"))
        }
        Kind::Constraints => None,
    }
}

/// Chances of finding somebody, each as a name, a chance and what it means.
pub(super) fn risks(facts: &Facts) -> Vec<(&'static str, f64, String)> {
    let (Some(most), Some(average)) =
        (facts.measure("prosecutor_risk_max"), facts.measure("prosecutor_risk_average"))
    else {
        return Vec::new();
    };
    let one_in = |chance: f64| {
        if chance > 0.0 { format!("1 in {:.0}", 1.0 / chance) } else { "none".to_owned() }
    };
    vec![
        (
            "Prosecutor, worst case",
            most,
            format!(
                "Somebody who knows that a certain person is among the records, and knows everything about \
                 them that could be known, picks the right record with a chance of at most {}.",
                one_in(most)
            ),
        ),
        (
            "Journalist, worst case",
            most,
            "Somebody who looks for anyone at all, to show that it can be done. Without a register of the \
             whole population to compare with, this chance is taken to be as high as the prosecutor’s; it \
             is lower if the records are a sample."
                .to_owned(),
        ),
        (
            "Marketer, on average",
            average,
            format!(
                "Somebody who tries to find everybody is right for {} of the records.",
                percent(average)
            ),
        ),
    ]
}

/// How many records are how much exposed, a sentence for each chance.
pub(super) fn exposure(facts: &Facts) -> Vec<String> {
    let all = facts.rows_published.max(1) as f64;
    let sentence = |(chance, rows): (&u64, &u64)| match rows {
        0 => format!("No record is picked with a chance of more than 1 in {chance}."),
        rows => format!(
            "{} of the records are picked with a chance of more than 1 in {chance}.",
            percent(*rows as f64 / all)
        ),
    };
    CHANCES.iter().zip(&facts.exposed).map(sentence).collect()
}

/// The sentence about information that was lost.
pub(super) fn loss(facts: &Facts) -> String {
    match (facts.kind, facts.measure("ncp")) {
        (Kind::TwoTables, _) => {
            "What could be known about a person is published exactly, and apart from the sensitive values; \
             what is lost is the connection between the two."
                .to_owned()
        }
        (_, None) => "How much information was lost cannot be told from the published values.".to_owned(),
        (kind, Some(loss)) => {
            let sliced = match kind {
                Kind::Sliced => " Values stay exact here; what is lost is which of them belong together.",
                _ => "",
            };
            format!(
                "On average a published value has lost {} of its information: 0 % means that it is as precise \
                 as before, 100 % that nothing is left of it.{sliced}",
                percent(loss)
            )
        }
    }
}

/// The sentence about records that are missing.
pub(super) fn suppressed(facts: &Facts) -> String {
    if let Some(series) = &facts.series {
        return format!(
            "{} persons of the original wait for a group. Records of groups that repeat their last ones stand for the \
             persons of those groups, some of whom may have left.",
            grouped(series.current.persons_waiting)
        );
    }
    let missing = facts.rows_original.saturating_sub(facts.rows_published);
    let all = grouped(facts.rows_original);
    match missing {
        0 => format!("No record was left out: all {all} are published."),
        missing => format!(
            "{} of {all} records ({}) were left out, because they could not be hidden among others. Which \
             records these are is not shown.",
            grouped(missing),
            percent(missing as f64 / facts.rows_original.max(1) as f64)
        ),
    }
}

/// What the page does not show.
pub(super) fn pooling(facts: &Facts) -> String {
    let threshold = facts.threshold;
    let whose = if facts.hides_persons { "persons" } else { "records" };
    format!(
        "Values that fewer than {threshold} {whose} have are shown together as “other values”, the lowest and the \
         highest numbers are part of open ranges, and counts of values are rounded to multiples of \
         {threshold}, so that nobody can be counted by comparing figures."
    )
}

/// What the figures say about a sensitive column, each as a name, a value and a sentence.
pub(super) fn diversity(facts: &Facts, column: &str) -> Vec<(&'static str, String, String)> {
    let group = group(facts.kind);
    let mut lines = Vec::new();
    if let Some(l) = facts.of_column("l", column) {
        let meaning = match l as u64 {
            0 | 1 => format!(
                "There is a {group} in which everybody has the same value: whoever finds a person’s {group} knows the value."
            ),
            l => format!("In every {group} there are at least {l} different values."),
        };
        lines.push(("Different values, fewest", grouped(l as u64), meaning));
    }
    if let Some(alpha) = facts.of_column("alpha", column) {
        let meaning = format!(
            "In the most uniform {group}, the most frequent value is that of {} of its records.",
            percent(alpha)
        );
        lines.push(("Most frequent value, largest share", percent(alpha), meaning));
    }
    if let Some(chance) = facts.of_column("naming_chance", column) {
        let meaning = format!(
            "Whoever knows a person’s bucket names the value with a chance of at most {}.",
            percent(chance)
        );
        lines.push(("Chance to name the value", percent(chance), meaning));
    }
    if let Some(t) = facts.of_column("t", column) {
        let meaning = format!(
            "0 means that every {group} is like the whole table, 1 that a {group} has nothing in common with it."
        );
        lines.push(("Distance from the whole table, largest", format!("{t:.2}"), meaning));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_checked_is_not_in_order() {
        let measure = |target, holds| Measure {
            measure: "k".to_owned(),
            column: None,
            value: None,
            target,
            holds,
        };
        assert_eq!(verdict(&[measure(None, None)]).0, Verdict::NotChecked);
        assert_eq!(verdict(&[measure(Some(2.0), None)]).0, Verdict::NotInOrder);
        assert_eq!(verdict(&[measure(Some(2.0), Some(false))]).0, Verdict::NotInOrder);
        assert_eq!(verdict(&[measure(Some(2.0), Some(true))]).0, Verdict::InOrder);
    }
}
