//! What EXPLAIN ANALYZE shows of a release.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, CustomMetricValue, ExecutionPlanMetricsSet, Gauge, Metric,
    MetricBuilder, MetricValue, MetricsSet, RatioMetrics, SpillMetrics, Time,
};

use crate::measure::round_to_three_digits;
use crate::method::slicing::Sliced;
use crate::model::Persons;

/// The largest share of a class that one person holds.
pub(super) const UNIT_SHARE: &str = "unit_share";
/// The share of the persons who have rows in more than one class.
pub(super) const SPLIT_PERSONS: &str = "split_persons";

/// Counters and timers of one execution, in the order of its phases.
#[derive(Debug, Clone)]
pub(super) struct ReleaseMetrics {
    pub(super) baseline: BaselineMetrics,
    pub(super) input_rows: Count,
    pub(super) suppressed_rows: Count,
    pub(super) classes: Gauge,
    pub(super) largest_class: Gauge,
    pub(super) loss: Arc<Share>,
    /// Time waiting for the input, summed over its partitions.
    pub(super) read_time: Time,
    /// Time turning values into codes, summed over threads.
    pub(super) encode_time: Time,
    pub(super) partition_time: Time,
    pub(super) verify_time: Time,
    /// Time making output batches, summed over threads.
    pub(super) emit_time: Time,
    /// Time writing temporary files and reading them back, summed over threads.
    pub(super) spill_time: Time,
    pub(super) spills: SpillMetrics,
    pub(super) peak_memory: Gauge,
    /// For metrics that only some methods have.
    set: ExecutionPlanMetricsSet,
}

impl ReleaseMetrics {
    pub(super) fn new(set: &ExecutionPlanMetricsSet) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(set).counter(name, 0);
        let gauge = |name: &'static str| MetricBuilder::new(set).gauge(name, 0);
        let time = |name: &'static str| MetricBuilder::new(set).subset_time(name, 0);
        let loss = share(set, "loss");
        Self {
            baseline: BaselineMetrics::new(set, 0),
            input_rows: counter("input_rows"),
            suppressed_rows: counter("suppressed_rows"),
            classes: gauge("classes"),
            largest_class: gauge("largest_class"),
            loss,
            read_time: time("read_time"),
            encode_time: time("encode_time"),
            partition_time: time("partition_time"),
            verify_time: time("verify_time"),
            emit_time: time("emit_time"),
            spill_time: time("spill_time"),
            spills: SpillMetrics::new(set, 0),
            peak_memory: gauge("peak_memory"),
            set: set.clone(),
        }
    }

    /// Prec: how far values stay below the tops of their hierarchies.
    pub(super) fn precision(&self, precision: f64) {
        share(&self.set, "precision").set(precision);
    }

    /// Records how the rows of persons are spread over the classes, rounded. If this is only a part of the table,
    /// persons in several classes are not recorded: they may have rows in other parts.
    pub(super) fn persons(&self, persons: Persons, is_whole: bool) {
        let largest = persons.largest_share.max(self.unit_share());
        set_share(&self.set, UNIT_SHARE, round_to_three_digits(largest));
        if is_whole {
            set_share(&self.set, SPLIT_PERSONS, round_to_three_digits(persons.split));
        }
    }

    /// The largest share of a class that one person holds, of all parts so far.
    pub(super) fn unit_share(&self) -> f64 {
        share_of(&self.set, UNIT_SHARE).unwrap_or(0.0)
    }

    /// What a slicing found, and how many columns its buckets have together.
    pub(super) fn slicing(&self, by_associations: bool, sliced: &Sliced) {
        let gauge = |name: &'static str, value: u64| {
            MetricBuilder::new(&self.set).gauge(name, 0).set(value as usize);
        };
        gauge("bucket_columns", sliced.columns);
        gauge("undivided_buckets", sliced.undivided);
        if by_associations {
            let (with_sensitive, others) = sliced.associations;
            gauge("sensitive_associations", with_sensitive as u64);
            gauge("other_associations", others as u64);
            gauge("association_sets_cut", sliced.cut);
        }
    }

    /// What a release of a series counted.
    pub(super) fn series(&self, figures: &SeriesFigures) {
        for (name, value) in figures.named() {
            MetricBuilder::new(&self.set).gauge(name, 0).set(value as usize);
        }
    }

    /// Rows that publish `*` in all columns of an independent subset of the constraints.
    pub(super) fn suppressed_in(&self, columns: &str, rows: usize) {
        let name = format!("suppressed_rows[{columns}]");
        MetricBuilder::new(&self.set).counter(name, 0).add(rows);
    }
}

