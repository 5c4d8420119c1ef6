//! The releases, one after the other and class by class.

use std::collections::HashMap;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::{Result, exec_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use foldhash::fast::FixedState;
use futures::StreamExt;

use super::fits::FitIndex;
use super::{ReleaseSpec, SeriesReportSpec};
use crate::columnar::{Cover, Covers, Runs, ValueNumbers};
use crate::measure::{ClassValues, Measure, ReleaseClasses};

/// Classes by the number that is published.
type Numbers = HashMap<i64, u32, FixedState>;

/// What was read of all releases.
pub(super) struct Releases<'a> {
    spec: &'a SeriesReportSpec,
    /// How published quasi-identifiers are read, where classes are found by them.
    pub(super) covers: Vec<Covers>,
    pub(super) releases: Vec<Release>,
    /// Cohorts are the same classes in every release.
    cohorts: Numbers,
    states: Vec<CohortState>,
    /// Numbers of sensitive values, the same in every release.
    values: Vec<ValueNumbers>,
    smallest: Option<u64>,
    /// The fewest different values and the largest share, by sensitive column.
    risks: Vec<Option<(usize, f64)>>,
    held_is_published: bool,
}

/// What was read of one release.
#[derive(Default)]
pub(super) struct Release {
    pub(super) classes: ReleaseClasses,
    /// Classes by their `class_id`.
    numbers: Numbers,
    /// What every cohort says of this release.
    nights: Vec<CohortNight>,
    /// The boxes of the classes, until they are indexed.
    boxes: Vec<(u32, Vec<Cover>)>,
    pub(super) index: FitIndex,
    /// Bits of the cohorts that do not rule out who is present, and who is absent.
    pub(super) open_to_present: Vec<u64>,
    pub(super) open_to_absent: Vec<u64>,
}

/// A cohort in one release.
#[derive(Debug, Clone, Copy, Default)]
struct CohortNight {
    is_published: bool,
    /// Its rows are those of the release before, so that they need not fit its members any more.
    is_repeated: bool,
    /// Members may be absent.
    is_held: bool,
}

/// What is known of a cohort so far.
#[derive(Debug, Clone, Copy)]
struct CohortState {
    rows: u64,
    /// The release before this one that has it, and its rows there.
    release: usize,
    digest: u128,
    is_resized: bool,
    is_divided: bool,
    held_has_changed: bool,
}

/// The class whose rows are being read.
struct OpenClass {
    number: u32,
    rows: u64,
    digest: u128,
    is_held: bool,
    is_divided: bool,
    values: Vec<Vec<u32>>,
}

impl<'a> Releases<'a> {
    pub(super) fn new(spec: &'a SeriesReportSpec, covers: Vec<Covers>) -> Self {
        Self {
            spec,
            covers,
            releases: Vec::new(),
            cohorts: Numbers::default(),
            states: Vec::new(),
            values: Vec::new(),
            smallest: None,
            risks: vec![None; spec.sensitive.len()],
            held_is_published: false,
        }
    }

    /// Reads the next release, whose rows are sorted by class.
    pub(super) async fn read(
        &mut self,
        mut rows: SendableRecordBatchStream,
        memory: &MemoryReservation,
    ) -> Result<()> {
        let number = self.releases.len();
        let Some(spec) = self.spec.releases.get(number) else {
            return datafusion::common::internal_err!("a release is not in the plan");
        };
        self.held_is_published |= spec.held.is_some();
        if self.values.is_empty() {
            let schema = rows.schema();
            let sensitive = self.spec.sensitive.iter().enumerate();
            let numbers = sensitive.map(|(column, name)| {
                ValueNumbers::new(name, schema.field(spec.sensitive + column).data_type())
            });
            self.values = numbers.collect();
        }
        let mut release = Release::default();
        release.classes.values = vec![ClassValues::default(); self.spec.sensitive.len()];
        let (of_others, mut reader) = (self.memory(), Reader::new(spec, number));
        while let Some(batch) = rows.next().await {
            reader.add(&batch?, self, &mut release)?;
            let new_cohorts = self.cohorts.capacity() * 24 + self.states.capacity() * 64;
            memory.try_resize(of_others + release.memory() + new_cohorts)?;
        }
        reader.close(self, &mut release);
        self.check_understood(&reader)?;
        if self.spec.register.is_none() {
            release = Release::default();
        }
        self.releases.push(release);
        memory.try_resize(self.memory())
    }

