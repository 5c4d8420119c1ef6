use arrow::array::{
    BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, TimestampSecondArray,
};
use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::Date32Type;

use super::*;
use crate::hierarchy::{DateStep, LabelTable};

fn losses(
    values: impl Array + 'static,
    hierarchy: Option<&ResolvedHierarchy>,
) -> Result<CellLosses> {
    let mut originals = Originals::new("column", values.data_type());
    let rows = vec![1; values.len()];
    originals.add(&(Arc::new(values) as ArrayRef), &rows)?;
    originals.into_losses(hierarchy)
}

fn ncps(losses: Vec<Option<CellLoss>>) -> Vec<Option<f64>> {
    losses.into_iter().map(|loss| loss.map(ncp)).collect()
}

fn ncp(loss: CellLoss) -> f64 {
    loss.ncp
}

fn texts(values: &[&str]) -> StringArray {
    StringArray::from(values.to_vec())
}

fn dates(values: &[&str]) -> Date32Array {
    values.iter().map(|value| Date32Type::parse(value)).collect()
}

#[test]
fn a_range_of_numbers_loses_its_share_of_the_width() -> Result<()> {
    let ages = losses(Int64Array::from(vec![0, 20, 39, 80, 100]), None)?;
    assert_eq!(ages.label("[20-39]").map(ncp), Some(0.19));
    assert_eq!(ages.label("[0-100]").map(ncp), Some(1.0));
    assert_eq!(ages.label("39").map(ncp), Some(0.0));
    assert_eq!(ages.label("*").map(ncp), Some(1.0));
    // Ends that are no values of the column, as another tool may choose them.
    assert_eq!(ages.label("[25-50]").map(ncp), Some(0.25));
    assert_eq!(ages.label("41").map(ncp), Some(0.0));
    for unknown in ["", "[]", "[-]", "[20-]", "[39-20]", "20-39", "old", "{20, 39}"] {
        assert_eq!(ages.label(unknown).map(ncp), None, "{unknown}");
    }
    Ok(())
}

#[test]
fn negative_numbers_and_exponents_hold_dashes_of_their_own() -> Result<()> {
    let numbers = losses(Int64Array::from(vec![-10, -5, -1, 0]), None)?;
    assert_eq!(numbers.label("[-5--1]").map(ncp), Some(0.4));
    assert_eq!(numbers.label("[-5-0]").map(ncp), Some(0.5));
    assert_eq!(numbers.label("[-10--2]").map(ncp), Some(0.8));
    assert_eq!(numbers.label("[--]").map(ncp), None);
    let small = losses(Float64Array::from(vec![0.0, 1e-9, 2e-9, 4e-9]), None)?;
    assert_eq!(small.label("[1e-9-2e-9]").map(ncp), Some(0.25));
    Ok(())
}

#[test]
fn floats_lose_their_share_of_the_width_however_narrow_the_column() -> Result<()> {
    let both = |loss: CellLoss| (loss.ncp, loss.iloss);
    let shares = losses(Float64Array::from(vec![0.0, 0.125, 0.25, 0.5]), None)?;
    for (label, lost) in [("[0.0-0.125]", 0.25), ("[0.25-0.5]", 0.5), ("[0.0-0.5]", 1.0)] {
        assert_eq!(shares.label(label).map(both), Some((lost, lost)), "{label}");
    }
    let counts = losses(Int64Array::from(vec![0, 1, 3]), None)?;
    let half = counts.label("[0-1]").map(both);
    assert_eq!(half, Some((1.0 / 3.0, 0.5)), "two of four whole numbers");
    Ok(())
}

#[test]
fn decimals_are_measured_in_their_own_unit() -> Result<()> {
    let prices = Decimal128Array::from(vec![0, 1050, 2000]);
    let prices =
        losses(prices.with_precision_and_scale(10, 2).unwrap_or_else(|_| unreachable!()), None)?;
    assert_eq!(prices.label("[0.00-10.50]").map(ncp), Some(0.525));
    assert_eq!(prices.label("[5-15]").map(ncp), Some(0.5));
    Ok(())
}

