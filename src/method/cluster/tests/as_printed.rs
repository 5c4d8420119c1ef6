//! The versions of the papers save no time: what large blocks and large groups are spared otherwise is not spared here.

use super::*;

/// Pairs of neighbours on a line, more than `bottom_up` starts with one by one unless it runs as printed.
#[test]
fn bottom_up_compares_all_groups_of_a_large_table() -> Result<()> {
    const PAIRS: u32 = 4_099;
    let values = (0..PAIRS).flat_map(|pair| [20 * pair, 20 * pair + 1]).map(f64::from);
    let values: Vec<f64> = values.collect();
    let codes = (0..2 * PAIRS).map(|code| [code]).collect();
    let table = Table::new(vec![Axis::line(&values, false)], codes, 2);
    let pairs: Vec<Vec<u32>> = (0..PAIRS).map(|pair| vec![2 * pair, 2 * pair + 1]).collect();
    let classes = |variant| -> Result<Vec<Vec<u32>>> {
        let release = run_as(variant, &table, Clustering::BottomUp, 7, usize::MAX)?;
        Ok(release.classes)
    };
    assert!(classes(Variant::Paper)? == pairs, "the nearest group is not always taken");
    assert!(classes(Variant::Best)? != pairs, "the table is too small to show the difference");
    Ok(())
}

/// The rows of the first group that were not the nearest when they were taken.
fn not_nearest(clustering: Clustering, variant: Variant, seed: u32) -> Result<usize> {
    let mut state = u64::from(seed) + 1;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        1 + ((state >> 33) % below) as u32
    };
    let codes = (0..900).map(|_| [next(40), next(27), next(20)]).collect();
    let table: Table<3> = Table::new(mixed_axes(), codes, 250);
    let (rows, job) = (table.rows()?, table.job());
    let distance = clustering.distance(variant);
    let columns = columns(&job, distance, &[1.0; 3], &Counts::new(&rows, &job));
    let rules = Rules {
        columns: &columns,
        start: clustering.start(variant),
        k: table.requirement.k,
        models: &[],
        sensitive: &[],
        seed: &Seed::from_bytes(&seed.to_le_bytes()),
        cancel: &table.cancel,
        block: 0,
        takes_shortcuts: variant == Variant::Best,
    };
    let tuples = Tuples::new(&rows, 0..rows.len(), &columns, &table.keys);
    let Grown::Groups(groups) = Growth::new(rules, &tuples, Vec::new()).run(false)? else {
        return Err(Error::bug("a block that cannot be cut was too large"));
    };
    let tuple_of = tuples.tuple_of_rows();
    let group = &groups[0].rows[..table.requirement.k as usize];
    let code = |column: usize, row: u32| tuples.codes[column][tuple_of[row as usize] as usize];
    let mut free: Vec<u32> = (0..tuples.rows() as u32).collect();
    let mut wrong = 0;
    for (taken, row) in group.iter().enumerate() {
        let parts = tuples.center(&columns, &group[..taken], &tuple_of);
        let far = |row: u32| -> u64 {
            let parts = columns.iter().zip(&parts).enumerate();
            parts.map(|(at, (column, part))| column.distance(part, code(at, row))).sum()
        };
        // The first row is where the group starts.
        if taken > 0 && free.iter().any(|other| far(*other) < far(*row)) {
            wrong += 1;
        }
        free.retain(|other| other != row);
    }
    Ok(wrong)
}

#[test]
fn large_groups_grow_row_by_row() -> Result<()> {
    for clustering in [Clustering::Kaim, Clustering::KMember] {
        let mut with_shortcuts = 0;
        for seed in 0..4 {
            assert_eq!(not_nearest(clustering, Variant::Paper, seed)?, 0, "{clustering:?}");
            with_shortcuts += not_nearest(clustering, Variant::Best, seed)?;
        }
        assert!(
            with_shortcuts > 0,
            "{clustering:?}: the groups are too small to show the difference"
        );
    }
    Ok(())
}