    fn check_understood(&self, reader: &Reader<'_>) -> Result<()> {
        for (name, unknown) in self.spec.quasi_identifiers.iter().zip(&reader.not_understood) {
            if *unknown > 0 {
                return exec_err!(
                    "series_report, release {}: column '{name}': {unknown} classes have a label that is no value, \
                     range, set or hierarchy node of the register's column: name the hierarchies that the release was \
                     made with, as in hierarchies => {{{name}: …}}, and a register of everybody who is published",
                    reader.release + 1
                );
            }
        }
        Ok(())
    }

    /// Bytes held, roughly.
    pub(super) fn memory(&self) -> usize {
        let covers: usize = self.covers.iter().map(Covers::memory).sum();
        let releases: usize = self.releases.iter().map(Release::memory).sum();
        let values: usize = self.values.iter().map(ValueNumbers::memory).sum();
        covers + releases + values + self.cohorts.capacity() * 24 + self.states.capacity() * 64
    }

    /// Indexes the boxes of all releases, now that all cohorts are known.
    pub(super) fn index(&mut self, memory: &MemoryReservation) -> Result<()> {
        let codes: Vec<u32> = self.covers.iter().map(Covers::len).collect();
        let cohorts = self.spec.cohorts.then_some(self.states.len());
        for release in &mut self.releases {
            let classes = cohorts.unwrap_or(release.classes.rows.len());
            if !codes.is_empty() {
                memory.try_grow(FitIndex::bytes(&codes, classes))?;
                release.index = FitIndex::new(&codes, classes, &release.boxes);
                release.boxes = Vec::new();
            }
            if let Some(cohorts) = cohorts {
                release.nights.resize(cohorts, CohortNight::default());
                release.open_to_present =
                    bits(&release.nights, |night| !night.is_published || night.is_repeated);
                release.open_to_absent =
                    bits(&release.nights, |night| !night.is_published || night.is_held);
            }
        }
        Ok(())
    }

    /// How many cohorts there are.
    pub(super) fn cohorts(&self) -> u32 {
        self.states.len() as u32
    }

    /// The class of this number in a release, `None` if the release has none.
    pub(super) fn class_of(&self, release: usize, published: i64) -> Option<u32> {
        if !self.spec.cohorts {
            return self.releases[release].numbers.get(&published).copied();
        }
        let class = self.cohorts.get(&published).copied();
        class.filter(|class| self.night(release, *class).is_published)
    }

    /// Whether the rows of an absent member may still be in this release.
    pub(super) fn holds_absent(&self, release: usize, cohort: u32) -> bool {
        let night = self.night(release, cohort);
        night.is_published && night.is_held
    }

    fn night(&self, release: usize, cohort: u32) -> CohortNight {
        self.releases[release].nights.get(cohort as usize).copied().unwrap_or_default()
    }

    pub(super) fn into_classes(self) -> Vec<ReleaseClasses> {
        self.releases.into_iter().map(|release| release.classes).collect()
    }

    /// What the releases tell without a register.
    pub(super) fn measures(&self) -> Vec<Measure> {
        let targets = self.spec.targets;
        let count = |is: &dyn Fn(&CohortState) -> bool| {
            let cohorts = self.spec.cohorts.then(|| self.states.iter().filter(|state| is(state)));
            cohorts.map(|cohorts| cohorts.count() as f64)
        };
        let least = targets.k.map(f64::from);
        let smallest = self.smallest.map(|rows| rows as f64);
        let large_enough = smallest.zip(least).is_some_and(|(rows, least)| rows >= least);
        let mut measures = vec![
            Measure::of_table("releases", Some(self.spec.releases.len() as f64)),
            Measure::of_table("cohorts", count(&|_| true)),
            Measure::of_table("smallest_cohort", smallest).against(least, large_enough),
            Measure::none_expected("cohorts_resized", count(&|state| state.is_resized)),
        ];
        if self.spec.cohorts && !self.spec.quasi_identifiers.is_empty() {
            let divided = count(&|state| state.is_divided);
            measures.push(Measure::none_expected("divided_cohorts", divided));
        }
        measures.push(match self.held_is_published {
            true => {
                let changed = count(&|state| state.held_has_changed);
                Measure::none_expected("held_cohorts_changed", changed)
            }
            false => Measure::of_table("held_cohorts_changed", None),
        });
        for (column, risk) in self.risks.iter().enumerate() {
            let (fewest, largest) = (risk.map(|risk| risk.0 as f64), risk.map(|risk| risk.1));
            let (l, alpha) = (targets.l.map(f64::from), targets.alpha);
            let diverse = fewest.zip(l).is_some_and(|(fewest, l)| fewest >= l);
            let within = largest.zip(alpha).is_some_and(|(share, alpha)| share <= alpha + 1e-9);
            let measure =
                |name: &'static str, found| Measure::of_table(name, found).of_column(column);
            measures.push(measure("l", fewest).against(l, diverse));
            measures.push(measure("alpha", largest).against(alpha, within));
        }
        measures
    }

