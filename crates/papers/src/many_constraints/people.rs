//! Uniform people, and what their columns generalize by.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Date32Array, Int32Array, RecordBatch, StringArray};
use datafusion::common::Result;

use crate::columns::{Column, names};
use crate::random::Random;

const RACE: &str =
    "(SELECT column1, '*' FROM (VALUES ('Asian'), ('Black'), ('Native'), ('Other'), ('White')))";

const SEX: &str = "(SELECT column1, '*' FROM (VALUES ('f'), ('m')))";

const EDU: &str = "(SELECT column1, column2, column3, '*' FROM (VALUES
    ('9th', 'junior', 'secondary'), ('10th', 'junior', 'secondary'),
    ('11th', 'senior', 'secondary'), ('12th', 'senior', 'secondary'),
    ('Bachelor', 'undergraduate', 'university'),
    ('Master', 'graduate', 'university'), ('Doctor', 'graduate', 'university')))";

/// What the columns generalize by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heights {
    /// Chosen before anything was measured.
    First,
    /// Lower by a level where the first are high. Chosen after measuring the first.
    Second,
}

impl Heights {
    pub const BOTH: [Heights; 2] = [Heights::First, Heights::Second];

    pub fn name(self) -> &'static str {
        match self {
            Heights::First => "first hierarchies",
            Heights::Second => "second hierarchies",
        }
    }

    /// Columns in the order of the table, each with its hierarchy.
    pub fn columns(self) -> [Column; 9] {
        let (birth, size) = match self {
            Heights::First => ("date_steps('month', 'year', 'decade')", "intervals(5, 10, 20)"),
            Heights::Second => ("date_steps('month', 'year')", "intervals(5, 10)"),
        };
        [
            ("race", Some(RACE)),
            ("birth", Some(birth)),
            ("sex", Some(SEX)),
            // All ZIPs begin with 02, so that two digits would be one value more for `*`.
            ("zip", Some("prefixes(4, 3)")),
            ("height", Some(size)),
            ("weight", Some(size)),
            ("work_hrs", Some(size)),
            ("salary", Some("intervals(500, 1000, 5000, 10000)")),
            ("edu", Some(EDU)),
        ]
    }
}

/// Uniform persons. A smaller table has the first rows of a larger one.
pub fn people(rows: usize) -> Result<RecordBatch> {
    const RACES: [&str; 5] = ["Asian", "Black", "Native", "Other", "White"];
    const EDUCATION: [&str; 7] = ["9th", "10th", "11th", "12th", "Bachelor", "Master", "Doctor"];
    /// 1950-01-01 as days since 1970-01-01, and the days of forty years.
    const BIRTH: (i32, u64) = (-7305, 14_610);
    let mut random = Random::new(2006);
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
    Ok(RecordBatch::try_from_iter(names(&Heights::First.columns()).into_iter().zip(columns))?)
}
