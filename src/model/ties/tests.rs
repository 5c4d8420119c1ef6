//! What the order of equal rows depends on.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Tuple, hash of the sensitive value, hash of the kept columns.
type Input = ([u32; 2], u64, u64);

/// Many rows of few tuples and values; the order is another one for every `shift`.
fn rows(count: u64, shift: u64) -> Vec<Input> {
    let row = |at: u64| {
        let at = (at * 7 + shift) % count;
        ([(at % 3) as u32, (at % 5 / 3) as u32], at % 7 / 4, at % 11)
    };
    (0..count).map(row).collect()
}

/// The rows with their keys.
fn keyed(rows: &[Input], keeps: bool, seed: &[u8]) -> Result<Vec<(Input, u64)>> {
    let codes: Vec<[u32; 2]> = rows.iter().map(|row| row.0).collect();
    let table = RowTable::from_codes(&codes).ok_or_else(|| Error::bug("too wide"))?;
    let mut keys = RowKeys {
        ties: rows.iter().map(|row| row.1).collect(),
        kept: if keeps { rows.iter().map(|row| row.2).collect() } else { Store::default() },
    };
    keys.break_ties(&table, Seed::from_bytes(seed), &Cancel::default())?;
    Ok(rows.iter().copied().zip(keys.ties.iter().copied()).collect())
}

#[test]
fn keys_do_not_depend_on_how_rows_arrive() -> Result<()> {
    // One bucket, and several.
    for count in [100, 10_000] {
        let sorted = |shift| {
            let mut keyed = keyed(&rows(count, shift), true, b"a")?;
            keyed.sort_unstable();
            Ok::<_, Error>(keyed)
        };
        let one = sorted(0)?;
        assert_ne!(rows(count, 0), rows(count, 13));
        assert_eq!(one, sorted(13)?);
        let distinct: BTreeSet<u64> = one.iter().map(|(_, key)| *key).collect();
        assert_eq!(distinct.len(), count as usize, "no two rows have one key");
    }
    Ok(())
}

#[test]
fn kept_columns_change_nothing_but_who_has_which_number() -> Result<()> {
    let of = |keeps| {
        let keyed = keyed(&rows(5_000, 0), keeps, b"a")?;
        let without_kept = keyed.into_iter().map(|((codes, value, _), key)| (codes, value, key));
        Ok::<_, Error>(without_kept.collect::<BTreeSet<_>>())
    };
    assert_eq!(of(true)?, of(false)?);
    Ok(())
}

/// Of the pairs of neighbours in the order of one tuple, the share with one value; and how many orders
/// of the values there are, by their first rows.
fn neighbours(keyed: &[(Input, u64)]) -> (f64, usize) {
    let mut by_tuple: BTreeMap<[u32; 2], Vec<(u64, u64)>> = BTreeMap::new();
    for ((tuple, value, _), key) in keyed {
        by_tuple.entry(*tuple).or_default().push((*key, *value));
    }
    let (mut same, mut pairs) = (0, 0);
    let mut orders = BTreeSet::new();
    for rows in by_tuple.values_mut() {
        rows.sort_unstable();
        same += rows.windows(2).filter(|pair| pair[0].1 == pair[1].1).count();
        pairs += rows.len() - 1;
        let mut order: Vec<u64> = Vec::new();
        rows.iter().for_each(|(_, value)| {
            if !order.contains(value) {
                order.push(*value)
            }
        });
        orders.insert(order);
    }
    (same as f64 / pairs as f64, orders.len())
}

#[test]
fn values_stand_in_another_order_in_every_tuple() -> Result<()> {
    let row = |at: u32| ([at / 60, 0], u64::from(at % 4), 0);
    let rows: Vec<Input> = (0..12_000).map(row).collect();
    // The control: a hash of the value alone.
    let by_value: Vec<(Input, u64)> = rows.iter().map(|row| (*row, row.1)).collect();
    let (together, orders) = neighbours(&by_value);
    assert!(together > 0.9 && orders == 1, "{together} {orders}");
    for seed in [b"a", b"b", b"c"] {
        let (together, orders) = neighbours(&keyed(&rows, false, seed)?);
        // 14 of the 59 others have the same value.
        assert!((together - 14.0 / 59.0).abs() < 0.025, "{together}");
        assert_eq!(orders, 24, "all orders of four values");
    }
    Ok(())
}

#[test]
fn keys_depend_on_the_seed() -> Result<()> {
    let rows = rows(50, 0);
    let keys = |seed| {
        keyed(&rows, false, seed)
            .map(|keyed| keyed.iter().map(|row| row.1).collect::<BTreeSet<_>>())
    };
    assert!(keys(b"a")?.is_disjoint(&keys(b"b")?));
    Ok(())
}

#[test]
fn rows_that_were_moved_are_refused() -> Result<()> {
    let mut table = RowTable::from_codes(&[[0], [1]]).ok_or_else(|| Error::bug("too wide"))?;
    table.permute(vec![1, 0]);
    let mut keys = RowKeys { ties: vec![1, 2].into(), kept: Store::default() };
    assert!(keys.break_ties(&table, Seed::from_bytes(b"a"), &Cancel::default()).is_err());
    Ok(())
}