    /// Takes in a class of which all rows were read.
    fn add_class(&mut self, number: usize, class: OpenClass, release: &mut Release) {
        self.smallest = Some(self.smallest.map_or(class.rows, |rows| rows.min(class.rows)));
        let at = class.number as usize;
        if release.classes.rows.len() <= at {
            release.classes.rows.resize(at + 1, 0);
        }
        release.classes.rows[at] = u32::try_from(class.rows).unwrap_or(u32::MAX);
        for (column, mut values) in class.values.into_iter().enumerate() {
            values.sort_unstable();
            let counts = values.chunk_by(|one, next| one == next);
            let counts: Vec<(u32, u32)> = counts.map(|run| (run[0], run.len() as u32)).collect();
            let most = counts.iter().map(|(_, rows)| *rows).max().unwrap_or(0);
            let share = f64::from(most) / class.rows.max(1) as f64;
            let (fewest, largest) = self.risks[column].unwrap_or((usize::MAX, 0.0));
            self.risks[column] = Some((fewest.min(counts.len()), largest.max(share)));
            release.classes.values[column].set(class.number, counts);
        }
        if self.spec.cohorts {
            let repeats = self.states[at].next(number, class.rows, class.digest, class.is_held);
            self.states[at].is_divided |= class.is_divided;
            if release.nights.len() <= at {
                release.nights.resize(at + 1, CohortNight::default());
            }
            let is_told = self.spec.releases[number].held.is_some();
            let is_held = if is_told { class.is_held } else { repeats };
            release.nights[at] =
                CohortNight { is_published: true, is_repeated: repeats || is_held, is_held };
        }
    }

    /// The number of the class that starts, in this release or, for a cohort, in all of them.
    fn number(&mut self, published: Option<i64>, release: &mut Release) -> u32 {
        let Some(published) = published else { return release.classes.rows.len() as u32 };
        let cohorts = self.spec.cohorts;
        let numbers = if cohorts { &mut self.cohorts } else { &mut release.numbers };
        let next = numbers.len() as u32;
        let number = *numbers.entry(published).or_insert(next);
        if cohorts && number as usize == self.states.len() {
            self.states.push(CohortState::default());
        }
        number
    }
}

impl Default for CohortState {
    fn default() -> Self {
        Self {
            rows: 0,
            release: usize::MAX,
            digest: 0,
            is_resized: false,
            is_divided: false,
            held_has_changed: false,
        }
    }
}

impl CohortState {
    /// Whether the cohort repeats the rows of the release before.
    fn next(&mut self, release: usize, rows: u64, digest: u128, is_held: bool) -> bool {
        let is_new = self.release == usize::MAX;
        self.is_resized |= !is_new && rows != self.rows;
        let follows = !is_new && self.release + 1 == release;
        let is_repeated = follows && digest == self.digest && rows == self.rows;
        // What the first release that is named repeats is not known.
        self.held_has_changed |= is_held && !is_repeated && release > 0;
        (self.rows, self.release, self.digest) = (rows, release, digest);
        is_repeated
    }
}

impl Release {
    fn memory(&self) -> usize {
        let boxes = self.boxes.capacity() * 32
            + self.boxes.iter().map(|(_, covers)| covers.len() * 40).sum::<usize>();
        let bits = self.open_to_present.len() + self.open_to_absent.len();
        self.classes.memory()
            + self.numbers.capacity() * 24
            + self.nights.capacity() * size_of::<CohortNight>()
            + boxes
            + bits * size_of::<u64>()
    }
}

fn bits(nights: &[CohortNight], is_set: impl Fn(&CohortNight) -> bool) -> Vec<u64> {
    let mut words = vec![0u64; nights.len().div_ceil(64)];
    for (at, night) in nights.iter().enumerate() {
        words[at / 64] |= u64::from(is_set(night)) << (at % 64);
    }
    words
}

/// Reads the rows of one release.
struct Reader<'a> {
    spec: &'a ReleaseSpec,
    release: usize,
    classes: Runs,
    /// Rows that share class and quasi-identifiers.
    tuples: Runs,
    open: Option<OpenClass>,
    /// By quasi-identifier, classes whose label is nothing that the register's values could become.
    not_understood: Vec<usize>,
}

impl<'a> Reader<'a> {
    fn new(spec: &'a ReleaseSpec, release: usize) -> Self {
        Self {
            spec,
            release,
            classes: Runs::default(),
            tuples: Runs::default(),
            open: None,
            not_understood: vec![0; spec.cells.len()],
        }
    }

