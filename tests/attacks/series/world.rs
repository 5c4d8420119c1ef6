//! Persons who come, leave, return and change from night to night.

use datafusion::prelude::CsvReadOptions;

use crate::attacks::{rows, session};

/// Splitmix, so that every run is the same.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn happens(&mut self, chance: f64) -> bool {
        (self.below(1_000_000) as f64) < chance * 1e6
    }
}

#[derive(Clone)]
pub(super) struct Person {
    pub(super) who: i64,
    pub(super) cells: Vec<String>,
    pub(super) value: String,
    pub(super) is_present: bool,
}

/// What happens on a night, as shares of the persons.
#[derive(Clone, Copy)]
pub(super) struct Churn {
    pub(super) inserted: f64,
    pub(super) deleted: f64,
    /// Of those who are gone.
    pub(super) returned: f64,
    /// Persons of whom a quasi-identifier changes.
    pub(super) moved: f64,
    pub(super) changed: f64,
}

pub(super) struct World {
    /// The quasi-identifiers.
    pub(super) columns: Vec<String>,
    /// The same in SQL, with their types.
    pub(super) typed: String,
    /// `hierarchies => {…},`
    pub(super) hierarchies: String,
    pub(super) people: Vec<Person>,
    /// Cells and values of those who may come.
    newcomers: Vec<(Vec<String>, String)>,
    random: Random,
}

impl World {
    /// Made-up persons with an age, a zip, a sex and one of nine diseases, of which some are frequent.
    pub(super) fn generated(persons: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let person = |random: &mut Random| {
            let age = 18 + random.below(40) + random.below(30);
            let zip = 100 + 10 * random.below(12) + random.below(4);
            let sex = ["F", "M"][random.below(2)];
            let value = format!("d{}", random.below(9).min(random.below(9)));
            (vec![age.to_string(), zip.to_string(), sex.to_owned()], value)
        };
        let all = (0..8 * persons).map(|_| person(&mut random)).collect();
        Self::new(
            &["age", "zip", "sex"],
            "CAST(age AS BIGINT) AS age, zip, sex",
            "hierarchies => {age: intervals(5, 10, 20), zip: prefixes(2, 1)},",
            (all, persons),
            random,
        )
    }

    /// Complete rows of Adult in an order of their own, seven quasi-identifiers and the occupation; `None` without the data.
    pub(super) async fn adult(test: &str, persons: usize) -> Option<Self> {
        const COLUMNS: [&str; 7] =
            ["sex", "age", "race", "marital-status", "education", "native-country", "workclass"];
        let directory = crate::adult(test)?;
        let context = session();
        let options = CsvReadOptions::new().delimiter(b';');
        let path = directory.join("adult.csv").display().to_string();
        context.register_csv("adult", path, options).await.unwrap();
        let quoted = COLUMNS.map(|column| format!("\"{column}\"")).join(", ");
        let sql = format!("SELECT {quoted}, occupation FROM adult ORDER BY {quoted}, occupation");
        let cells = rows(&context, &sql).await.unwrap().into_iter();
        let mut all: Vec<(Vec<String>, String)> = cells
            .map(|row| {
                let mut row: Vec<String> = row.into_iter().map(Option::unwrap).collect();
                let value = row.pop().unwrap();
                (row, value)
            })
            .collect();
        let mut random = Random(1);
        for at in (1..all.len()).rev() {
            all.swap(at, random.below(at + 1));
        }
        let names = COLUMNS.map(|column| column.replace('-', "_"));
        let of_column = |(column, name): (&str, &String)| {
            let path = directory.join("hierarchies").join(format!("{column}.csv"));
            format!("'{name}', '{}'", path.display())
        };
        let files: Vec<String> = COLUMNS.into_iter().zip(&names).map(of_column).collect();
        let typed = names.clone().map(|name| match name.as_str() {
            "age" => "CAST(age AS BIGINT) AS age".to_owned(),
            name => name.to_owned(),
        });
        Some(Self::new(
            &names.each_ref().map(String::as_str),
            &typed.join(", "),
            &format!("hierarchies => named_struct({}),", files.join(", ")),
            (all, persons),
            random,
        ))
    }

    fn new(
        columns: &[&str],
        typed: &str,
        hierarchies: &str,
        (mut all, persons): (Vec<(Vec<String>, String)>, usize),
        random: Random,
    ) -> Self {
        let newcomers = all.split_off(persons);
        let person = |(who, (cells, value)): (usize, (Vec<String>, String))| Person {
            who: who as i64,
            cells,
            value,
            is_present: true,
        };
        Self {
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            typed: typed.to_owned(),
            hierarchies: hierarchies.to_owned(),
            people: all.into_iter().enumerate().map(person).collect(),
            newcomers,
            random,
        }
    }

    /// A day passes.
    pub(super) fn next(&mut self, churn: Churn) {
        let persons = self.people.len();
        for at in 0..persons {
            if !self.people[at].is_present {
                self.people[at].is_present = self.random.happens(churn.returned);
                continue;
            }
            if self.random.happens(churn.deleted) {
                self.people[at].is_present = false;
            }
            if self.random.happens(churn.moved) {
                let column = self.random.below(self.columns.len());
                let other = self.random.below(persons);
                self.people[at].cells[column] = self.people[other].cells[column].clone();
            }
            if self.random.happens(churn.changed) {
                let other = self.random.below(persons);
                self.people[at].value = self.people[other].value.clone();
            }
        }
        for _ in 0..(churn.inserted * persons as f64).round() as usize {
            if let Some((cells, value)) = self.newcomers.pop() {
                let who = self.people.len() as i64;
                self.people.push(Person { who, cells, value, is_present: true });
            }
        }
    }

    /// Everything that is said of the columns, for `anonymize`.
    pub(super) fn roles(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|name| format!("'{name}'")).collect();
        format!(
            "quasi_identifiers => [{}], sensitive => ['secret'], {}",
            names.join(", "),
            self.hierarchies
        )
    }

    /// Tonight's rows in SQL.
    pub(super) fn tonight(&self) -> String {
        format!("SELECT who, {}, secret FROM tonight", self.typed)
    }
}
