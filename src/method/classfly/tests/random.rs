//! The promises of the methods on random tables.

use proptest::prelude::*;

use super::*;

pub(super) const WIDTHS: [u32; 4] = [2, 4, 6, 8];

/// Trees of different heights over `WIDTHS` codes, the last two with code 0 for missing.
pub(super) fn random_trees() -> Vec<Tree> {
    let numbers = |count: u32, steps: &[i128], missing: bool| {
        let values: Vec<i128> = (0..i128::from(count) - i128::from(missing)).collect();
        let levels = match steps {
            [] => Levels::default(),
            steps => intervals(&values, steps, &|value| value.to_string()).unwrap(),
        };
        Tree::new(&levels, values.len(), missing).0
    };
    vec![
        numbers(WIDTHS[0], &[], false),
        numbers(WIDTHS[1], &[2], false),
        numbers(WIDTHS[2], &[3], true),
        numbers(WIDTHS[3], &[2, 4], true),
    ]
}

fn table(rows: std::ops::Range<usize>) -> impl Strategy<Value = Vec<[u32; 4]>> {
    let column = |width: u32| prop_oneof![Just(0), 0..width];
    let row = [column(WIDTHS[0]), column(WIDTHS[1]), column(WIDTHS[2]), column(WIDTHS[3])];
    prop::collection::vec(row, rows)
}

fn constraints() -> impl Strategy<Value = Vec<Constraint>> {
    let one = (1u32..16, 2u32..5).prop_map(|(set, k)| Constraint {
        columns: (0..4).filter(|column| set >> column & 1 == 1).collect(),
        k,
    });
    prop::collection::vec(one, 1..5).prop_map(|mut constraints| {
        constraints.sort_by(|a, b| (&a.columns, a.k).cmp(&(&b.columns, b.k)));
        constraints.dedup();
        constraints
    })
}

proptest! {
    #[test]
    fn complete_and_partial_publish_the_same(codes in table(4..80), constraints in constraints()) {
        let trees = random_trees();
        for variant in [Variant::Best, Variant::Paper] {
            let by = |search| {
                run(&codes, &trees, &constraints, variant, |rows, job| classfly(rows, job, search))
            };
            let complete = by(Search::Complete);
            prop_assert!(complete.is_ok(), "{complete:?}");
            prop_assert_eq!(complete, by(Search::Partial), "{:?}", variant);
        }
    }

    #[test]
    fn every_method_keeps_every_constraint(
        codes in table(4..80),
        constraints in constraints(),
        limit in prop::option::of(0usize..9),
    ) {
        let trees = random_trees();
        for variant in [Variant::Best, Variant::Paper] {
            for search in SEARCHES {
                let recoding = run(&codes, &trees, &constraints, variant, |rows, job| {
                    classfly(rows, job, search)
                });
                prop_assert!(recoding.is_ok(), "{search:?}: {recoding:?}");
            }
            let recoding = run(&codes, &trees, &constraints, variant, |rows, job| {
                datafly(rows, job, limit)
            });
            prop_assert!(recoding.is_ok(), "datafly: {recoding:?}");
        }
    }

    #[test]
    fn the_order_of_rows_does_not_matter(
        (codes, order) in table(4..60).prop_flat_map(|codes| {
            let order: Vec<usize> = (0..codes.len()).collect();
            (Just(codes), Just(order).prop_shuffle())
        }),
        constraints in constraints(),
    ) {
        let trees = random_trees();
        let shuffled: Vec<[u32; 4]> = order.iter().map(|row| codes[*row]).collect();
        type Method = fn(&RowTable, &Job) -> Result<Recoding>;
        let methods: [Method; 3] = [
            |rows, job| classfly(rows, job, Search::Complete),
            |rows, job| classfly(rows, job, Search::Naive),
            |rows, job| datafly(rows, job, None),
        ];
        let trees: Vec<&Tree> = trees.iter().collect();
        let recode = |codes: &[[u32; 4]], keys: Vec<u64>, method: Method, variant: Variant| {
            let rows = RowTable::from_codes(codes).unwrap();
            let keys = RowKeys { ties: keys.into(), ..RowKeys::default() };
            let job = job(&trees, &constraints, variant);
            method(&rows, &Job { keys: &keys, ..job }).unwrap()
        };
        let variants = [Variant::Best, Variant::Paper];
        for (method, variant) in methods.into_iter().flat_map(|method| variants.map(|of| (method, of))) {
            let straight = recode(&codes, (0..codes.len() as u64).collect(), method, variant);
            let turned = order.iter().map(|row| *row as u64).collect();
            let turned = recode(&shuffled, turned, method, variant);
            for (straight, turned) in straight.nodes.iter().zip(&turned.nodes) {
                let straight: Vec<u32> = order.iter().map(|row| straight[*row]).collect();
                prop_assert_eq!(&straight, turned);
            }
        }
    }

    #[test]
    fn scans_and_followed_groups_find_the_same_subset(
        codes in (40u32..200).prop_flat_map(|values| {
            prop::collection::vec([0..values, 0..values], 300)
        }),
        k in 2u32..4,
    ) {
        prop_assert_eq!(first_subset(&codes, k), largest_by_recounting(&codes, k));
    }

    #[test]
    fn the_first_filter_keeps_the_largest_satisfying_subset(
        codes in table(4..11),
        constraints in constraints(),
    ) {
        // The largest of all 2^n subsets, within one independent part.
        let parts = plan(&constraints, 4).unwrap();
        let trees = random_trees();
        let trees: Vec<&Tree> = trees.iter().collect();
        let columns: Vec<Vec<u32>> = (0..4).map(|c| codes.iter().map(|row| row[c]).collect()).collect();
        for part in &parts {
            let of = |set: u32| (0..codes.len()).filter(move |row| set >> row & 1 == 1);
            let rows = |set: u32| of(set).map(|row| codes[row]).collect::<Vec<_>>();
            let holds = |set: &u32| satisfies(&rows(*set), &part.constraints);
            let best = (0..1u32 << codes.len()).filter(holds).max_by_key(|set| set.count_ones());
            let largest: Vec<u32> = of(best.unwrap_or(0)).map(|row| row as u32).collect();
            for search in [Search::Complete, Search::Partial] {
                let job = job(&trees, &constraints, Variant::Paper);
                let mut table = SubTable::new(part, &part.constraints, &columns, &job).unwrap();
                let subset = table.largest_subset(search).unwrap();
                prop_assert_eq!(&table.rows_of(&subset), &largest);
            }
        }
    }
}
