//! Releases that follow each other.

mod crashes;
mod forget;
mod mistakes;
mod nights;
mod remote;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anonymize_release::store::Location;
use anonymize_release::{
    Error, Job, Manifest, Outcome, RunOptions, current, register_release, run,
};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use object_store::ObjectStoreExt;
use serde_json::Value;
use tempfile::{TempDir, tempdir};

/// A job that releases `people.csv`, which every night writes anew.
#[derive(Clone)]
pub struct Nights {
    /// Where the input is.
    pub directory: std::sync::Arc<TempDir>,
    pub host: SessionContext,
    pub output: String,
    pub state: String,
    /// Behind `[series]`.
    pub series: String,
    pub checks: String,
    pub anonymize: String,
    pub seed: String,
    pub new_series: bool,
}

impl Nights {
    pub fn new() -> Self {
        let directory = std::sync::Arc::new(tempdir().unwrap());
        let place = |name: &str| directory.path().join(name).display().to_string();
        Self {
            host: SessionContext::new(),
            output: place("out"),
            state: place("state"),
            series: String::new(),
            checks: String::new(),
            anonymize: "k = 5\nl = 2".to_owned(),
            seed: "a secret of the tests".to_owned(),
            new_series: false,
            directory,
        }
    }

    pub fn text(&self) -> String {
        let Self { output, state, series, checks, anonymize, seed, .. } = self;
        format!(
            r#"
            name = "people"
            [input.people]
            path = "people.csv"
            types = {{ zip = "text" }}
            [anonymize]
            {anonymize}
            quasi_identifiers = ["age", "zip"]
            sensitive = ["disease"]
            privacy_unit = "person"
            seed = "{seed}"
            [output]
            path = "{output}"
            [checks]
            {checks}
            [series]
            state = "{state}"
            {series}
            "#
        )
    }

    pub fn job(&self) -> Result<Job, Error> {
        Job::from_toml(&self.text(), self.directory.path())
    }

    /// Writes tonight's rows and runs the job.
    pub async fn night(&self, people: impl IntoIterator<Item = Person>) -> Result<Outcome, Error> {
        self.write(people);
        self.run().await
    }

    pub fn write(&self, people: impl IntoIterator<Item = Person>) {
        let rows = people.into_iter().map(|Person { id, disease }| {
            format!("{id},{},0{},{disease}\n", 20 + id * 7 % 50, 2130 + id % 10)
        });
        let text: String =
            ["person,age,zip,disease\n".to_owned()].into_iter().chain(rows).collect();
        std::fs::write(self.directory.path().join("people.csv"), text).unwrap();
    }

    pub async fn run(&self) -> Result<Outcome, Error> {
        let options = RunOptions { new_series: self.new_series, ..RunOptions::default() };
        run(&self.job()?, &self.host, options).await
    }

    pub async fn manifest(&self) -> Option<Manifest> {
        current(&self.host, &self.output).await.unwrap()
    }

    /// The published rows by cohort, as texts.
    pub async fn published(&self) -> Cohorts {
        let manifest = self.manifest().await.unwrap();
        let context =
            SessionContext::new_with_config_rt(self.host.copied_config(), self.host.runtime_env());
        register_release(&context, &self.output, &manifest.tables[0], "released").await.unwrap();
        let batches = context.table("released").await.unwrap().collect().await.unwrap();
        let mut found = Cohorts::new();
        for batch in &batches {
            let cohorts =
                batch.column_by_name("cohort").unwrap().as_primitive::<Int64Type>().clone();
            for row in 0..batch.num_rows() {
                let shown = ["age", "zip", "disease"].map(|name| {
                    array_value_to_string(batch.column_by_name(name).unwrap(), row).unwrap()
                });
                found.entry(cohorts.value(row)).or_default().push(shown.join(" "));
            }
        }
        found.values_mut().for_each(|rows| rows.sort());
        found
    }

    pub async fn file(&self, url: &str) -> Option<Vec<u8>> {
        let location = Location::new(&self.host.runtime_env(), url).unwrap();
        let found = location.store.get(&location.path).await.ok()?;
        Some(found.bytes().await.unwrap().to_vec())
    }

    /// The state that the pointer names.
    pub async fn state_now(&self) -> Value {
        let facts = self.manifest().await.unwrap().series.unwrap();
        let bytes = self.file(&format!("{}/{}", self.state, facts.state)).await;
        serde_json::from_slice(&bytes.expect("the pointer names a state that is not there"))
            .unwrap()
    }

    /// Everybody in the state that the pointer names, with the cohort. Nobody is there twice.
    pub async fn members(&self) -> BTreeMap<Vec<u8>, i64> {
        let state = self.state_now().await;
        let context =
            SessionContext::new_with_config_rt(self.host.copied_config(), self.host.runtime_env());
        let mut members = BTreeMap::new();
        for segment in state["segments"].as_array().unwrap() {
            let url = format!("{}/{}", self.state, segment["file"].as_str().unwrap());
            let read = context.read_parquet(&url, ParquetReadOptions::default()).await;
            for batch in read.unwrap().collect().await.unwrap() {
                let persons = batch.column(0).as_fixed_size_binary();
                let cohorts = batch.column(1).as_primitive::<Int64Type>();
                for row in 0..batch.num_rows() {
                    let before = members.insert(persons.value(row).to_vec(), cohorts.value(row));
                    assert_eq!(before, None, "somebody is in two cohorts");
                }
            }
        }
        members
    }

    /// The promises that hold whatever happened: release and state belong together, every cohort is published whole.
    pub async fn check(&self) {
        let (published, members) = (self.published().await, self.members().await);
        let mut sizes: BTreeMap<i64, usize> = BTreeMap::new();
        members.values().for_each(|cohort| *sizes.entry(*cohort).or_default() += 1);
        for (cohort, rows) in &published {
            assert_eq!(Some(&rows.len()), sizes.get(cohort), "a cohort is not whole");
            assert!(rows.len() >= 5);
        }
        assert!(!published.is_empty());
    }
}

/// Rows by cohort.
pub type Cohorts = BTreeMap<i64, Vec<String>>;

#[derive(Clone, Copy)]
pub struct Person {
    pub id: u64,
    pub disease: &'static str,
}

pub const DISEASES: [&str; 4] = ["Flu", "Cold", "Asthma", "HIV"];

/// Persons with these numbers.
pub fn people(ids: impl IntoIterator<Item = u64>) -> Vec<Person> {
    let person = |id: u64| Person { id, disease: DISEASES[(id * 13 % 7 % 4) as usize] };
    ids.into_iter().map(person).collect()
}

/// The cohorts that are in both, and whether their rows are the same.
pub fn common(one: &Cohorts, other: &Cohorts) -> Vec<bool> {
    let both = one.iter().filter_map(|(cohort, rows)| Some((rows, other.get(cohort)?)));
    both.map(|(rows, others)| rows == others).collect()
}

pub fn ids(cohorts: &Cohorts) -> BTreeSet<i64> {
    cohorts.keys().copied().collect()
}

pub fn files(directory: impl AsRef<Path>) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
