//! The values of a column before and after, so that nobody can be counted.
//!
//! - A value that fewer records (with a privacy unit: persons) have than the threshold is pooled with others, until the pool has enough
//!   records of its own: otherwise the total minus the rest would tell it.
//! - Numbers are counted in ranges; the outer ones are open, because the smallest and the largest value
//!   are those of somebody.
//! - Counts are rounded to multiples of the threshold, so that neither the difference of two of them nor
//!   what is missing to the total counts fewer records.

use std::collections::BTreeMap;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::prelude::SessionContext;

use super::facts::pairs;
use super::grid::{Axis, Grid};
use crate::error::Result;
use crate::sql::{ORIGINAL, identifier};

/// The most values of a chart.
const BARS: usize = 12;

/// A column before and after.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Distribution {
    pub(super) bars: Vec<Bar>,
    /// Whether the bars are ranges in order.
    pub(super) is_ordered: bool,
}

/// A value, or several, with about how many records have it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) before: f64,
    pub(super) after: f64,
}

impl Bar {
    fn new(label: impl Into<String>, before: f64, after: f64) -> Self {
        Self { label: label.into(), before, after }
    }
}

const OTHER: &str = "other values";
const HIDDEN: &str = "no value (*)";
const MISSING: &str = "missing";

/// A published cell as text: bounds as `[20-39]`.
pub(super) fn shown_text(quoted: &str, published: &DataType) -> String {
    match published {
        DataType::Struct(_) => {
            let part = |name: &str| format!("arrow_cast({quoted}['{name}'], 'Utf8')");
            let (lower, upper) = (part("lower"), part("upper"));
            format!(
                "CASE WHEN {lower} = {upper} THEN {lower} ELSE '[' || {lower} || '-' || {upper} || ']' END"
            )
        }
        _ => format!("arrow_cast({quoted}, 'Utf8')"),
    }
}

/// The fewest who have a value that is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fewest<'a> {
    pub(super) threshold: u64,
    /// What tells persons apart, if one may own several records: then the threshold counts persons.
    pub(super) person: Option<&'a str>,
}

impl Fewest<'_> {
    /// How many own the records of a group, in SQL over the original.
    fn owners(self) -> String {
        match self.person {
            Some(column) => format!("count(DISTINCT {})", identifier(column)),
            None => "count(*)".to_owned(),
        }
    }

    /// How many own the records of two groups, at least: one person may be in both.
    fn together(self, one: f64, other: f64) -> f64 {
        if self.person.is_some() { one.max(other) } else { one + other }
    }

    fn allows(self, owners: f64) -> bool {
        owners == 0.0 || owners >= self.threshold as f64
    }
}

/// A column in SQL.
struct Queried<'a> {
    /// Its name in quotes.
    quoted: String,
    /// The published table, and the column's cells there as text.
    table: &'a str,
    labels: String,
}

/// Counts the values of a column in the original and in a published table.
pub(super) async fn distribution(
    context: &SessionContext,
    original: &Field,
    table: &str,
    published: &Field,
    fewest: Fewest<'_>,
) -> Result<Option<Distribution>> {
    let quoted = identifier(original.name());
    let labels = shown_text(&quoted, published.data_type());
    let column = Queried { quoted, table, labels };
    let found = match Axis::of(original.data_type()) {
        Some(axis) => ranges(context, &column, axis, fewest).await?,
        None => Some(values(context, &column, fewest).await?),
    };
    Ok(found.map(|mut found| {
        let unit = fewest.threshold as f64;
        for bar in &mut found.bars {
            bar.before = (bar.before / unit).round() * unit;
            bar.after = (bar.after / unit).round() * unit;
        }
        found.bars.retain(|bar| bar.before + bar.after > 0.0);
        found
    }))
}