#[test]
fn dates_and_timestamps_are_ranges_of_time() -> Result<()> {
    let days = losses(dates(&["2020-01-01", "2020-01-05", "2020-01-21", "2020-01-11"]), None)?;
    assert_eq!(days.label("[2020-01-01-2020-01-11]").map(ncp), Some(0.5));
    assert_eq!(days.label("[2020-01-02-2020-01-12]").map(ncp), Some(0.5));
    assert_eq!(days.label("2020-01-05").map(ncp), Some(0.0));
    assert_eq!(days.label("2020-01").map(ncp), None);
    let seconds = losses(TimestampSecondArray::from(vec![0, 60, 120]), None)?;
    assert_eq!(seconds.label("[1970-01-01T00:00:00-1970-01-01T00:01:00]").map(ncp), Some(0.5));
    let zoned = TimestampSecondArray::from(vec![0, 60, 120]).with_timezone("-05:00");
    let zoned = losses(zoned, None)?;
    assert_eq!(
        zoned.label("[1969-12-31T19:00:00-05:00-1969-12-31T19:01:00-05:00]").map(ncp),
        Some(0.5)
    );
    Ok(())
}

#[test]
fn a_set_loses_by_the_values_it_lists() -> Result<()> {
    let colours = losses(texts(&["blue", "green", "red", "white", "yellow"]), None)?;
    assert_eq!(colours.label("{blue, green, red}").map(ncp), Some(0.5));
    assert_eq!(colours.label("red").map(ncp), Some(0.0));
    assert_eq!(colours.label("*").map(ncp), Some(1.0));
    for unknown in ["{blue}", "{blue, pink}", "{}", "blue, green", "[blue-red]"] {
        assert_eq!(colours.label(unknown).map(ncp), None, "{unknown}");
    }
    Ok(())
}

#[test]
fn a_value_may_look_like_a_set() -> Result<()> {
    let names =
        losses(texts(&["Smith", "Smith, John", "John", "{Smith, John}", "Doe, Jane"]), None)?;
    assert_eq!(names.label("{Smith, John}").map(ncp), Some(0.0));
    assert_eq!(names.label("{Doe, Jane, Smith}").map(ncp), Some(0.25));
    // Two readings: {John; Smith, John} and {John; Smith; John}. The larger loss counts.
    assert_eq!(names.label("{John, Smith, John}").map(ncp), Some(0.5));
    assert_eq!(names.label("{Smith, {Smith, John}}").map(ncp), Some(0.25));
    Ok(())
}

#[test]
fn a_hierarchy_says_what_its_nodes_lose() -> Result<()> {
    // Five leaves, of which the column holds three.
    let table = LabelTable::parse("a;x;*\nb;x;*\nc;y;*\nd;y;*\ne;y;*\n")?;
    let table = ResolvedHierarchy::Labels(Arc::new(table));
    let nodes = losses(texts(&["a", "b", "c"]), Some(&table))?;
    assert_eq!(nodes.label("x").map(ncp), Some(0.25));
    assert_eq!(nodes.label("y").map(ncp), Some(0.5));
    assert_eq!(nodes.label("c").map(ncp), Some(0.0));
    assert_eq!(nodes.label("*").map(ncp), Some(1.0));
    assert_eq!(nodes.label("z").map(ncp), None);
    let zips = ResolvedHierarchy::Prefixes(vec![4, 2]);
    let zips = losses(texts(&["02138", "02139", "02201"]), Some(&zips))?;
    assert_eq!(zips.label("0213*").map(ncp), Some(0.5));
    assert_eq!(zips.label("02***").map(ncp), Some(1.0));
    Ok(())
}

#[test]
fn intervals_are_measured_by_label_and_by_bounds() -> Result<()> {
    let steps = ResolvedHierarchy::Intervals(vec!["5".into(), "10".into()]);
    let ages = losses(Int64Array::from(vec![18, 21, 24, 58]), Some(&steps))?;
    assert_eq!(ages.label("[20-24]").map(ncp), Some(0.1));
    assert_eq!(ages.label("[20-29]").map(ncp), Some(0.225));
    let ends = |ends: &[Option<i64>]| Arc::new(Int64Array::from(ends.to_vec())) as ArrayRef;
    let lower = ends(&[Some(20), Some(24), None, Some(20)]);
    let upper = ends(&[Some(24), Some(24), None, Some(29)]);
    assert_eq!(ncps(ages.bounds(&lower, &upper)?), [Some(0.1), Some(0.0), None, Some(0.225)]);
    Ok(())
}

