//! One release, what it is worth and what it costs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{Float64Type, Int64Type};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_anonymize::engine::AnonymizeExec;
use futures::TryStreamExt;

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

/// A release of the table `people`. Graded alphas are always the paper's.
#[derive(Clone, Copy)]
pub struct Release {
    pub method: Method,
    pub k: u32,
    pub alpha: f64,
    /// All but the first have a hierarchy.
    pub quasi_identifiers: &'static [&'static str],
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
    pub async fn measure(&self, context: &SessionContext) -> Result<Found> {
        let published = match self.method {
            Method::TopDown => self.call("sensitive"),
            _ => format!("{}, {}", self.call("quasi_identifiers"), self.call("sensitive")),
        };
        let sql = format!(
            "SELECT measure, value FROM utility_report({}, {published}, {}, \
             sensitive => ['occupation'], sensitivity => levels)",
            self.original(),
            self.roles()
        );
        let mut found = Found {
            reconstruction: f64::NAN,
            sensitivity: f64::NAN,
            sensitivity_normalized: f64::NAN,
            suppressed: f64::NAN,
        };
        for batch in context.sql(&sql).await?.collect().await? {
            let measures = batch.column(0).as_string::<i32>().iter().flatten();
            for (measure, value) in measures.zip(batch.column(1).as_primitive::<Float64Type>()) {
                let target = match measure {
                    "reconstruction_distance" => &mut found.reconstruction,
                    "sensitivity_distance" => &mut found.sensitivity,
                    "sensitivity_distance_normalized" => &mut found.sensitivity_normalized,
                    "suppressed_rows" => &mut found.suppressed,
                    _ => continue,
                };
                *target = value.unwrap_or(f64::NAN);
            }
        }
        Ok(found)
    }

    /// Rows of one table that are published with all quasi-identifiers as they are.
    pub async fn exact_rows(&self, context: &SessionContext) -> Result<f64> {
        let names = self.quasi_identifiers.iter();
        let exact = names.map(|name| {
            format!(
                "CAST({name} AS VARCHAR) IN (SELECT DISTINCT CAST({name} AS VARCHAR) FROM people)"
            )
        });
        let exact: Vec<String> = exact.collect();
        let call = self.call("sensitive");
        let sql = format!("SELECT count(*) FROM {call} WHERE {}", exact.join(" AND "));
        let batches = context.sql(&sql).await?.collect().await?;
        let counts = batches.iter().map(|batch| batch.column(0).as_primitive::<Int64Type>());
        Ok(counts.flat_map(|counts| counts.values().to_vec()).sum::<i64>() as f64)
    }

    pub async fn time(&self, context: &SessionContext) -> Result<Times> {
        let start = Instant::now();
        let sql = format!("SELECT * FROM {}", self.call("sensitive"));
        let plan = context.sql(&sql).await?.create_physical_plan().await?;
        let exec = plan.downcast_ref::<AnonymizeExec>();
        let exec = exec.ok_or_else(|| exec_datafusion_err!("the plan is not a release"))?;
        let tables = match self.method {
            Method::TopDown => vec![execute_stream(Arc::clone(&plan), context.task_ctx())?],
            _ => exec.both_tables(context.task_ctx()).await?.into(),
        };
        for mut table in tables {
            while table.try_next().await?.is_some() {}
        }
        let whole = milliseconds(start.elapsed());
        let nanoseconds = exec.metrics().unwrap_or_default().sum_by_name("partition_time");
        let nanoseconds = nanoseconds.map_or(0, |time| time.as_usize());
        Ok(Times { forming: milliseconds(Duration::from_nanos(nanoseconds as u64)), whole })
    }

    fn original(&self) -> String {
        format!("(SELECT {}, occupation FROM people)", self.quasi_identifiers.join(", "))
    }

    fn roles(&self) -> String {
        let names = self.quasi_identifiers;
        let roles = format!("quasi_identifiers => ['{}']", names.join("', '"));
        match self.method {
            Method::TopDown => {
                let levels = names[1..].iter().map(|name| format!("{name}: {name}_levels"));
                let levels: Vec<String> = levels.collect();
                format!("{roles}, hierarchies => {{{}}}", levels.join(", "))
            }
            _ => roles,
        }
    }

    /// The release in SQL; which of the tables is only asked where there are two.
    fn call(&self, publish: &str) -> String {
        let Release { method, k, alpha, .. } = self;
        let how = match method {
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
