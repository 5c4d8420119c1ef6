//! Association retention: how many of a table's rules a release still shows.

use std::collections::BTreeMap;

use super::Measure;
use crate::association::{DEFAULT_WORK, Frequent, Items, Limits};
use crate::error::Result;
use crate::model::Cancel;

/// A column of a table: every cell is a number, and every number has labels.
#[derive(Debug, Clone, Default)]
pub struct LabelledColumn {
    /// By number, its label and the labels above it; empty for a missing cell.
    pub labels: Vec<Vec<String>>,
    /// By row, a number.
    pub cells: Vec<u32>,
}

/// What counts as a rule.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct RuleLimits {
    /// The share of all rows that have all labels of a rule.
    pub min_support: f64,
    /// The share of the rows with all labels but one that have the last one too.
    pub min_confidence: f64,
    /// The most labels of a rule.
    pub max_columns: usize,
}

/// Rules of the original that are also rules of the release. Both tables have the same columns.
///
/// A rule says: whoever has all labels of a set but one, has that one too. Labels are those of different
/// columns; a cell has its own label and all labels above it.
pub fn association_retention(
    original: &[LabelledColumn],
    published: &[LabelledColumn],
    limits: RuleLimits,
) -> Result<Vec<Measure>> {
    let tables = [original, published];
    let rows = |table: &[LabelledColumn]| table.first().map_or(0, |column| column.cells.len());
    let support =
        |table: &[LabelledColumn]| (limits.min_support * rows(table) as f64).ceil().max(1.0) as u32;
    // The same numbers for the same labels in both tables: all that are frequent in one of them.
    let mut frequent: Vec<BTreeMap<&str, ()>> = vec![BTreeMap::new(); original.len()];
    for table in tables {
        for (column, frequent) in table.iter().zip(&mut frequent) {
            frequent.extend(column.frequent(support(table)).into_iter().map(|label| (label, ())));
        }
    }
    let mut cut = 0;
    let mut rules = Vec::with_capacity(2);
    for table in tables {
        let mut items = Items::new(rows(table));
        for (number, (column, frequent)) in table.iter().zip(&frequent).enumerate() {
            for label in frequent.keys() {
                let has: Vec<bool> =
                    column.labels.iter().map(|labels| labels.iter().any(|l| l == label)).collect();
                let added = items.add(number as u16, |row| has[column.cells[row] as usize]);
                cut += u64::from(added.is_none());
            }
        }
        let of_table =
            Limits { support: support(table), items: limits.max_columns, work: DEFAULT_WORK };
        let found = Frequent::find(&items, of_table, &Cancel::default())?;
        cut += found.cut;
        rules.push(found.rules(limits.min_confidence));
    }
    let (of_original, of_published) = (&rules[0], &rules[1]);
    let kept = of_original.intersection(of_published).count() as f64;
    let all = of_original.len() as f64;
    let table = |name: &'static str, value: f64| Measure::of_table(name, Some(value));
    Ok(vec![
        table("rules_original", all),
        table("rules_published", of_published.len() as f64),
        table("rules_kept", kept),
        Measure::of_table("association_retention", (all > 0.0).then(|| kept / all)),
        table("association_sets_cut", cut as f64),
    ])
}

impl LabelledColumn {
    /// The labels that so many rows have.
    fn frequent(&self, support: u32) -> Vec<&str> {
        let mut counts = vec![0u32; self.labels.len()];
        self.cells.iter().for_each(|number| counts[*number as usize] += 1);
        let mut by_label: BTreeMap<&str, u32> = BTreeMap::new();
        for (labels, count) in self.labels.iter().zip(counts) {
            for label in labels {
                *by_label.entry(label).or_default() += count;
            }
        }
        by_label.retain(|_, count| *count >= support);
        by_label.into_keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(cells: &[&str]) -> LabelledColumn {
        let mut labels: Vec<&str> = cells.to_vec();
        labels.sort_unstable();
        labels.dedup();
        let above = |label: &&str| match *label {
            "cat" | "dog" => vec![(*label).to_owned(), "pet".to_owned()],
            "" => Vec::new(),
            label => vec![label.to_owned()],
        };
        let number = |cell: &&str| labels.partition_point(|label| label < cell) as u32;
        LabelledColumn {
            labels: labels.iter().map(above).collect(),
            cells: cells.iter().map(number).collect(),
        }
    }

    fn found(measures: &[Measure], name: &str) -> Option<f64> {
        measures.iter().find(|measure| measure.name == name)?.value
    }

    #[test]
    fn a_rule_survives_where_its_labels_still_go_together() -> Result<()> {
        let limits = RuleLimits { min_support: 0.25, min_confidence: 0.9, max_columns: 2 };
        let animal = ["cat", "cat", "dog", "dog", "cow", "cow", "", ""];
        let house = ["in", "in", "in", "in", "out", "out", "out", "out"];
        let original = [column(&animal), column(&house)];
        let same = association_retention(&original, &original, limits)?;
        // cat, dog and pet live in, and whoever lives in is a pet; cows live out.
        assert_eq!(found(&same, "rules_original"), Some(5.0));
        assert_eq!(found(&same, "association_retention"), Some(1.0));
        // Cats and dogs exchange their places: both still live in.
        let swapped = [column(&["dog", "dog", "cat", "cat", "cow", "cow", "", ""]), column(&house)];
        let swapped = association_retention(&original, &swapped, limits)?;
        assert_eq!(found(&swapped, "association_retention"), Some(1.0));
        // Generalized to pets, two rules are left; parted from their houses, none.
        let pets = [column(&["pet", "pet", "pet", "pet", "cow", "cow", "", ""]), column(&house)];
        let pets = association_retention(&original, &pets, limits)?;
        assert_eq!(
            (found(&pets, "rules_kept"), found(&pets, "rules_published")),
            (Some(3.0), Some(3.0))
        );
        let apart = [column(&["cow", "cat", "", "dog", "cat", "cow", "dog", ""]), column(&house)];
        let apart = association_retention(&original, &apart, limits)?;
        assert_eq!(found(&apart, "rules_kept"), Some(0.0));
        assert_eq!(found(&apart, "association_retention"), Some(0.0));
        Ok(())
    }

    #[test]
    fn without_a_rule_nothing_can_be_kept() -> Result<()> {
        let limits = RuleLimits { min_support: 0.5, min_confidence: 0.9, max_columns: 3 };
        let columns = [column(&["a", "b", "c"]), column(&["x", "y", "z"])];
        let measures = association_retention(&columns, &columns, limits)?;
        assert_eq!(found(&measures, "rules_original"), Some(0.0));
        assert_eq!(found(&measures, "association_retention"), None);
        Ok(())
    }
}