/// Who was there on a night of a series, and what was published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SeriesFigures {
    /// Members of the cohorts that the last release has.
    pub persons_known: u64,
    /// Persons of tonight who were in no cohort.
    pub persons_new: u64,
    /// Members of the cohorts that the last release has who are not here tonight.
    pub persons_gone: u64,
    /// Persons of tonight who are in no cohort yet.
    pub persons_waiting: u64,
    /// Published cohorts whose members are all here, the new ones among them.
    pub cohorts_live: u64,
    /// Published cohorts of which somebody is gone.
    pub cohorts_held: u64,
    /// Rows of these.
    pub rows_held: u64,
}

macro_rules! figures {
    ($($name:ident),+) => {
        impl SeriesFigures {
            fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),+]
            }

            /// The figures of an execution, `None` before it counted them.
            pub(super) fn of(set: &ExecutionPlanMetricsSet) -> Option<Self> {
                let metrics = set.clone_inner();
                let value = |name| Some(metrics.sum_by_name(name)?.as_usize() as u64);
                Some(Self { $($name: value(stringify!($name))?),+ })
            }
        }
    };
}
figures!(
    persons_known,
    persons_new,
    persons_gone,
    persons_waiting,
    cohorts_live,
    cohorts_held,
    rows_held
);

pub(super) fn share(set: &ExecutionPlanMetricsSet, name: &'static str) -> Arc<Share> {
    let share = Arc::new(Share::default());
    MetricBuilder::new(set)
        .with_partition(0)
        .build(MetricValue::Custom { name: Cow::Borrowed(name), value: Arc::clone(&share) as _ });
    share
}

/// Sets the share of that name, which may exist already.
fn set_share(set: &ExecutionPlanMetricsSet, name: &'static str, found: f64) {
    if with_share(set, name, |share| share.set(found)).is_none() {
        share(set, name).set(found);
    }
}

/// The share of that name, `None` before it was set.
pub(super) fn share_of(set: &ExecutionPlanMetricsSet, wanted: &str) -> Option<f64> {
    with_share(set, wanted, Share::get)
}

fn with_share<T>(
    set: &ExecutionPlanMetricsSet,
    wanted: &str,
    mut work: impl FnMut(&Share) -> T,
) -> Option<T> {
    let metrics = set.clone_inner();
    metrics.iter().find_map(|metric| match metric.value() {
        MetricValue::Custom { name, value } if name == wanted => {
            value.as_any().downcast_ref::<Share>().map(&mut work)
        }
        _ => None,
    })
}

/// The metrics that an operator reports. A cluster transports only the kinds that DataFusion defines, so shares become
/// ratios there.
pub(super) fn exported(set: &ExecutionPlanMetricsSet, is_remote: bool) -> MetricsSet {
    if is_remote { as_common_kinds(&set.clone_inner()) } else { set.clone_inner() }
}

fn as_common_kinds(set: &MetricsSet) -> MetricsSet {
    const WHOLE: usize = 1_000_000_000;
    let mut sent = MetricsSet::new();
    for metric in set.iter() {
        let share = match metric.value() {
            MetricValue::Custom { name, value } => {
                value.as_any().downcast_ref::<Share>().map(|share| (name, share.get()))
            }
            _ => None,
        };
        sent.push(match share {
            None => Arc::clone(metric),
            Some((name, share)) => {
                let ratio = RatioMetrics::new().with_display_raw_values(false);
                ratio.set_part((round_to_three_digits(share) * WHOLE as f64).round() as usize);
                ratio.set_total(WHOLE);
                let value = MetricValue::Ratio { name: name.clone(), ratio_metrics: ratio };
                Arc::new(Metric::new(value, metric.partition()))
            }
        });
    }
    sent
}

/// A number from 0 to 1 as a metric.
#[derive(Debug, Default)]
pub(super) struct Share(AtomicU64);

impl Share {
    pub(super) fn set(&self, share: f64) {
        self.0.store(share.to_bits(), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", round_to_three_digits(self.get()))
    }
}

impl CustomMetricValue for Share {
    fn new_empty(&self) -> Arc<dyn CustomMetricValue> {
        Arc::new(Self::default())
    }

    fn aggregate(&self, other: Arc<dyn CustomMetricValue>) {
        if let Some(other) = other.as_any().downcast_ref::<Self>() {
            self.set(self.get().max(other.get()));
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_eq(&self, other: &Arc<dyn CustomMetricValue>) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self.get() == other.get())
    }
}
