//! Uniform people, and what their columns generalize by.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Date32Array, Int32Array, RecordBatch, StringArray};
use datafusion::common::Result;

use crate::columns::{Column, names};

/// Columns in the order of the table, each with its hierarchy.
pub const COLUMNS: [Column; 9] = [
    (
        "race",
        Some(
            "(SELECT column1, '*' FROM (VALUES ('Asian'), ('Black'), ('Native'), ('Other'), ('White')))",
        ),
    ),
    ("birth", Some("date_steps('month', 'year', 'decade')")),
    ("sex", Some("(SELECT column1, '*' FROM (VALUES ('f'), ('m')))")),
    ("zip", Some("prefixes(4, 3, 2)")),
    ("height", Some("intervals(5, 10, 20)")),
    ("weight", Some("intervals(5, 10, 20)")),
    ("work_hrs", Some("intervals(5, 10, 20)")),
    ("salary", Some("intervals(500, 1000, 5000, 10000)")),
    (
        "edu",
        Some(
            "(SELECT column1, column2, column3, '*' FROM (VALUES
            ('9th', 'junior', 'secondary'), ('10th', 'junior', 'secondary'),
            ('11th', 'senior', 'secondary'), ('12th', 'senior', 'secondary'),
            ('Bachelor', 'undergraduate', 'university'),
            ('Master', 'graduate', 'university'), ('Doctor', 'graduate', 'university')))",
        ),
    ),
];

/// Uniform persons. A smaller table has the first rows of a larger one.
pub fn people(rows: usize) -> Result<RecordBatch> {
    const RACES: [&str; 5] = ["Asian", "Black", "Native", "Other", "White"];
    const EDUCATION: [&str; 7] = ["9th", "10th", "11th", "12th", "Bachelor", "Master", "Doctor"];
    /// 1950-01-01 as days since 1970-01-01, and the days of forty years.
    const BIRTH: (i32, u64) = (-7305, 14_610);
    let mut random = Random(2006);
    let persons: Vec<[u64; 9]> = (0..rows)
        .map(|_| [5, BIRTH.1, 2, 1000, 50, 80, 40, 190, 7].map(|values| random.below(values)))
        .collect();
    let numbers = |column: usize, first: i32, step: i32| -> ArrayRef {
        let number = |person: &[u64; 9]| first + step * person[column] as i32;
        Arc::new(persons.iter().map(number).collect::<Int32Array>())
    };
    let labels = |column: usize, labels: &[&'static str]| -> ArrayRef {
        let label = |person: &[u64; 9]| Some(labels[person[column] as usize]);
        Arc::new(persons.iter().map(label).collect::<StringArray>())
    };
    let births = persons.iter().map(|person| BIRTH.0 + person[1] as i32);
    let zips = persons.iter().map(|person| Some(format!("02{:03}", person[3])));
    let columns: [ArrayRef; 9] = [
        labels(0, &RACES),
        Arc::new(Date32Array::from_iter_values(births)),
        labels(2, &["f", "m"]),
        Arc::new(zips.collect::<StringArray>()),
        numbers(4, 150, 1),
        numbers(5, 40, 1),
        numbers(6, 20, 1),
        numbers(7, 1000, 100),
        labels(8, &EDUCATION),
    ];
    Ok(RecordBatch::try_from_iter(names(&COLUMNS).into_iter().zip(columns))?)
}

/// SplitMix64: the same numbers everywhere.
struct Random(u64);

impl Random {
    /// A number from 0 up, below the bound.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((bits ^ (bits >> 31)) >> 32) * bound) >> 32
    }
}
