//! What every method that forms classes promises: on random tables, and when it is cancelled.

use proptest::prelude::*;

use super::partition::Split;
use super::testing::{Content, Release, Table, graded, mixed_axes};
use super::{Family, MethodOption, MethodRef, Settings, Unverified, Variant, methods};
use crate::error::{Error, Result};
use crate::hierarchy::Axis;
use crate::model::{AlphaScope, Cancel, Classes, Model, Secret};

fn class_methods() -> impl Iterator<Item = MethodRef> {
    methods().filter(|method| method.family() == Family::Classes)
}

/// Options of a query beside its requirement.
#[derive(Debug, Clone, Copy)]
struct Options {
    split: Split,
    drop_suppressed: bool,
    block_rows: usize,
    /// As printed, if somebody printed it.
    paper: bool,
}

const PLAIN: Options =
    Options { split: Split::LeastLoss, drop_suppressed: false, block_rows: 1000, paper: false };

fn release<const D: usize>(
    table: &Table<D>,
    method: MethodRef,
    options: Options,
) -> Result<Release> {
    let secret = Secret::from_text("promises")?;
    let is_paper = options.paper && method.takes(MethodOption::Paper);
    let settings = Settings {
        split: options.split,
        variant: if is_paper { Variant::Paper } else { Variant::Best },
        drop_suppressed: options.drop_suppressed,
        block_rows: Some(options.block_rows),
        suppression_limit: 1.0,
        ..Settings::new(secret)
    };
    table.form(|rows, job| match method.form(rows, job, &settings)? {
        Unverified::Classes { classes, suppressed } => Ok((classes, suppressed)),
        _ => Err(Error::bug("a method of classes formed something else")),
    })
}

/// Codes of the three axes, a sensitive value and a person.
type Person = ([u32; 3], u32, u32);

/// Rows from all alike to nearly unique, with up to 60 % of the cells missing.
fn people() -> impl Strategy<Value = Vec<Person>> {
    (0u32..61).prop_flat_map(|holes| {
        let cell = move |codes: u32| {
            (0u32..100, 1..=codes).prop_map(move |(hole, code)| if hole < holes { 0 } else { code })
        };
        let codes = (cell(40), cell(27), cell(20), 0u32..3).prop_map(|(a, b, c, few)| match few {
            0 => [a, b, c],
            1 => [a % 4, b % 5, c % 2],
            _ => [1 + a % 2, 3, c % 2],
        });
        // Half of the rows have the last two of five values.
        let value = (0usize..6).prop_map(|draw| [0u32, 1, 2, 3, 4, 4][draw]);
        proptest::collection::vec((codes, value, 0u32..60), 1..400)
    })
}

/// Every model that a class can be asked for, on five values or, the last, on persons.
fn models(k: u32) -> [Model; 8] {
    [
        Model::Distinct { column: 0, at_least: 3, unit: false },
        Model::Entropy { column: 0, l: 2.5 },
        Model::Closeness { column: 0, t: 0.2, population: None },
        Model::Share { column: 0, alpha: 0.45 },
        graded([0.35, 0.5], AlphaScope::Value),
        graded([0.55, 0.75], AlphaScope::Level),
        Model::UnitShare { column: 0, at_most: 0.4 },
        Model::Distinct { column: 0, at_least: k, unit: true },
    ]
}

/// The table of these rows with k and the model of this number, or with k alone if there is none.
fn table(people: &[Person], k: u32, model: usize) -> Table<3> {
    let table = Table::new(mixed_axes(), people.iter().map(|person| person.0).collect(), k);
    let Some(model) = models(k).get(model).cloned() else { return table };
    let is_unit = matches!(model, Model::Distinct { unit: true, .. });
    let value = |person: &Person| if is_unit { person.2 } else { person.1 };
    table.sensitive(&people.iter().map(value).collect::<Vec<u32>>(), model)
}

