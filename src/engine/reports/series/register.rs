//! The persons of a register, and what every release shows of them.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::{Result, exec_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::StreamExt;

use super::fits::set_bits;
use super::releases::Releases;
use super::{RegisterSpec, SeriesReportSpec};
use crate::columnar::Runs;
use crate::measure::{Histories, UNPUBLISHED};

/// Reads a register, which is sorted by person and release.
pub(super) struct Persons<'a, 'r> {
    spec: &'a SeriesReportSpec,
    releases: &'a mut Releases<'r>,
    histories: Histories,
    runs: Runs,
    open: Option<Person>,
    rows: u64,
    unplaced: u64,
    words: Vec<u64>,
    classes: Vec<u32>,
}

/// The rows of one person, by release.
struct Person {
    is_present: Vec<bool>,
    /// The number of the class, where the register names it.
    classes: Vec<Option<i64>>,
    /// The codes of the quasi-identifiers, release by release, where classes are found by them.
    codes: Vec<u32>,
}

impl<'a, 'r> Persons<'a, 'r> {
    pub(super) fn new(spec: &'a SeriesReportSpec, releases: &'a mut Releases<'r>) -> Self {
        Self {
            spec,
            releases,
            histories: Histories::new(spec.releases.len()),
            runs: Runs::default(),
            open: None,
            rows: 0,
            unplaced: 0,
            words: Vec::new(),
            classes: Vec::new(),
        }
    }

    pub(super) async fn read(
        &mut self,
        mut rows: SendableRecordBatchStream,
        memory: &MemoryReservation,
    ) -> Result<()> {
        let before = memory.size();
        while let Some(batch) = rows.next().await {
            self.add(&batch?)?;
            memory.try_resize(before + self.histories.memory())?;
        }
        self.close();
        memory.try_resize(before + self.histories.memory())
    }

    /// The histories, and the share of the rows that are in no class.
    pub(super) fn finish(self) -> (Histories, Option<f64>) {
        let share = (self.rows > 0).then(|| self.unplaced as f64 / self.rows as f64);
        (self.histories, share)
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let person = batch.column(0);
        if person.logical_null_count() > 0 {
            return exec_err!(
                "series_report, the register: {} rows have no person: leave them out, or name their persons",
                person.logical_null_count()
            );
        }
        let releases = self.release_numbers(batch.column(1))?;
        let codes = match &self.spec.register {
            Some(RegisterSpec::Fits(_)) => self.codes(&batch.columns()[2..])?,
            _ => Vec::new(),
        };
        let (continues, runs) = self.runs.next(std::slice::from_ref(person))?;
        for (number, run) in runs.into_iter().enumerate() {
            if number > 0 || !continues {
                self.close();
            }
            for row in run {
                self.add_row(batch, row, releases[row], &codes)?;
            }
        }
        Ok(())
    }

    /// From 0, as in the order in which the releases are named.
    fn release_numbers(&self, column: &ArrayRef) -> Result<Vec<usize>> {
        let all = self.spec.releases.len();
        let number = |number: Option<i64>| {
            let number = usize::try_from(number?).ok()?.checked_sub(1)?;
            (number < all).then_some(number)
        };
        let numbers: Vec<Option<usize>> =
            column.as_primitive::<Int64Type>().iter().map(number).collect();
        let wrong = numbers.iter().filter(|number| number.is_none()).count();
        if wrong > 0 {
            return exec_err!(
                "series_report, the register: {wrong} rows have a release that is not between 1 and {all}: write 1 for \
                 the first release that is named, 2 for the next, and leave out rows of other nights"
            );
        }
        Ok(numbers.into_iter().flatten().collect())
    }

    /// The codes of the quasi-identifiers, column by column.
    fn codes(&mut self, columns: &[ArrayRef]) -> Result<Vec<Vec<u32>>> {
        let covers = self.releases.covers.iter_mut().zip(columns);
        Ok(covers.map(|(covers, values)| covers.codes(values)).collect::<crate::Result<_>>()?)
    }

