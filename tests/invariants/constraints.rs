//! Releases under several constraints: every one holds, cells cover their values, nothing is lost.

use std::collections::HashMap;

use datafusion_anonymize::{Family, MethodOption};
use proptest::prelude::*;

use crate::invariants::covers::{Cell, covers};
use crate::invariants::people::{
    Person, QUASI_IDENTIFIERS, batch, dealt, originals, people, people_and_order,
};
use crate::invariants::promises::{cases, check_conservation};
use crate::invariants::release::{
    HIERARCHIES, PAPER, Published, Request, check_same, methods_of, published_by, session,
};
use crate::invariants::wait;

/// The methods that take several constraints.
fn methods() -> impl Iterator<Item = &'static str> {
    let all = methods_of(Family::Constraints);
    all.filter(|method| method.takes(MethodOption::ManyConstraints)).map(|method| method.name())
}

/// Columns by their positions, and k.
type Constraint = (Vec<usize>, usize);

/// Constraints over all nine columns, some of them over several.
fn constraints() -> impl Strategy<Value = Vec<Constraint>> {
    let some = (proptest::sample::subsequence((0..9usize).collect::<Vec<_>>(), 1..4), 2usize..6);
    proptest::collection::vec(some, 1..4).prop_map(|mut constraints: Vec<Constraint>| {
        constraints.dedup();
        for column in 0..9 {
            if !constraints.iter().any(|(columns, _)| columns.contains(&column)) {
                constraints.push((vec![column], 2));
            }
        }
        constraints.sort();
        constraints.dedup();
        constraints
    })
}

fn call(method: &str, constraints: &[Constraint], more: &str) -> String {
    let written = constraints.iter().map(|(columns, k)| {
        let names: Vec<&str> = columns.iter().map(|column| QUASI_IDENTIFIERS[*column]).collect();
        format!("{{columns: ['{}'], k: {k}}}", names.join("', '"))
    });
    format!(
        "anonymize(people, method => '{method}', constraints => [{}], sensitive => ['disease'],
           keep => ['note', 'id'], class_id => true, suppression_limit => 1, seed => 'a secret'{more})",
        written.collect::<Vec<String>>().join(", ")
    )
}

fn check(
    rows: &[Published],
    constraints: &[Constraint],
    people: &[Person],
    bounds: bool,
    variant: &str,
) {
    let says_nothing = |cell: &&Cell| match cell {
        Cell::Label(label) => label == "*",
        cell => bounds && **cell == Cell::Missing,
    };
    for (columns, k) in constraints {
        let mut groups: HashMap<String, usize> = HashMap::new();
        for row in rows {
            let cells: Vec<&Cell> = columns.iter().map(|column| &row.cells[*column]).collect();
            // Suppressed rows are a group like any other, but as printed there may be fewer than k of them.
            if variant == PAPER && cells.iter().all(says_nothing) {
                continue;
            }
            *groups.entry(format!("{cells:?}")).or_default() += 1;
        }
        let small = groups.values().find(|size| *size < k);
        assert!(small.is_none(), "a group below {k} in {columns:?}");
    }
    let originals = originals(people);
    for row in rows {
        for (column, name) in QUASI_IDENTIFIERS.iter().enumerate() {
            let cell = &row.cells[column];
            let original = &originals[column][row.id];
            let covered = covers(name, cell, original) || (bounds && *cell == Cell::Missing);
            assert!(covered, "{name}: {cell:?} does not cover {original:?}");
        }
    }
    let mut class_of: HashMap<String, u64> = HashMap::new();
    for pair in rows.windows(2) {
        assert!(pair[0].class <= pair[1].class, "a class is not in one piece");
    }
    for row in rows {
        let class = *class_of.entry(format!("{:?}", row.cells)).or_insert(row.class);
        // Bounds write several nodes alike, so that two classes may look the same.
        assert!(bounds || class == row.class, "equal tuples in two classes");
    }
}

proptest! {
    #![proptest_config(cases(10))]

    #[test]
    fn every_constraint_holds_and_every_cell_covers_its_value(
        people in people(), constraints in constraints(), hierarchies: bool, bounds: bool,
    ) {
        let context = session(vec![vec![batch(&people)]], 2, 8192);
        let mut more = String::new();
        if hierarchies {
            more += &format!(", {HIERARCHIES}");
        }
        if bounds {
            more += ", ranges => 'bounds'";
        }
        let needed = constraints.iter().map(|(_, k)| *k).max().unwrap();
        let mut complete = None;
        let variants = ["", PAPER].into_iter();
        for (variant, method) in variants.flat_map(|variant| methods().map(move |of| (variant, of))) {
            let more = format!("{more}{variant}");
            let released = wait(published_by(&context, &call(method, &constraints, &more)));
            if people.len() < needed {
                prop_assert!(released.unwrap_err().strip_backtrace().contains("cannot form a class"));
                continue;
            }
            let rows = released.unwrap();
            check(&rows, &constraints, &people, bounds, variant);
            check_conservation(&rows, &people, &Request::new(2));
            match method {
                "classfly_complete" => complete = Some(rows),
                "classfly_partial" => prop_assert_eq!(complete.as_ref(), Some(&rows)),
                _ => {}
            }
        }
    }

    #[test]
    fn the_release_depends_neither_on_order_nor_on_threads(
        (people, order) in people_and_order(),
        constraints in constraints(), partitions in 1usize..5, rows_per_batch in 1usize..40,
        threads in 1usize..5,
    ) {
        let table = batch(&people);
        let one = session(vec![vec![table.clone()]], 1, 8192);
        let other = session(dealt(&table, &order, partitions, rows_per_batch), threads, 17);
        for method in methods() {
            for more in ["", ", suppress => 'rows'", PAPER] {
                let sql = format!("SELECT * FROM {}", call(method, &constraints, more));
                check_same(&one, &other, &sql);
            }
        }
    }
}
