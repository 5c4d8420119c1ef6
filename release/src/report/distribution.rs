//! The values of a column before and after, so that nobody can be counted.
//!
//! - A value that fewer records have than the threshold is pooled with others, until the pool has enough
//!   records of its own: otherwise the total minus the rest would tell it.
//! - Numbers are counted in ranges; the outer ones are open, because the smallest and the largest value
//!   are those of somebody.
//! - Counts are rounded to multiples of the threshold, so that neither the difference of two of them nor
//!   what is missing to the total counts fewer records.

use datafusion::arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;

use super::facts::pairs;
use super::grid::{Axis, Grid};
use crate::error::Result;
use crate::sql::{ORIGINAL, identifier};

/// The most values of a chart.
const BARS: usize = 12;
/// The most values that are looked at.
const LISTED: usize = 500;

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

/// Counts the values of a column in both tables.
pub(super) async fn distribution(
    context: &SessionContext,
    table: &str,
    column: &str,
    (original, published): (&DataType, &DataType),
    threshold: u64,
) -> Result<Option<Distribution>> {
    let quoted = identifier(column);
    let labels = shown_text(&quoted, published);
    let found = match Axis::of(original) {
        Some(axis) => ranges(context, (table, &labels), &quoted, (axis, threshold)).await?,
        None => Some(values(context, (table, &labels), &quoted, threshold).await?),
    };
    Ok(found.map(|mut found| {
        let unit = threshold as f64;
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
    (table, labels): (&str, &str),
    quoted: &str,
    threshold: u64,
) -> Result<Distribution> {
    let counted = |text: &str, table: &str| {
        format!(
            "SELECT {text} AS label, count(*) FROM {} GROUP BY 1 ORDER BY 2 DESC, 1",
            identifier(table)
        )
    };
    let before =
        pairs(context, &counted(&format!("arrow_cast({quoted}, 'Utf8')"), ORIGINAL)).await?;
    let after = pairs(context, &counted(labels, table)).await?;
    Ok(Distribution { bars: pooled(&before, &after, threshold), is_ordered: false })
}

type Counted = (Option<String>, u64);

/// The values that may be shown, the most frequent first, and the rest as one.
fn pooled(before: &[Counted], after: &[Counted], threshold: u64) -> Vec<Bar> {
    let enough = |rows: f64| rows == 0.0 || rows >= threshold as f64;
    let mut bars: Vec<Bar> = Vec::new();
    let (mut other_before, mut other_after) = (0.0, 0.0);
    let find = |list: &[Counted], label: &Option<String>| {
        list.iter().find(|(other, _)| other == label).map_or(0.0, |(_, rows)| *rows as f64)
    };
    let listed = |list: &[Counted]| {
        list.iter().take(LISTED).map(|(label, _)| label.clone()).collect::<Vec<_>>()
    };
    let mut labels = listed(before);
    labels.extend(listed(after));
    labels.sort_unstable();
    labels.dedup();
    for label in &labels {
        let shown = match label.as_deref() {
            None => MISSING,
            Some("*") => HIDDEN,
            Some(text) => text,
        };
        bars.push(Bar::new(shown, find(before, label), find(after, label)));
    }
    let total = |list: &[Counted]| list.iter().map(|(_, rows)| *rows as f64).sum::<f64>();
    other_before += total(before) - bars.iter().map(|bar| bar.before).sum::<f64>();
    other_after += total(after) - bars.iter().map(|bar| bar.after).sum::<f64>();
    let mut pool = |bar: &Bar| {
        other_before += bar.before;
        other_after += bar.after;
    };
    bars.retain(|bar| {
        let shows = enough(bar.before) && enough(bar.after);
        if !shows {
            pool(bar);
        }
        shows
    });
    bars.sort_by(|one, other| {
        weight(other).total_cmp(&weight(one)).then(one.label.cmp(&other.label))
    });
    bars.drain(BARS.min(bars.len())..).for_each(|bar| pool(&bar));
    // What is pooled must itself be enough, or the total minus the rest would tell it.
    while !(enough(other_before) && enough(other_after)) {
        let Some(bar) = bars.pop() else { break };
        other_before += bar.before;
        other_after += bar.after;
    }
    if other_before + other_after > 0.0 {
        bars.push(Bar::new(OTHER, other_before, other_after));
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

fn weight(bar: &Bar) -> f64 {
    bar.before.max(bar.after)
}

async fn ranges(
    context: &SessionContext,
    (table, labels): (&str, &str),
    quoted: &str,
    (axis, threshold): (Axis, u64),
) -> Result<Option<Distribution>> {
    let Some((low, high)) = middle(context, &axis.number(quoted)).await? else { return Ok(None) };
    let grid = Grid::new(axis, low, high);
    let mut before = Histogram::new(&grid);
    let number = axis.number(quoted);
    let (first, step, last) = (grid.first, grid.step, grid.count - 1);
    let bins = format!(
        "SELECT arrow_cast(arrow_cast(CASE WHEN {number} IS NOT NULL THEN least(greatest(floor(({number} - {first:?}) / {step:?}), 0.0), {last}.0) END, 'Int64'), 'Utf8'), \
         count(*) FROM {} GROUP BY 1",
        identifier(ORIGINAL)
    );
    for (bin, rows) in pairs(context, &bins).await? {
        match bin.and_then(|bin| bin.parse::<usize>().ok()) {
            Some(bin) => before.bins[bin.min(last)] += rows as f64,
            None => before.missing += rows as f64,
        }
    }
    let mut after = Histogram::new(&grid);
    let query = format!("SELECT {labels} AS label, count(*) FROM {} GROUP BY 1", identifier(table));
    for (label, rows) in pairs(context, &query).await? {
        match label.as_deref() {
            None => after.missing += rows as f64,
            Some(text) => match axis.read(text) {
                Some(range) => grid.spread(&mut after.bins, range, rows as f64),
                None => after.hidden += rows as f64,
            },
        }
    }
    Ok(Some(Distribution { bars: merged(&grid, &before, &after, threshold), is_ordered: true }))
}

/// Numbers between which nearly all values are, whatever the few others are.
async fn middle(context: &SessionContext, number: &str) -> Result<Option<(f64, f64)>> {
    let at = |share: f64| format!("approx_percentile_cont({share:?}) WITHIN GROUP (ORDER BY x)");
    let query = format!(
        "SELECT concat_ws(' ', {}, {}), count(x) FROM (SELECT {number} AS x FROM {}) WHERE x IS NOT NULL",
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
}

/// Neighbouring ranges together until each has enough records.
fn merged(grid: &Grid, before: &Histogram, after: &Histogram, threshold: u64) -> Vec<Bar> {
    let threshold = threshold as f64;
    let mut groups: Vec<(usize, usize, f64, f64)> = Vec::new();
    for bin in 0..grid.count {
        let (b, a) = (before.bins[bin], after.bins[bin]);
        match groups.last_mut() {
            Some((_, to, sum, spread)) if *sum < threshold => {
                *to = bin;
                *sum += b;
                *spread += a;
            }
            _ => groups.push((bin, bin, b, a)),
        }
    }
    if groups.len() > 1
        && groups.last().is_some_and(|(_, _, sum, _)| *sum < threshold)
        && let (Some((_, to, b, a)), Some(last)) = (groups.pop(), groups.last_mut())
    {
        *last = (last.0, to, last.2 + b, last.3 + a);
    }
    let mut bars: Vec<Bar> =
        groups.into_iter().map(|(from, to, b, a)| Bar::new(grid.label(from, to), b, a)).collect();
    let mut rest = Bar::new(OTHER, 0.0, 0.0);
    for (label, b, a) in
        [(MISSING, before.missing, after.missing), (HIDDEN, before.hidden, after.hidden)]
    {
        let enough = |rows: f64| rows == 0.0 || rows >= threshold;
        if enough(b) && enough(a) {
            bars.extend((b + a > 0.0).then(|| Bar::new(label, b, a)));
        } else {
            rest.before += b;
            rest.after += a;
        }
    }
    // Few missing cells, rounded like everything else: most often nothing.
    bars.extend((rest.before + rest.after > 0.0).then_some(rest));
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(list: &[(&str, u64)]) -> Vec<Counted> {
        list.iter().map(|(label, rows)| (Some((*label).to_owned()), *rows)).collect()
    }

    #[test]
    fn a_rare_value_is_not_told_by_what_is_missing_to_the_total() {
        let before = counted(&[("a", 500), ("b", 40), ("rare", 3)]);
        let after = counted(&[("a", 500), ("b", 43)]);
        let bars = pooled(&before, &after, 10);
        assert_eq!(bars, [Bar::new("a", 500.0, 500.0), Bar::new(OTHER, 43.0, 43.0)]);
    }

    #[test]
    fn no_shown_value_has_fewer_records_than_the_threshold() {
        let names: Vec<String> = (0..60).map(|number| format!("v{number}")).collect();
        let list: Vec<(&str, u64)> =
            names.iter().enumerate().map(|(number, name)| (name.as_str(), number as u64)).collect();
        let bars = pooled(&counted(&list), &counted(&[("*", 1770)]), 20);
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
        let after = before.clone();
        let bars = merged(&grid, &before, &after, 10);
        assert!(bars[0].label.starts_with("under"), "{bars:?}");
        assert!(bars.last().is_some_and(|bar| bar.label.ends_with("and over")), "{bars:?}");
        assert!(bars.iter().all(|bar| bar.before >= 10.0), "{bars:?}");
    }
}
