//! From a range of row numbers to a record batch.

use std::cell::OnceCell;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Date32Array, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array,
};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;

use super::categories::{age_band, schooling};
use super::column::Column;
use super::model::{MODEL, Model, YOUNGEST, birth_date, marital_condition, occupation_condition};
use super::persons::{owner, person_id};
use super::random::Draws;
use super::table::CensusOptions;
use super::work::{Earner, Job, hours_condition};

/// Purposes of draws: a column's values, whether its cells are missing, and who owns a row.
const MISSING: u64 = 100;
const BLOCKS: u64 = 200;

/// Generates any range of rows, of the columns that were asked for.
#[derive(Debug)]
pub(super) struct Generator {
    seed: u64,
    /// A cell is missing when its 53-bit draw is below this.
    missing_below: u64,
    columns: Vec<Column>,
    schema: SchemaRef,
}

impl Generator {
    /// `schema` is the schema of `columns`.
    pub(super) fn new(options: CensusOptions, columns: Vec<Column>, schema: SchemaRef) -> Self {
        Self {
            seed: options.seed,
            missing_below: (options.missing * 2f64.powi(53)) as u64,
            columns,
            schema,
        }
    }

    /// The columns as they leave.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows from `first` on.
    pub(super) fn batch(&self, first: u64, rows: usize) -> Result<RecordBatch, ArrowError> {
        let draft = Draft::new(self, first, rows);
        let columns =
            self.columns.iter().map(|column| draft.array(*column)).collect::<Result<_, _>>()?;
        // Without a column (`SELECT count(*)`) the batch would not know its number of rows.
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

/// One batch in the making: codes of the columns computed so far.
///
/// A column asks for the columns it depends on, which are computed once, on first use; so a projection
/// costs exactly what it needs.
///
/// ```text
/// age ─┬► sex ─┬► marital_status ─────────────┐
///      │       ├► occupation ─► workclass ─► hours ─► salary_class
///      ├► education ──┘                            race ─► native_country ─► zip
///      └► birth_date
/// ```
///
/// Columns of the person are drawn at the owner's row, columns of the job at the row itself.
struct Draft<'a> {
    generator: &'a Generator,
    model: &'static Model,
    first: u64,
    rows: usize,
    owners: OnceCell<Vec<u64>>,
    age: OnceCell<Vec<u8>>,
    sex: OnceCell<Vec<u8>>,
    race: OnceCell<Vec<u8>>,
    marital_status: OnceCell<Vec<u8>>,
    education: OnceCell<Vec<u8>>,
    native_country: OnceCell<Vec<u8>>,
    workclass: OnceCell<Vec<u8>>,
    occupation: OnceCell<Vec<u8>>,
    hours: OnceCell<Vec<u8>>,
}

impl<'a> Draft<'a> {
    fn new(generator: &'a Generator, first: u64, rows: usize) -> Self {
        Self {
            generator,
            model: &MODEL,
            first,
            rows,
            owners: OnceCell::new(),
            age: OnceCell::new(),
            sex: OnceCell::new(),
            race: OnceCell::new(),
            marital_status: OnceCell::new(),
            education: OnceCell::new(),
            native_country: OnceCell::new(),
            workclass: OnceCell::new(),
            occupation: OnceCell::new(),
            hours: OnceCell::new(),
        }
    }

    fn array(&self, column: Column) -> Result<ArrayRef, ArrowError> {
        match column {
            Column::Age => Ok(self.integers(column, self.age())),
            Column::Sex => self.labels(column, self.sex()),
            Column::Race => self.labels(column, self.race()),
            Column::MaritalStatus => self.labels(column, self.marital_status()),
            Column::Education => self.labels(column, self.education()),
            Column::NativeCountry => self.labels(column, self.native_country()),
            Column::Workclass => self.labels(column, self.workclass()),
            Column::Occupation => self.labels(column, self.occupation()),
            Column::HoursPerWeek => Ok(self.integers(column, self.hours())),
            Column::SalaryClass => self.labels(column, &self.salary_class()),
            Column::Zip => self.labels(column, &self.zip()),
            Column::BirthDate => Ok(self.birth_dates()),
            Column::PersonId => Ok(self.person_ids()),
        }
    }

    // --- draws -----------------------------------------------------------------------------------

    fn draws(&self, purpose: u64) -> Draws {
        Draws::new(self.generator.seed, purpose)
    }

    fn row_numbers(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.first;
        (0..self.rows as u64).map(move |row| first + row)
    }

    fn owners(&self) -> &[u64] {
        self.owners.get_or_init(|| {
            let blocks = self.draws(BLOCKS);
            self.row_numbers().map(|row| owner(blocks, row)).collect()
        })
    }

    fn of_persons(&self, column: Column) -> impl Iterator<Item = u32> {
        let draws = self.draws(column as u64);
        let high = move |owner: &u64| (draws.at(*owner) >> 32) as u32;
        self.owners().iter().map(high)
    }

    fn of_rows(&self, column: Column) -> impl Iterator<Item = u32> + use<> {
        let draws = self.draws(column as u64);
        self.row_numbers().map(move |row| (draws.at(row) >> 32) as u32)
    }

    // --- codes -----------------------------------------------------------------------------------

    fn age(&self) -> &[u8] {
        self.age.get_or_init(|| {
            self.of_persons(Column::Age)
                .map(|draw| YOUNGEST + self.model.age.pick(0, draw) as u8)
                .collect()
        })
    }

