//! Releases that follow each other: every rule of `docs/series.md`, and every refusal.
//!
//! The sensitive value of a person says who it is, so that a published row can be put beside its person.

mod nights;
mod promises;
mod refusals;
mod rules;
mod tightened;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::{session, texts};

const SEED: &str = "seed => 'the seed of these nights'";

/// A person of one night.
#[derive(Debug, Clone, PartialEq)]
struct Person {
    id: i64,
    age: i32,
    zip: String,
    disease: String,
}

/// So many persons from a number on, spread over ages and zips. Everybody has a disease of their own.
fn persons(ids: std::ops::Range<i64>) -> Vec<Person> {
    ids.map(|id| Person {
        id,
        age: 20 + (id * 37 % 60) as i32,
        zip: format!("{:05}", id * 7919 % 90_000),
        disease: format!("d{id}"),
    })
    .collect()
}

fn batch(persons: &[Person]) -> RecordBatch {
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(Int64Array::from_iter_values(persons.iter().map(|of| of.id)))),
        ("age", Arc::new(Int32Array::from_iter_values(persons.iter().map(|of| of.age)))),
        ("zip", Arc::new(StringArray::from_iter_values(persons.iter().map(|of| &of.zip)))),
        ("disease", Arc::new(StringArray::from_iter_values(persons.iter().map(|of| &of.disease)))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, of)| (name, of, true))).unwrap()
}

fn table(schema: SchemaRef, batches: Vec<RecordBatch>) -> Arc<MemTable> {
    Arc::new(MemTable::try_new(schema, vec![batches]).unwrap())
}

fn put(context: &SessionContext, name: &str, schema: SchemaRef, batches: Vec<RecordBatch>) {
    context.deregister_table(name).unwrap();
    context.register_table(name, table(schema, batches)).unwrap();
}

/// What is published of a cohort: rows as text without the cohort, sorted.
type Cohorts = BTreeMap<i64, Vec<String>>;

/// A series over its nights.
struct Series {
    context: SessionContext,
    options: String,
    members: Vec<RecordBatch>,
    last: Vec<RecordBatch>,
}

impl Series {
    /// A series with k = 3 and these options beside.
    fn new(options: &str) -> Self {
        Self::in_session(session(SessionConfig::new().with_target_partitions(2)), options)
    }

    fn in_session(context: SessionContext, options: &str) -> Self {
        let options = format!("k => 3, held => true, {SEED}{options}");
        let members = Schema::new(vec![
            Field::new("person", DataType::FixedSizeBinary(16), true),
            Field::new("cohort", DataType::Int64, true),
        ]);
        put(&context, "members", Arc::new(members), Vec::new());
        let last = Schema::new(vec![Field::new("cohort", DataType::Int64, true)]);
        put(&context, "last", Arc::new(last), Vec::new());
        Self { context, options, members: Vec::new(), last: Vec::new() }
    }

    fn sql(&self, more: &str) -> String {
        format!(
            "SELECT * FROM anonymize(tonight, quasi_identifiers => ['age', 'zip'], sensitive => ['disease'], \
             privacy_unit => 'id', series => {{members: members, last: last}}, {}{more})",
            self.options
        )
    }

    /// The release of tonight, without its consequences.
    async fn release(&self, tonight: &[Person]) -> Result<Vec<RecordBatch>> {
        let tonight = batch(tonight);
        put(&self.context, "tonight", tonight.schema(), vec![tonight]);
        self.context.sql(&self.sql("")).await?.collect().await
    }

    /// The rows that tonight adds to the state, after [`Series::release`].
    async fn new_members(&self) -> Result<Vec<RecordBatch>> {
        self.context.sql(&self.sql(", publish => 'members'")).await?.collect().await
    }

    /// One night, after which the next one can follow.
    async fn night(&mut self, tonight: &[Person]) -> Result<Cohorts> {
        let release = self.release(tonight).await?;
        let members = self.new_members().await?;
        self.follow(release.clone(), members);
        Ok(cohorts(&release))
    }

    /// Makes a release and its members what the next night goes on from.
    fn follow(&mut self, release: Vec<RecordBatch>, members: Vec<RecordBatch>) {
        self.members.extend(members);
        self.set_members(self.members.clone());
        self.set_last(release);
    }

    fn set_members(&mut self, members: Vec<RecordBatch>) {
        self.members = members;
        if let Some(first) = self.members.first() {
            put(&self.context, "members", first.schema(), self.members.clone());
        }
    }

    fn set_last(&mut self, last: Vec<RecordBatch>) {
        self.last = last;
        if let Some(first) = self.last.first() {
            put(&self.context, "last", first.schema(), self.last.clone());
        }
    }

    async fn error(&self, tonight: &[Person]) -> String {
        self.release(tonight).await.unwrap_err().strip_backtrace()
    }
}

fn position(batches: &[RecordBatch], column: &str) -> usize {
    batches[0].schema().index_of(column).unwrap()
}

fn cohorts(release: &[RecordBatch]) -> Cohorts {
    let mut cohorts = Cohorts::new();
    if release.is_empty() {
        return cohorts;
    }
    let cohort = position(release, "cohort");
    for mut row in texts(release, "NULL") {
        let id = row.remove(cohort).parse().unwrap();
        cohorts.entry(id).or_default().push(row.join(" | "));
    }
    cohorts.values_mut().for_each(|rows| rows.sort_unstable());
    cohorts
}

/// The disease of a published row, which says whose it is.
fn disease(row: &str) -> &str {
    row.split(" | ").nth(2).unwrap()
}

fn is_held(rows: &[String]) -> bool {
    rows[0].ends_with("true")
}

/// The cohort of everybody by disease.
fn cohort_of(cohorts: &Cohorts) -> BTreeMap<String, i64> {
    let rows = cohorts.iter().flat_map(|(id, rows)| rows.iter().map(move |row| (row, *id)));
    rows.map(|(row, id)| (disease(row).to_owned(), id)).collect()
}
