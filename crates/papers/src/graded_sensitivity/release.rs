//! One release, what it is worth and what it costs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::Result;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::TryStreamExt;

use crate::columns::{Column, hierarchies, names, quoted};
use crate::workspace::{Workspace, release_in};

/// The largest share of a value of every level, as the paper has them.
const GRADED_ALPHA: &str = "[0.2, 0.3, 0.35, 0.4, 0.5]";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Graded,
    OneAlpha,
    TopDown,
}

pub const METHODS: [Method; 3] = [Method::Graded, Method::OneAlpha, Method::TopDown];

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Method::Graded => "alpha_k, graded",
            Method::OneAlpha => "alpha_k, one alpha",
            Method::TopDown => "top_down",
        }
    }
}

/// What is asked of a release. Graded alphas are always the paper's.
#[derive(Clone, Copy)]
pub struct Constraint {
    pub k: u32,
    pub alpha: f64,
}

/// A release of the table `people`.
#[derive(Clone, Copy)]
pub struct Release {
    pub method: Method,
    pub constraint: Constraint,
    pub quasi_identifiers: &'static [Column],
}

/// What a release is worth.
#[derive(Clone, Copy)]
pub struct Found {
    pub reconstruction: f64,
    /// In levels.
    pub sensitivity: f64,
    /// The same as a share of the most it can be.
    pub sensitivity_normalized: f64,
    pub suppressed: f64,
}

/// Times in milliseconds.
#[derive(Clone, Copy)]
pub struct Times {
    /// From codes to classes.
    pub forming: f64,
    /// From SQL to the last row.
    pub whole: f64,
}

impl Release {
    /// Both tables where there are two.
    pub async fn measure(&self, workspace: &Workspace) -> Result<Found> {
        let published = match self.method {
            Method::TopDown => self.call("sensitive"),
            _ => format!("{}, {}", self.call("quasi_identifiers"), self.call("sensitive")),
        };
        let report = format!(
            "utility_report({}, {published}, {}, sensitive => ['occupation'], sensitivity => levels)",
            self.original(),
            self.roles()
        );
        let measures = workspace.measures(&report).await?;
        Ok(Found {
            reconstruction: measures.get("reconstruction_distance")?,
            sensitivity: measures.get("sensitivity_distance")?,
            sensitivity_normalized: measures.get("sensitivity_distance_normalized")?,
            suppressed: measures.get("suppressed_rows")?,
        })
    }

    /// Rows of one table that are published with all quasi-identifiers as they are.
    pub async fn exact_rows(&self, workspace: &Workspace) -> Result<f64> {
        let exact = names(self.quasi_identifiers).into_iter().map(|name| {
            let original = format!("SELECT DISTINCT CAST({name} AS VARCHAR) FROM people");
            format!("CAST({name} AS VARCHAR) IN ({original})")
        });
        let exact = exact.collect::<Vec<_>>().join(" AND ");
        let call = self.call("sensitive");
        let counts = workspace.query(&format!("SELECT count(*) FROM {call} WHERE {exact}")).await?;
        let counts = counts.iter().map(|batch| batch.column(0).as_primitive::<Int64Type>());
        Ok(counts.flat_map(|counts| counts.values().to_vec()).sum::<i64>() as f64)
    }

    pub async fn time(&self, workspace: &Workspace) -> Result<Times> {
        let context = &workspace.context;
        let start = Instant::now();
        let sql = format!("SELECT * FROM {}", self.call("sensitive"));
        let plan = context.sql(&sql).await?.create_physical_plan().await?;
        let release = release_in(&plan)?;
        let tables = match self.method {
            Method::TopDown => vec![execute_stream(Arc::clone(&plan), context.task_ctx())?],
            _ => release.both_tables(context.task_ctx()).await?.into(),
        };
        for mut table in tables {
            while table.try_next().await?.is_some() {}
        }
        let whole = milliseconds(start.elapsed());
        let nanoseconds = release.metrics().unwrap_or_default().sum_by_name("partition_time");
        let nanoseconds = nanoseconds.map_or(0, |time| time.as_usize());
        Ok(Times { forming: milliseconds(Duration::from_nanos(nanoseconds as u64)), whole })
    }

    fn original(&self) -> String {
        format!("(SELECT {}, occupation FROM people)", names(self.quasi_identifiers).join(", "))
    }

    fn roles(&self) -> String {
        let roles = format!("quasi_identifiers => [{}]", quoted(&names(self.quasi_identifiers)));
        match self.method {
            Method::TopDown => format!("{roles}{}", hierarchies(self.quasi_identifiers)),
            _ => roles,
        }
    }

    /// The release in SQL; which of the tables is only asked where there are two.
    fn call(&self, publish: &str) -> String {
        let Constraint { k, alpha } = self.constraint;
        let how = match self.method {
            Method::Graded => format!(
                "method => 'alpha_k', publish => '{publish}', alpha => {GRADED_ALPHA}, sensitivity => levels"
            ),
            Method::OneAlpha => {
                format!("method => 'alpha_k', publish => '{publish}', alpha => {alpha}")
            }
            Method::TopDown => format!("method => 'top_down', alpha => {alpha}"),
        };
        format!(
            "anonymize({}, k => {k}, {how}, {}, sensitive => ['occupation'], suppression_limit => 1, \
             seed => 1)",
            self.original(),
            self.roles()
        )
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Times {
    pub fn median(times: &[Times]) -> Self {
        let middle = |part: fn(&Times) -> f64| {
            let mut times: Vec<f64> = times.iter().map(part).collect();
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        Self { forming: middle(|times| times.forming), whole: middle(|times| times.whole) }
    }
}
