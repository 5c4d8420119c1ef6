//! `privacy_report` and `utility_report` on tables whose measures were computed by hand, and on
//! releases whose loss the operator itself knows.

mod privacy;
mod queries;
mod releases;
mod utility;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};

fn session() -> SessionContext {
    // Small batches and several partitions, so that classes straddle batches.
    crate::session(SessionConfig::new().with_batch_size(7).with_target_partitions(3))
}

/// One line of a report.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    measure: String,
    column: Option<String>,
    value: Option<f64>,
    target: Option<f64>,
    holds: Option<bool>,
}

struct Report(Vec<Line>);

impl Report {
    fn line(&self, measure: &str, column: Option<&str>) -> &Line {
        let is_it = |line: &&Line| line.measure == measure && line.column.as_deref() == column;
        self.0.iter().find(is_it).unwrap_or_else(|| panic!("no line {measure} {column:?}"))
    }

    fn value(&self, measure: &str, column: Option<&str>) -> Option<f64> {
        self.line(measure, column).value
    }

    #[track_caller]
    fn check(&self, measure: &str, column: Option<&str>, expected: f64) {
        let value = self.value(measure, column);
        let near = value.is_some_and(|value| (value - expected).abs() < 1e-12);
        assert!(near, "{measure} {column:?} is {value:?}, not {expected}");
    }

    #[track_caller]
    fn check_holds(&self, measure: &str, column: Option<&str>, holds: Option<bool>) {
        assert_eq!(self.line(measure, column).holds, holds, "{measure} {column:?}");
    }
}

fn lines(batches: &[RecordBatch]) -> Vec<Line> {
    let mut lines = Vec::new();
    for batch in batches {
        let text = |name: &str, row| {
            let column = batch.column_by_name(name).unwrap().as_string::<i32>();
            (!column.is_null(row)).then(|| column.value(row).to_owned())
        };
        let number = |name: &str, row| {
            let column = batch.column_by_name(name)?.as_primitive::<Float64Type>();
            (!column.is_null(row)).then(|| column.value(row))
        };
        let flag = |name: &str, row| {
            let column = batch.column_by_name(name)?.as_boolean();
            (!column.is_null(row)).then(|| column.value(row))
        };
        lines.extend((0..batch.num_rows()).map(|row| Line {
            measure: text("measure", row).unwrap(),
            column: text("column_name", row),
            value: number("value", row),
            target: number("target", row),
            holds: flag("holds", row),
        }));
    }
    lines
}

async fn report(context: &SessionContext, call: &str) -> Result<Report> {
    let batches = context.sql(&format!("SELECT * FROM {call}")).await?.collect().await?;
    Ok(Report(lines(&batches)))
}

async fn run(context: &SessionContext, sql: &str) {
    context.sql(sql).await.unwrap().collect().await.unwrap();
}

async fn message(context: &SessionContext, call: &str) -> String {
    let failed = report(context, call).await.err();
    failed.unwrap_or_else(|| panic!("{call} succeeded")).strip_backtrace()
}

const PATIENTS: &str = "CREATE TABLE published AS SELECT * FROM (VALUES
    ('[20-29]', '021**', 'Flu', 10),
    ('[20-29]', '021**', 'HIV', 20),
    ('[20-29]', '021**', 'Flu', 30),
    ('[30-39]', NULL,    'Flu', 40),
    ('[30-39]', NULL,    NULL,  50)) AS t(age, zip, disease, cost)";