async fn values(
    context: &SessionContext,
    Queried { quoted, table, labels }: &Queried<'_>,
    fewest: Fewest<'_>,
) -> Result<Distribution> {
    let counted = |text: &str, count: &str, table: &str| {
        format!("SELECT {text} AS label, {count} FROM {} GROUP BY 1", identifier(table))
    };
    let text = format!("arrow_cast({quoted}, 'Utf8')");
    let mut values: BTreeMap<Option<String>, Counted> = BTreeMap::new();
    for (label, rows) in pairs(context, &counted(&text, "count(*)", ORIGINAL)).await? {
        values.entry(label).or_default().before = rows as f64;
    }
    for (label, owners) in pairs(context, &counted(&text, &fewest.owners(), ORIGINAL)).await? {
        values.entry(label).or_default().owners = owners as f64;
    }
    for (label, rows) in pairs(context, &counted(labels, "count(*)", table)).await? {
        values.entry(label).or_default().after = rows as f64;
    }
    Ok(Distribution { bars: pooled(values, fewest), is_ordered: false })
}

/// About how many records have a value, and how many persons own those of the original.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counted {
    before: f64,
    owners: f64,
    after: f64,
}

impl Counted {
    fn together(self, other: Self, fewest: Fewest<'_>) -> Self {
        Self {
            before: self.before + other.before,
            owners: fewest.together(self.owners, other.owners),
            after: self.after + other.after,
        }
    }

    /// Whether so many may be shown. Nobody owns few of what nobody has.
    fn is_enough(self, fewest: Fewest<'_>) -> bool {
        let originals = self.before == 0.0 || self.owners >= fewest.threshold as f64;
        originals && fewest.allows(self.after)
    }

    fn weight(self) -> f64 {
        self.before.max(self.after)
    }
}

/// The values that may be shown, the most frequent first, and the rest as one.
fn pooled(values: BTreeMap<Option<String>, Counted>, fewest: Fewest<'_>) -> Vec<Bar> {
    let label = |label: Option<String>| match label.as_deref() {
        None => MISSING.to_owned(),
        Some("*") => HIDDEN.to_owned(),
        Some(_) => label.unwrap_or_default(),
    };
    let values = values.into_iter().map(|(value, counted)| (label(value), counted));
    let (mut shown, few): (Vec<_>, Vec<_>) =
        values.partition(|(_, counted)| counted.is_enough(fewest));
    shown.sort_by(|(name, one), (other_name, other)| {
        other.weight().total_cmp(&one.weight()).then(name.cmp(other_name))
    });
    let beyond = shown.split_off(BARS.min(shown.len()));
    let add = |sum: Counted, (_, counted): (String, Counted)| sum.together(counted, fewest);
    let mut other = few.into_iter().chain(beyond).fold(Counted::default(), add);
    // What is pooled must itself be enough, or the total minus the rest would tell it.
    while !other.is_enough(fewest) {
        let Some(next) = shown.pop() else { break };
        other = add(other, next);
    }
    let mut bars: Vec<Bar> = shown
        .into_iter()
        .map(|(name, counted)| Bar::new(name, counted.before, counted.after))
        .collect();
    if other.before + other.after > 0.0 {
        bars.push(Bar::new(OTHER, other.before, other.after));
    }
    // Values of the original first, then the wider terms of the release, then what is no value.
    bars.sort_by_key(|bar| match bar.label.as_str() {
        OTHER => 4,
        HIDDEN => 3,
        MISSING => 2,
        _ => usize::from(bar.before == 0.0),
    });
    bars
}

async fn ranges(
    context: &SessionContext,
    Queried { quoted, table, labels }: &Queried<'_>,
    axis: Axis,
    fewest: Fewest<'_>,
) -> Result<Option<Distribution>> {
    let number = axis.number(quoted);
    let Some((low, high)) = middle(context, &number).await? else { return Ok(None) };
    let grid = Grid::new(axis, low, high);
    let mut before = Histogram::new(&grid);
    let (first, step, last) = (grid.first, grid.step, grid.count - 1);
    let bins = |count: &str| {
        format!(
            "SELECT arrow_cast(arrow_cast(CASE WHEN NOT isnan({number}) THEN least(greatest(floor(({number} - {first:?}) / {step:?}), 0.0), {last}.0) END, 'Int64'), 'Utf8'), \
             {count} FROM {} GROUP BY 1",
            identifier(ORIGINAL)
        )
    };
    for (bin, rows) in pairs(context, &bins("count(*)")).await? {
        *before.of(bin, last) += rows as f64;
    }
    let mut owners = Histogram::new(&grid);
    for (bin, persons) in pairs(context, &bins(&fewest.owners())).await? {
        *owners.of(bin, last) += persons as f64;
    }
    let mut after = Histogram::new(&grid);
    let query = format!("SELECT {labels} AS label, count(*) FROM {} GROUP BY 1", identifier(table));
    for (label, rows) in pairs(context, &query).await? {
        match label.as_deref() {
            None => after.missing += rows as f64,
            Some(text) => match axis.read(text) {
                Some((low, high)) => grid.spread(&mut after.bins, low, high, rows as f64),
                None => after.hidden += rows as f64,
            },
        }
    }
    let bars = merged(&grid, &before, &owners, &after, fewest);
    Ok(Some(Distribution { bars, is_ordered: true }))
}

