//! The order of rows tells nothing that their published values do not tell.

use crate::invariants::people::{Person, batch};
use crate::invariants::release::{Request, methods, rows, session};
use crate::invariants::wait;
use datafusion::prelude::SessionContext;

/// 120 people of few kinds, so that classes have ties in every column.
fn crowd() -> SessionContext {
    let person = |at: u16| {
        let mixed = at.wrapping_mul(40_503) >> 4;
        Person {
            cells: [
                Some(mixed % 7),
                Some(mixed % 5),
                (at > 3).then_some(3),
                Some(1),
                Some(2),
                Some(at % 2),
                Some(mixed % 3),
                Some(1),
                Some(mixed % 9),
            ],
            disease: Some(mixed % 4),
            note: (mixed / 7) % 5,
        }
    };
    let people: Vec<Person> = (0..120).map(person).collect();
    session(vec![vec![batch(&people)]], 2, 8192)
}

fn query(context: &SessionContext, sql: &str) -> Vec<String> {
    wait(rows(context, sql)).unwrap()
}

/// Rows of one class, taken apart by the class in the first column.
fn classes(rows: &[String]) -> Vec<Vec<&str>> {
    let parted: Vec<(&str, &str)> = rows.iter().map(|row| row.split_once(" | ").unwrap()).collect();
    let classes = parted.chunk_by(|a, b| a.0 == b.0);
    classes.map(|class| class.iter().map(|(_, rest)| *rest).collect()).collect()
}

#[test]
fn rows_of_a_class_are_sorted_by_the_columns_that_are_selected() {
    let context = crowd();
    for method in methods() {
        let call = Request { method, ..Request::new(10) }.call();
        for columns in ["note", "disease", "note, disease", "disease, note", "age, note"] {
            let rows = query(&context, &format!("SELECT class_id, {columns} FROM {call}"));
            for class in classes(&rows) {
                assert!(class.len() >= 10);
                assert!(class.is_sorted(), "{columns} of {method}: {class:?}");
            }
        }
    }
}

/// Without the class in the result the rows are the same, and in the same order.
#[test]
fn dropping_the_class_does_not_change_the_order() {
    let context = crowd();
    let call = Request::new(10).call();
    let with_class = query(&context, &format!("SELECT class_id, note FROM {call}"));
    let expected: Vec<&str> = classes(&with_class).concat();
    assert_eq!(query(&context, &format!("SELECT note FROM {call}")), expected);
}

#[test]
fn rows_of_a_class_stay_sorted_under_a_filter() {
    let context = crowd();
    for method in methods() {
        let call = Request { method, ..Request::new(10) }.call();
        for filter in ["disease = 'd1'", "age <> '*'", "note > 1", "random() >= 0"] {
            let sql = format!("SELECT class_id, note FROM {call} WHERE {filter}");
            let rows = query(&context, &sql);
            assert!(!rows.is_empty());
            for class in classes(&rows) {
                assert!(class.is_sorted(), "{filter}: {class:?}");
            }
        }
    }
}

fn check_limits(limits: &[&str]) {
    let context = crowd();
    for method in methods() {
        let call = Request { method, ..Request::new(10) }.call();
        let whole = query(&context, &format!("SELECT note FROM {call}"));
        for limit in limits {
            let number = |name: &str| {
                let (_, rest) = limit.split_once(name)?;
                rest.split_whitespace().next()?.parse::<usize>().ok()
            };
            let start = number("OFFSET").unwrap_or(0).min(whole.len());
            let end = number("LIMIT").map_or(whole.len(), |rows| (start + rows).min(whole.len()));
            let part = query(&context, &format!("SELECT note FROM {call} {limit}"));
            assert_eq!(part, whole[start..end], "{method} {limit}");
        }
    }
}

#[test]
fn a_limit_is_a_part_of_the_whole() {
    check_limits(&[
        "LIMIT 1",
        "LIMIT 7",
        "LIMIT 15",
        "LIMIT 500",
        "OFFSET 3",
        "OFFSET 30",
        "OFFSET 119",
    ]);
}

// An expression may show less than its column, so rows must not be ordered by the column.
#[test]
fn rows_of_a_class_are_not_ordered_by_what_an_expression_hides() {
    let context = crowd();
    let call = Request::new(10).call();
    let plain = query(&context, &format!("SELECT class_id, note FROM {call}"));
    for hidden in ["note", "disease"] {
        let shown = format!("SELECT class_id, concat({hidden}, '') FROM {call}");
        let rows = query(&context, &shown);
        assert_eq!(rows.len(), plain.len());
        let ordered = classes(&rows).iter().filter(|class| class.is_sorted()).count();
        assert!(ordered < classes(&rows).len() / 2, "{hidden}: {ordered} classes are in order");
    }
}

// DataFusion moves a limit with an offset below the projection, out of the operator's sight.
#[test]
fn a_limit_with_an_offset_is_a_part_of_the_whole() {
    check_limits(&["LIMIT 10 OFFSET 10", "LIMIT 13 OFFSET 25", "LIMIT 500 OFFSET 3"]);
}

/// The kept columns that are read may only decide among rows that are otherwise equal.
#[test]
fn positions_do_not_tell_what_was_not_selected() {
    let context = crowd();
    let call = Request::new(10).call();
    let notes = query(&context, &format!("SELECT class_id, note FROM {call}"));
    let mut sorted: Vec<String> = notes.clone();
    sorted.sort_by_key(|row| {
        let (class, note) = row.split_once(" | ").unwrap();
        (class.parse::<u64>().unwrap(), note.to_owned())
    });
    assert_eq!(notes, sorted);
}