    fn add_row(
        &mut self,
        batch: &RecordBatch,
        row: usize,
        release: usize,
        codes: &[Vec<u32>],
    ) -> Result<()> {
        let all = self.spec.releases.len();
        let person = self.open.get_or_insert_with(|| Person {
            is_present: vec![false; all],
            classes: vec![None; all],
            codes: vec![0; all * codes.len()],
        });
        if std::mem::replace(&mut person.is_present[release], true) {
            return exec_err!(
                "series_report, the register: somebody has several rows in release {}: keep one row for each person and \
                 release",
                release + 1
            );
        }
        self.rows += 1;
        match codes {
            [] => {
                let classes = batch.column(2).as_primitive::<Int64Type>();
                person.classes[release] = classes.is_valid(row).then(|| classes.value(row));
            }
            codes => {
                let own = &mut person.codes[release * codes.len()..];
                own.iter_mut().zip(codes).for_each(|(own, codes)| *own = codes[row]);
            }
        }
        Ok(())
    }

    fn close(&mut self) {
        let Some(person) = self.open.take() else { return };
        match (&self.spec.register, self.spec.cohorts) {
            (Some(RegisterSpec::Fits(_)), true) => self.add_by_cohort(&person),
            (Some(RegisterSpec::Fits(_)), false) => self.add_by_fit(&person),
            _ => self.add_by_class(&person),
        }
    }

    /// The class of every release is known. Where a cohort is held, the rows of who is absent are still there.
    fn add_by_class(&mut self, person: &Person) {
        let mut last = None;
        for release in 0..self.spec.releases.len() {
            let named = person.classes[release];
            let mut class = named.and_then(|class| self.releases.class_of(release, class));
            self.unplaced += u64::from(class.is_none() && person.is_present[release]);
            if self.spec.cohorts && class.is_none() {
                class = last.filter(|cohort| self.releases.holds_absent(release, *cohort));
            }
            last = class.or(last);
            let set = match class {
                Some(class) => self.histories.sets.number(&[class]),
                None => UNPUBLISHED,
            };
            self.histories.push([set]);
        }
    }

    /// Every class that the person fits, release by release.
    fn add_by_fit(&mut self, person: &Person) {
        let columns = self.releases.covers.len();
        for (release, is_present) in person.is_present.iter().enumerate() {
            self.classes.clear();
            if *is_present {
                let codes = &person.codes[release * columns..][..columns];
                self.releases.releases[release].index.fitting(codes, &mut self.words);
                set_bits(&self.words, &mut self.classes);
            }
            self.unplaced += u64::from(*is_present && self.classes.is_empty());
            let set = self.histories.sets.number(&self.classes);
            self.histories.push([set]);
        }
    }

    /// The cohorts that the person could have been in from the first release to the last.
    fn add_by_cohort(&mut self, person: &Person) {
        let columns = self.releases.covers.len();
        let mut possible: Option<Vec<u64>> = None;
        for (number, is_present) in person.is_present.iter().enumerate() {
            let release = &self.releases.releases[number];
            let open = if *is_present { &release.open_to_present } else { &release.open_to_absent };
            let possible = possible.get_or_insert_with(|| vec![u64::MAX; open.len()]);
            if *is_present {
                let codes = &person.codes[number * columns..][..columns];
                release.index.fitting(codes, &mut self.words);
                let fits = self.words.iter().zip(open).map(|(fits, open)| fits | open);
                possible.iter_mut().zip(fits).for_each(|(possible, fits)| *possible &= fits);
            } else {
                possible.iter_mut().zip(open).for_each(|(possible, open)| *possible &= open);
            }
        }
        set_bits(&possible.unwrap_or_default(), &mut self.classes);
        let cohorts = self.releases.cohorts();
        self.classes.retain(|cohort| *cohort < cohorts);
        if self.classes.is_empty() {
            self.unplaced += person.is_present.iter().filter(|present| **present).count() as u64;
        }
        let set = self.histories.sets.number(&self.classes);
        self.histories.push(std::iter::repeat_n(set, self.spec.releases.len()));
    }
}