#[test]
fn calendar_steps_are_measured_by_label_and_by_bounds() -> Result<()> {
    let steps = ResolvedHierarchy::Dates(vec![DateStep::Month, DateStep::Year]);
    let days = dates(&["2020-01-03", "2020-01-29", "2021-06-01", "2023-01-01"]);
    let column = losses(days, Some(&steps))?;
    let days_between = f64::from(Date32Type::parse("2023-01-01").unwrap_or(0))
        - f64::from(Date32Type::parse("2020-01-03").unwrap_or(0));
    let month = 730.5 / 24.0 / days_between;
    let found = column.label("2020-01").map(ncp);
    assert!(found.is_some_and(|loss| (loss - month).abs() < 1e-12), "{found:?}");
    assert_eq!(column.label("2021-07").map(ncp), None);
    let lower: ArrayRef = Arc::new(dates(&["2020-01-03"]));
    let upper: ArrayRef = Arc::new(dates(&["2020-01-29"]));
    assert_eq!(ncps(column.bounds(&lower, &upper)?), [found]);
    Ok(())
}

#[test]
fn both_truth_values_together_are_a_star() -> Result<()> {
    let flags = losses(BooleanArray::from(vec![true, false]), None)?;
    assert_eq!(flags.label("true").map(ncp), Some(0.0));
    assert_eq!(flags.label("*").map(ncp), Some(1.0));
    assert_eq!(flags.label("{false, true}").map(ncp), None);
    Ok(())
}

#[test]
fn a_column_of_one_value_has_nothing_to_lose() -> Result<()> {
    let one = losses(Int64Array::from(vec![Some(7), None]), None)?;
    assert_eq!(one.label("7").map(ncp), Some(0.0));
    assert_eq!(one.label("*").map(ncp), Some(1.0));
    let none = losses(Int64Array::from(vec![None::<i64>]), None)?;
    assert_eq!(none.label("7").map(ncp), Some(0.0));
    Ok(())
}

#[test]
fn iloss_counts_values_where_ncp_counts_steps() -> Result<()> {
    let iloss = |losses: &CellLosses, label: &str| losses.label(label).map(|loss| loss.iloss);
    // 20…40 are 21 values, and an end that is no value of the column widens nothing beyond them.
    let ages = losses(Int64Array::from(vec![20, 24, 40]), None)?;
    assert_eq!(iloss(&ages, "[20-24]"), Some(5.0 / 21.0));
    assert_eq!(iloss(&ages, "[20-40]"), Some(1.0));
    assert_eq!(iloss(&ages, "24"), Some(0.0));
    let steps = ResolvedHierarchy::Intervals(vec!["10".into(), "50".into()]);
    let ages = losses(Int64Array::from(vec![20, 24, 40]), Some(&steps))?;
    assert_eq!(iloss(&ages, "[20-29]"), Some(10.0 / 21.0));
    assert_eq!(iloss(&ages, "[0-49]"), Some(1.0));
    // Five leaves, of which the column holds three; the only leaf under z is not the node z.
    let table = LabelTable::parse("a;x;*\nb;x;*\nc;z;*\nd;y;*\ne;y;*\n")?;
    let table = ResolvedHierarchy::Labels(Arc::new(table));
    let nodes = losses(texts(&["a", "b", "c"]), Some(&table))?;
    assert_eq!(iloss(&nodes, "x"), Some(2.0 / 5.0));
    assert_eq!(iloss(&nodes, "z"), Some(1.0 / 5.0));
    assert_eq!(nodes.label("z").map(ncp), Some(0.0));
    assert_eq!(iloss(&nodes, "c"), Some(0.0));
    let colours = losses(texts(&["blue", "green", "red", "white"]), None)?;
    assert_eq!(iloss(&colours, "{blue, red}"), Some(0.5));
    let lower: ArrayRef = Arc::new(Int64Array::from(vec![20, 24]));
    let upper: ArrayRef = Arc::new(Int64Array::from(vec![24, 24]));
    let ages = losses(Int64Array::from(vec![20, 24, 40]), None)?;
    let bounds: Vec<_> =
        ages.bounds(&lower, &upper)?.iter().map(|loss| loss.map(|l| l.iloss)).collect();
    assert_eq!(bounds, [Some(5.0 / 21.0), Some(0.0)]);
    Ok(())
}