/// The release on `threads` threads, without the numbers of its rows.
fn content(
    table: &Table<3>,
    method: MethodRef,
    options: Options,
    threads: usize,
) -> Result<Content<3>> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|_| Error::bug("no threads"))?;
    pool.install(|| release(table, method, options)).map(|release| table.content(&release))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    // `Table::form` verifies that every row is in one class or suppressed, and that every class satisfies the
    // requirement.
    #[test]
    fn every_class_satisfies_the_requirement(
        people in people(), k in 2u32..12, model in 0usize..9, block_rows in 1usize..300,
        widest: bool, drop_suppressed: bool, paper: bool,
    ) {
        let table = table(&people, k, model);
        let split = if widest { Split::Widest } else { Split::LeastLoss };
        let one_class = Table::new(mixed_axes(), table.codes.clone(), 1)
            .form(|rows, _| Ok((Classes::from_sizes(&[rows.len() as u32])?, 0)))?;
        for method in class_methods() {
            let can_drop = drop_suppressed || method.drops_incomplete_rows();
            match release(&table, method, Options { split, drop_suppressed, block_rows, paper }) {
                Ok(release) => {
                    prop_assert!(can_drop || release.suppressed.is_empty(), "{method}");
                    prop_assert!(release.loss <= one_class.loss + 1e-9, "{method}");
                }
                Err(Error::TooFewRows { .. } | Error::Unsatisfiable { .. }) => {}
                // Too few rows are complete.
                Err(Error::Invalid(_)) if method.drops_incomplete_rows() => {}
                Err(other) => return Err(TestCaseError::fail(format!("{method}: {other}"))),
            }
        }
    }

    #[test]
    fn neither_order_nor_numbers_nor_threads_matter(
        people in people(), k in 2u32..10, model in 0usize..9, widest: bool, drop_suppressed: bool, paper: bool,
        shift in 0usize..400,
    ) {
        let split = if widest { Split::Widest } else { Split::LeastLoss };
        let options = Options { split, drop_suppressed, block_rows: 40, paper };
        let n = people.len();
        let shuffled: Vec<Person> = (0..n).rev().map(|row| people[(row + shift) % n]).collect();
        let (one, other) = (table(&people, k, model), table(&shuffled, k, model));
        for method in class_methods() {
            let expected = content(&one, method, options, 1);
            prop_assert_eq!(&content(&one, method, options, 4), &expected, "{}", method);
            prop_assert_eq!(&content(&other, method, options, 4), &expected, "{}", method);
        }
    }
}

#[test]
fn tables_that_cannot_hold_the_requirement_are_errors() {
    for method in class_methods() {
        let few = Table::new(mixed_axes(), vec![[1, 2, 3]; 4], 5);
        let outcome = release(&few, method, PLAIN);
        assert_eq!(outcome, Err(Error::TooFewRows { rows: 4, k: 5 }), "{method}");
        let model = Model::Distinct { column: 0, at_least: 2, unit: false };
        let alike = Table::new(mixed_axes(), vec![[1, 2, 3]; 8], 2).sensitive(&[0; 8], model);
        let requirement = "l = 2 on column 's'".to_owned();
        let outcome = release(&alike, method, PLAIN);
        assert_eq!(outcome, Err(Error::Unsatisfiable { requirement }), "{method}");
    }
}

#[test]
fn every_method_stops_in_the_middle_when_it_is_cancelled() {
    const ROWS: u32 = 2000;
    let values: Vec<f64> = (0..100).map(f64::from).collect();
    // Small blocks, so that a clustering has several of them.
    let options = Options { block_rows: 500, ..PLAIN };
    let run = |method, cancel: Cancel| {
        let codes = (0..ROWS).map(|i| [i % 97, i * 7 % 89, i * 5 % 83]).collect();
        let table = Table { cancel, ..Table::new(vec![Axis::line(&values, false); 3], codes, 5) };
        (release(&table, method, options).map(drop), table.cancel.checks())
    };
    for method in class_methods() {
        let (done, checks) = run(method, Cancel::default());
        assert_eq!(done, Ok(()), "{method}");
        assert!(checks >= 20, "{method} checks {checks} times");
        for at in [0, 1, checks / 2] {
            let (stopped, made) = run(method, Cancel::after(at));
            assert_eq!(stopped, Err(Error::Cancelled), "{method} at {at} of {checks}");
            // Other threads may check once more each before they see it.
            assert!(made < checks, "{method} went on to its end");
        }
    }
}