    fn sex(&self) -> &[u8] {
        self.sex.get_or_init(|| {
            let draws = self.of_persons(Column::Sex);
            let pick = |(draw, age)| self.model.sex.pick(age_band(age), draw) as u8;
            draws.zip(self.age().iter().copied()).map(pick).collect()
        })
    }

    fn race(&self) -> &[u8] {
        self.race.get_or_init(|| {
            self.of_persons(Column::Race).map(|draw| self.model.race.pick(0, draw) as u8).collect()
        })
    }

    fn marital_status(&self) -> &[u8] {
        self.marital_status.get_or_init(|| {
            self.of_persons(Column::MaritalStatus)
                .zip(self.age().iter().zip(self.sex()))
                .map(|(draw, (age, sex))| {
                    let condition = marital_condition(*sex, age_band(*age));
                    self.model.marital_status.pick(condition, draw) as u8
                })
                .collect()
        })
    }

    fn education(&self) -> &[u8] {
        self.education.get_or_init(|| {
            let draws = self.of_persons(Column::Education);
            let pick = |(draw, age)| self.model.education.pick(age_band(age), draw) as u8;
            draws.zip(self.age().iter().copied()).map(pick).collect()
        })
    }

    fn native_country(&self) -> &[u8] {
        self.native_country.get_or_init(|| {
            self.of_persons(Column::NativeCountry)
                .zip(self.race())
                .map(|(draw, race)| self.model.native_country.pick(usize::from(*race), draw) as u8)
                .collect()
        })
    }

    fn occupation(&self) -> &[u8] {
        self.occupation.get_or_init(|| {
            self.of_rows(Column::Occupation)
                .zip(self.education().iter().zip(self.sex()))
                .map(|(draw, (education, sex))| {
                    let condition = occupation_condition(*sex, schooling(*education));
                    self.model.occupation.pick(condition, draw) as u8
                })
                .collect()
        })
    }

    fn workclass(&self) -> &[u8] {
        self.workclass.get_or_init(|| {
            self.of_rows(Column::Workclass)
                .zip(self.occupation())
                .map(|(draw, occupation)| {
                    self.model.workclass.pick(usize::from(*occupation), draw) as u8
                })
                .collect()
        })
    }

    fn hours(&self) -> &[u8] {
        self.hours.get_or_init(|| {
            let (occupation, workclass) = (self.occupation(), self.workclass());
            let (age, sex) = (self.age(), self.sex());
            self.of_rows(Column::HoursPerWeek)
                .enumerate()
                .map(|(row, draw)| {
                    let condition = hours_condition(Job {
                        occupation: occupation[row],
                        workclass: workclass[row],
                        age: age[row],
                        sex: sex[row],
                    });
                    self.model.hours.pick(condition, draw) as u8 + 1
                })
                .collect()
        })
    }

    fn salary_class(&self) -> Vec<u8> {
        let (education, age, hours) = (self.education(), self.age(), self.hours());
        let (sex, marital_status) = (self.sex(), self.marital_status());
        let occupation = self.occupation();
        self.of_rows(Column::SalaryClass)
            .enumerate()
            .map(|(row, draw)| {
                let earner = Earner {
                    education: education[row],
                    age: age[row],
                    hours: hours[row],
                    sex: sex[row],
                    marital_status: marital_status[row],
                    occupation: occupation[row],
                };
                self.model.salaries.pick(earner, draw)
            })
            .collect()
    }

    fn zip(&self) -> Vec<u32> {
        let draws = self.draws(Column::Zip as u64);
        self.owners()
            .iter()
            .zip(self.race().iter().zip(self.native_country()))
            .map(|(owner, (race, country))| {
                self.model.places.pick(*race, *country, draws.at(*owner))
            })
            .collect()
    }

    // --- arrays ----------------------------------------------------------------------------------

    fn nulls(&self, column: Column) -> Option<NullBuffer> {
        let below = self.generator.missing_below;
        if below == 0 {
            return None;
        }
        let draws = self.draws(MISSING + column as u64);
        let present = |row| draws.at(self.first + row as u64) >> 11 >= below;
        Some(NullBuffer::new(BooleanBuffer::collect_bool(self.rows, present)))
    }

    /// Labels for codes. `take` copies 16-byte views and shares the text behind them.
    fn labels<T: Copy + Into<u32>>(
        &self,
        column: Column,
        codes: &[T],
    ) -> Result<ArrayRef, ArrowError> {
        let codes: Vec<u32> = codes.iter().map(|code| (*code).into()).collect();
        let codes = UInt32Array::new(codes.into(), self.nulls(column));
        take(self.model.labels(column), &codes, None)
    }

    fn integers(&self, column: Column, values: &[u8]) -> ArrayRef {
        let values: Vec<i32> = values.iter().map(|value| i32::from(*value)).collect();
        Arc::new(Int32Array::new(values.into(), self.nulls(column)))
    }

    fn birth_dates(&self) -> ArrayRef {
        let dates: Vec<i32> = self
            .of_persons(Column::BirthDate)
            .zip(self.age())
            .map(|(draw, age)| birth_date(*age, draw))
            .collect();
        Arc::new(Date32Array::new(dates.into(), self.nulls(Column::BirthDate)))
    }

    fn person_ids(&self) -> ArrayRef {
        let seed = self.generator.seed;
        let ids = self.owners().iter().map(|owner| person_id(seed, *owner));
        Arc::new(Int64Array::from_iter_values(ids))
    }
}
