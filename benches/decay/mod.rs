//! How a series ages: who leaves takes a cohort along, until everybody is back.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::catalog::MemTable;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use datafusion_anonymize::SeriesFigures;
use futures::TryStreamExt;

use crate::release_in;

/// Shares of the persons who leave every night.
const LEAVING: [f64; 3] = [0.0005, 0.002, 0.005];
/// Share of newcomers a night.
const COMING: f64 = 0.01;
const NIGHTS: usize = 30;
/// Nights that have a line.
const SHOWN: [usize; 4] = [1, 10, 20, 30];

/// A series in memory, and a session that knows `sample_census`.
pub struct Ageing<'a> {
    pub context: &'a SessionContext,
    pub method: &'a str,
    pub k: usize,
    /// Persons of the first night.
    pub persons: usize,
}

impl Ageing<'_> {
    /// Prints live cohorts and losses over the nights, for every share of leavers.
    pub async fn print(&self) -> Result<()> {
        let Self { persons, .. } = self;
        let all = (*persons as f64 * (1.0 + COMING * NIGHTS as f64)).ceil();
        // Numbers that have nothing to do with the order in which people came.
        let people = format!(
            "CREATE TABLE ageing AS SELECT *, (id * 2654435761 % 1000003 + 0.5) / 1000003 AS chance,
               greatest(0, ceil((id - {persons}) / ({persons} * {COMING}))) AS arrival
             FROM (SELECT *, row_number() OVER () AS id FROM sample_census(rows => {all}, seed => 8))"
        );
        self.context.sql(&people).await?.collect().await?;
        println!("{persons} persons on the first night, {} % newcomers a night", 100.0 * COMING);
        println!(
            "{:<10} {:>6} {:>10} {:>14} {:>12} {:>12} {:>12}",
            "leaving", "night", "live", "of first ones", "loss, live", "loss, plain", "waiting"
        );
        for leaving in LEAVING {
            self.series(leaving).await?;
        }
        Ok(())
    }

    async fn series(&self, leaving: f64) -> Result<()> {
        let Self { k, .. } = self;
        for empty in ["ageing_members (person BYTEA, cohort BIGINT)", "ageing_last (cohort BIGINT)"]
        {
            self.context.sql(&format!("CREATE OR REPLACE TABLE {empty}")).await?.collect().await?;
        }
        let mut members = Vec::new();
        for night in 1..=NIGHTS {
            // Who comes stays as long as chance wants.
            let day = night - 1;
            let tonight = format!(
                "(SELECT * FROM ageing WHERE arrival <= {day} AND chance <= power(1 - {leaving}, {day} - arrival))"
            );
            let figures = self.night(&tonight, &mut members).await?;
            if !SHOWN.contains(&night) {
                continue;
            }
            let SeriesFigures { cohorts_live, cohorts_held, persons_waiting, .. } = figures;
            let live = cohorts_live as f64 / (cohorts_live + cohorts_held) as f64;
            let expected = (1.0 - leaving).powi((k * day) as i32);
            let [of_live, of_plain] = self.losses(&tonight).await?;
            println!(
                "{:<10} {night:>6} {live:>10.3} {expected:>14.3} {of_live:>12.4} {of_plain:>12.4} {persons_waiting:>12}",
                format!("{} %", 100.0 * leaving)
            );
        }
        Ok(())
    }

    /// Computes a night, and keeps its release and all members so far.
    async fn night(&self, tonight: &str, members: &mut Vec<RecordBatch>) -> Result<SeriesFigures> {
        let series = "privacy_unit => 'id', held => true, series => {members: ageing_members, last: ageing_last}";
        let sql = self.anonymize(tonight, series);
        let plan = self.context.sql(&sql).await?.create_physical_plan().await?;
        let exec = release_in(&plan).unwrap();
        let [rows, new] = exec.release_and_members(self.context.task_ctx()).await?;
        let last = batches(rows).await?;
        members.extend(batches(new).await?);
        self.keep("ageing_last", last)?;
        self.keep("ageing_members", members.clone())?;
        Ok(exec.series_figures().unwrap())
    }

    /// The loss of the rows that are of tonight, and that of a plain release of tonight's rows.
    async fn losses(&self, tonight: &str) -> Result<[f64; 2]> {
        let counts = format!(
            "SELECT CAST((SELECT count(*) FROM {tonight}) AS DOUBLE) AS original, CAST((SELECT count(*) FROM ageing_last \
             WHERE NOT held) AS DOUBLE) AS live"
        );
        let counts = self.context.sql(&counts).await?.collect().await?;
        let [original, live] = [0, 1].map(|at| number(&counts, at));
        let lost = self.loss(tonight, "(SELECT * FROM ageing_last WHERE NOT held)").await?;
        // Rows that have no counterpart count as lost, and those of cohorts that are held have one.
        let of_live = (lost * original - (original - live)) / live;
        let plain = self.anonymize(tonight, "identifiers => ['id']");
        Ok([of_live, self.loss(tonight, &format!("({plain})")).await?])
    }

    async fn loss(&self, original: &str, published: &str) -> Result<f64> {
        let sql = format!(
            "SELECT value FROM utility_report({original}, {published}, quasi_identifiers => [{QUASI_IDENTIFIERS}]) \
             WHERE measure = 'ncp' AND column_name IS NULL"
        );
        Ok(number(&self.context.sql(&sql).await?.collect().await?, 0))
    }

    fn anonymize(&self, input: &str, more: &str) -> String {
        let Self { method, k, .. } = self;
        format!(
            "SELECT * FROM anonymize((SELECT {COLUMNS}, occupation, id FROM {input}), k => {k}, method => '{method}', \
             seed => 'the seed of a benchmark', quasi_identifiers => [{QUASI_IDENTIFIERS}], sensitive => ['occupation'], \
             {more})"
        )
    }

    fn keep(&self, table: &str, rows: Vec<RecordBatch>) -> Result<()> {
        let Some(first) = rows.first() else { return Ok(()) };
        let kept = MemTable::try_new(first.schema(), vec![rows])?;
        self.context.deregister_table(table)?;
        self.context.register_table(table, Arc::new(kept))?;
        Ok(())
    }
}

const COLUMNS: &str = "age, sex, race, marital_status, education, zip, birth_date";
const QUASI_IDENTIFIERS: &str =
    "'age', 'sex', 'race', 'marital_status', 'education', 'zip', 'birth_date'";

async fn batches(rows: SendableRecordBatchStream) -> Result<Vec<RecordBatch>> {
    rows.try_filter(|batch| std::future::ready(batch.num_rows() > 0)).try_collect().await
}

/// The number in the first row of a column.
fn number(rows: &[RecordBatch], column: usize) -> f64 {
    let rows = rows.iter().find(|batch| batch.num_rows() > 0).unwrap();
    rows.column(column).as_primitive::<Float64Type>().value(0)
}