    fn add(&mut self, batch: &RecordBatch, all: &mut Releases<'_>, to: &mut Release) -> Result<()> {
        let columns = batch.columns();
        let keys = &columns[..self.spec.class_keys];
        if self.spec.is_numbered && keys[0].null_count() > 0 {
            return exec_err!(
                "series_report, release {}: {} rows have no class: name the release as it was published",
                self.release + 1,
                keys[0].null_count()
            );
        }
        let digests = digests(&columns[self.spec.class_keys..self.spec.repeated_until], all)?;
        let mut values = Vec::with_capacity(all.values.len());
        for (column, numbers) in all.values.iter_mut().enumerate() {
            values.push(numbers.of(&columns[self.spec.sensitive + column])?);
        }
        let (continues, runs) = self.classes.next(keys)?;
        let breaks = self.breaks(columns, continues, &runs)?;
        let held = self.spec.held.map(|held| columns[held].as_boolean());
        for (number, run) in runs.into_iter().enumerate() {
            if number > 0 || !continues {
                self.close(all, to);
                self.open_class(batch, run.start, all, to)?;
            }
            let Some(class) = &mut self.open else { continue };
            class.rows += run.len() as u64;
            class.is_divided |= breaks.iter().any(|at| run.contains(at));
            for row in run.clone() {
                class.digest = class.digest.wrapping_add(digests.get(row).copied().unwrap_or(0));
                class.is_held |= held.is_some_and(|held| held.is_valid(row) && held.value(row));
            }
            for (class, values) in class.values.iter_mut().zip(&values) {
                class.extend_from_slice(&values[run.clone()]);
            }
        }
        Ok(())
    }

    /// Rows whose quasi-identifiers are others than those of the row before, in the same class.
    fn breaks(
        &mut self,
        columns: &[ArrayRef],
        continues: bool,
        runs: &[std::ops::Range<usize>],
    ) -> Result<Vec<usize>> {
        if !self.spec.is_numbered || self.spec.cells.is_empty() {
            return Ok(Vec::new());
        }
        let (tuple_continues, tuples) = self.tuples.next(&columns[..self.spec.sensitive])?;
        let starts = tuples.iter().map(|run| run.start);
        let of_tuples = starts.filter(|start| *start > 0 || !tuple_continues);
        let is_class = |start: &usize| {
            (*start > 0 || !continues) && runs.binary_search_by_key(start, |run| run.start).is_ok()
        };
        Ok(of_tuples.filter(|start| !is_class(start)).collect())
    }

    fn open_class(
        &mut self,
        batch: &RecordBatch,
        row: usize,
        all: &mut Releases<'_>,
        to: &mut Release,
    ) -> Result<()> {
        let published =
            self.spec.is_numbered.then(|| batch.column(0).as_primitive::<Int64Type>().value(row));
        let number = all.number(published, to);
        if !all.covers.is_empty() {
            let mut covers = Vec::with_capacity(all.covers.len());
            for (column, (cell, of)) in self.spec.cells.iter().zip(&mut all.covers).enumerate() {
                let cells = &batch.columns()[cell.keys.clone()];
                let cells: Vec<ArrayRef> = cells.iter().map(|cells| cells.slice(row, 1)).collect();
                let cover = of.of(cell.form, &cells)?.pop().flatten();
                self.not_understood[column] += usize::from(cover.is_none());
                covers.push(cover.unwrap_or_default());
            }
            to.boxes.push((number, covers));
        }
        self.open = Some(OpenClass {
            number,
            rows: 0,
            digest: 0,
            is_held: false,
            is_divided: false,
            values: vec![Vec::new(); all.values.len()],
        });
        Ok(())
    }

    fn close(&mut self, all: &mut Releases<'_>, to: &mut Release) {
        if let Some(class) = self.open.take() {
            all.add_class(self.release, class, to);
        }
    }
}

/// A hash of every row, so that the sum over a cohort tells whether its rows are the same. Empty without cohorts.
fn digests(columns: &[ArrayRef], all: &Releases<'_>) -> Result<Vec<u128>> {
    let rows = columns.first().map_or(0, |column| column.len());
    if !all.spec.cohorts || rows == 0 {
        return Ok(Vec::new());
    }
    let (mut high, mut low) = (vec![0u64; rows], vec![0u64; rows]);
    create_hashes(columns, &RandomState::with_seed(1), &mut high)?;
    create_hashes(columns, &RandomState::with_seed(2), &mut low)?;
    Ok(high
        .into_iter()
        .zip(low)
        .map(|(high, low)| u128::from(high) << 64 | u128::from(low))
        .collect())
}