/// Numbers between which nearly all values are, whatever the few others are.
async fn middle(context: &SessionContext, number: &str) -> Result<Option<(f64, f64)>> {
    let at = |share: f64| format!("approx_percentile_cont({share:?}) WITHIN GROUP (ORDER BY x)");
    let query = format!(
        "SELECT concat_ws(' ', {}, {}), count(x) FROM (SELECT {number} AS x FROM {}) WHERE NOT isnan(x)",
        at(0.02),
        at(0.98),
        identifier(ORIGINAL)
    );
    let found = pairs(context, &query).await?;
    let texts = found.first().and_then(|(text, _)| text.clone()).unwrap_or_default();
    let numbers: Vec<f64> = texts.split(' ').filter_map(|text| text.parse().ok()).collect();
    Ok(match numbers.as_slice() {
        [low, high] if low.is_finite() && high.is_finite() => Some((*low, *high)),
        _ => None,
    })
}

#[derive(Debug, Clone)]
struct Histogram {
    bins: Vec<f64>,
    missing: f64,
    hidden: f64,
}

impl Histogram {
    fn new(grid: &Grid) -> Self {
        Self { bins: vec![0.0; grid.count], missing: 0.0, hidden: 0.0 }
    }

    /// A range by the number of a query; what has none is missing.
    fn of(&mut self, bin: Option<String>, last: usize) -> &mut f64 {
        match bin.and_then(|bin| bin.parse::<usize>().ok()) {
            Some(bin) => &mut self.bins[bin.min(last)],
            None => &mut self.missing,
        }
    }
}

/// Neighbouring ranges together until each has enough records, or persons.
fn merged(
    grid: &Grid,
    before: &Histogram,
    owners: &Histogram,
    after: &Histogram,
    fewest: Fewest<'_>,
) -> Vec<Bar> {
    let threshold = fewest.threshold as f64;
    let mut groups: Vec<(usize, usize, Counted)> = Vec::new();
    for bin in 0..grid.count {
        let counted =
            Counted { before: before.bins[bin], owners: owners.bins[bin], after: after.bins[bin] };
        match groups.last_mut() {
            Some((_, to, sum)) if sum.owners < threshold => {
                *to = bin;
                *sum = sum.together(counted, fewest);
            }
            _ => groups.push((bin, bin, counted)),
        }
    }
    if groups.len() > 1
        && groups.last().is_some_and(|(_, _, sum)| sum.owners < threshold)
        && let (Some((_, to, few)), Some(last)) = (groups.pop(), groups.last_mut())
    {
        *last = (last.0, to, last.2.together(few, fewest));
    }
    let bar = |(from, to, sum): (usize, usize, Counted)| {
        Bar::new(grid.label(from, to), sum.before, sum.after)
    };
    let mut bars: Vec<Bar> = groups.into_iter().map(bar).collect();
    let mut rest = Bar::new(OTHER, 0.0, 0.0);
    let missing = Counted { before: before.missing, owners: owners.missing, after: after.missing };
    let hidden = Counted { before: before.hidden, owners: owners.hidden, after: after.hidden };
    for (label, counted) in [(MISSING, missing), (HIDDEN, hidden)] {
        let Counted { before, after, .. } = counted;
        if counted.is_enough(fewest) {
            bars.extend((before + after > 0.0).then(|| Bar::new(label, before, after)));
        } else if fewest.person.is_none() {
            rest.before += before;
            rest.after += after;
        }
    }
    // Few missing cells, rounded like everything else: most often nothing. Those of few persons may be many
    // and are left out.
    bars.extend((rest.before + rest.after > 0.0).then_some(rest));
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Fewest<'_> = Fewest { threshold: 10, person: None };
    const TEN_PERSONS: Fewest<'_> = Fewest { threshold: 10, person: Some("person") };

    type Values = BTreeMap<Option<String>, Counted>;

    /// Values with records before, their owners, and records after.
    fn counted(list: &[(&str, u32, u32, u32)]) -> Values {
        list.iter()
            .map(|(label, before, owners, after)| {
                let [before, owners, after] = [*before, *owners, *after].map(f64::from);
                (Some((*label).to_owned()), Counted { before, owners, after })
            })
            .collect()
    }

    #[test]
    fn a_rare_value_is_not_told_by_what_is_missing_to_the_total() {
        let values = counted(&[("a", 500, 500, 500), ("b", 40, 40, 43), ("rare", 3, 3, 0)]);
        let bars = pooled(values, TEN);
        assert_eq!(bars, [Bar::new("a", 500.0, 500.0), Bar::new(OTHER, 43.0, 43.0)]);
    }

    #[test]
    fn a_value_of_one_person_is_not_shown_however_many_records_have_it() {
        let values = counted(&[
            ("Flu", 500, 300, 500),
            ("Cold", 400, 300, 400),
            ("Rare", 60, 1, 60),
            ("Other", 60, 9, 60),
        ]);
        let bars = pooled(values, TEN_PERSONS);
        // Two values of few persons may be those of the same: the next value joins them.
        assert_eq!(bars, [Bar::new("Flu", 500.0, 500.0), Bar::new(OTHER, 520.0, 520.0)]);
        let grid = Grid::new(Axis::Whole, 20.0, 69.0);
        let mut records = Histogram::new(&grid);
        records.bins.fill(50.0);
        let mut owners = Histogram::new(&grid);
        owners.bins.fill(20.0);
        owners.bins[3] = 1.0;
        let bars = merged(&grid, &records, &owners, &records, TEN_PERSONS);
        assert_eq!(bars.len(), grid.count - 1, "{bars:?}");
        assert_eq!(bars[3].before, 100.0, "{bars:?}");
    }

    #[test]
    fn no_shown_value_has_fewer_records_than_the_threshold() {
        let names: Vec<String> = (0..60).map(|number| format!("v{number}")).collect();
        let mut list: Vec<(&str, u32, u32, u32)> = Vec::new();
        list.extend((0..60).map(|number| (names[number as usize].as_str(), number, number, 0)));
        list.push(("*", 0, 0, 1770));
        let bars = pooled(counted(&list), Fewest { threshold: 20, person: None });
        assert!(bars.len() <= BARS + 1);
        assert!(bars.iter().all(|bar| bar.before == 0.0 || bar.before >= 20.0), "{bars:?}");
        assert_eq!(bars.iter().map(|bar| bar.before).sum::<f64>(), 1770.0);
        assert_eq!(bars.iter().map(|bar| bar.after).sum::<f64>(), 1770.0);
    }

    #[test]
    fn the_outer_ranges_are_open_and_sparse_ones_are_merged() {
        let grid = Grid::new(Axis::Whole, 20.0, 69.0);
        let mut before = Histogram::new(&grid);
        before
            .bins
            .iter_mut()
            .enumerate()
            .for_each(|(bin, rows)| *rows = if bin < 4 { 50.0 } else { 2.0 });
        let bars = merged(&grid, &before, &before, &before, TEN);
        assert!(bars[0].label.starts_with("under"), "{bars:?}");
        assert!(bars.last().is_some_and(|bar| bar.label.ends_with("and over")), "{bars:?}");
        assert!(bars.iter().all(|bar| bar.before >= 10.0), "{bars:?}");
    }
}
