//! The society that the rows are drawn from: every table of the generator, built once per process.

use std::sync::LazyLock;

use datafusion::arrow::array::{StringViewArray, StringViewBuilder};

use super::categories::{
    AGE_BANDS, Category, EDUCATION, FEMALE, MARITAL_STATUS, OCCUPATION, RACE, SALARY_CLASS,
    SCHOOLING_LEVELS, SEX, WORKCLASS,
};
use super::column::Column;
use super::countries::NATIVE_COUNTRY;
use super::places::Places;
use super::random::Choices;
use super::work::{Salaries, hours_choices};

/// Youngest person.
pub(super) const YOUNGEST: u8 = 17;
/// Oldest person.
pub(super) const OLDEST: u8 = 90;

/// The year at whose first day people have their age.
const CENSUS_YEAR: i32 = 2026;

/// Distributions and labels. Each [`Choices`] says what it is conditioned on.
#[derive(Debug)]
pub(super) struct Model {
    /// Unconditional; outcome 0 is [`YOUNGEST`].
    pub(super) age: Choices,
    /// By age band.
    pub(super) sex: Choices,
    /// Unconditional.
    pub(super) race: Choices,
    /// By [`marital_condition`].
    pub(super) marital_status: Choices,
    /// By age band.
    pub(super) education: Choices,
    /// By race.
    pub(super) native_country: Choices,
    /// By [`occupation_condition`].
    pub(super) occupation: Choices,
    /// By occupation.
    pub(super) workclass: Choices,
    /// By [`super::work::hours_condition`].
    pub(super) hours: Choices,
    /// By score.
    pub(super) salaries: Salaries,
    /// By race and country of birth.
    pub(super) places: Places,
    labels: Vec<StringViewArray>,
}

/// The one model of the process.
pub(super) static MODEL: LazyLock<Model> = LazyLock::new(Model::new);

impl Model {
    fn new() -> Self {
        let places = Places::new();
        let labels = Column::ALL
            .iter()
            .map(|column| match categories(*column) {
                Some(categories) => label_array(categories.iter().map(|category| category.label)),
                None if *column == Column::Zip => {
                    label_array(places.codes().iter().map(String::as_str))
                }
                None => label_array(std::iter::empty()),
            })
            .collect();
        Self {
            age: Choices::new([(YOUNGEST..=OLDEST).map(age_weight).collect()]),
            sex: choices(SEX),
            race: choices(RACE),
            marital_status: choices(MARITAL_STATUS),
            education: choices(EDUCATION),
            native_country: choices(NATIVE_COUNTRY),
            occupation: choices(OCCUPATION),
            workclass: choices(WORKCLASS),
            hours: hours_choices(),
            salaries: Salaries::new(),
            places,
            labels,
        }
    }

    /// The labels of a string column, in the order of its codes; empty for other columns.
    pub(super) fn labels(&self, column: Column) -> &StringViewArray {
        &self.labels[column as usize]
    }
}

/// The categories of a column whose values can be listed in a table.
pub(super) fn categories(column: Column) -> Option<&'static [Category]> {
    match column {
        Column::Sex => Some(SEX),
        Column::Race => Some(RACE),
        Column::MaritalStatus => Some(MARITAL_STATUS),
        Column::Education => Some(EDUCATION),
        Column::NativeCountry => Some(NATIVE_COUNTRY),
        Column::Workclass => Some(WORKCLASS),
        Column::Occupation => Some(OCCUPATION),
        Column::SalaryClass => Some(SALARY_CLASS),
        Column::Age | Column::HoursPerWeek | Column::Zip | Column::BirthDate | Column::PersonId => {
            None
        }
    }
}

/// Conditions that list women first and men after them.
#[inline]
fn by_sex(sex: u8, conditions: usize, condition: usize) -> usize {
    if sex == FEMALE { condition } else { conditions + condition }
}

/// The condition for marital status.
#[inline]
pub(super) fn marital_condition(sex: u8, band: usize) -> usize {
    by_sex(sex, AGE_BANDS, band)
}

/// The condition for occupation.
#[inline]
pub(super) fn occupation_condition(sex: u8, schooling: usize) -> usize {
    by_sex(sex, SCHOOLING_LEVELS, schooling)
}

/// The date of birth, in days since 1970, of somebody of an age; `draw` picks the day.
#[inline]
pub(super) fn birth_date(age: u8, draw: u32) -> i32 {
    // Who turns `age` on the census day itself was born on 1 January, the latest day possible.
    let year = CENSUS_YEAR - i32::from(age);
    let (earliest, latest) = (days_before(year - 1) + 1, days_before(year));
    let days = (latest - earliest + 1) as u64;
    earliest + ((u64::from(draw) * days) >> 32) as i32
}

/// Days from 1970-01-01 to the first day of a year of the Gregorian calendar.
fn days_before(year: i32) -> i32 {
    let leaps = |year: i32| {
        (year - 1).div_euclid(4) - (year - 1).div_euclid(100) + (year - 1).div_euclid(400)
    };
    365 * (year - 1970) + leaps(year) - leaps(1970)
}

/// Share of an age: nearly level among the young, falling from middle age on.
fn age_weight(age: u8) -> f64 {
    1.0 / (1.0 + ((f64::from(age) - 58.0) / 11.0).exp())
}

fn choices(categories: &[Category]) -> Choices {
    let conditions = categories.first().map_or(0, |first| first.weights.len());
    Choices::new(
        (0..conditions).map(|condition| {
            categories.iter().map(|category| category.weights[condition]).collect()
        }),
    )
}

fn label_array<'a>(labels: impl Iterator<Item = &'a str> + Clone) -> StringViewArray {
    // Every batch shares this buffer and is charged for it, so it is cut to size.
    let bytes: usize = labels.clone().map(str::len).sum();
    let mut builder = StringViewBuilder::new().with_fixed_block_size(bytes.max(1) as u32);
    labels.for_each(|label| builder.append_value(label));
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_birth_span_the_year_that_gives_the_age() {
        assert_eq!(days_before(1970), 0);
        assert_eq!(days_before(2000), 10_957);
        assert_eq!(days_before(2026), 20_454);
        // Aged 20 on 2026-01-01: born from 2005-01-02 to 2006-01-01.
        assert_eq!(birth_date(20, 0), days_before(2005) + 1);
        assert_eq!(birth_date(20, u32::MAX), days_before(2006));
    }

    #[test]
    fn every_table_has_one_weight_per_condition() {
        for column in Column::ALL {
            for category in categories(column).unwrap_or_default() {
                let expected = match column {
                    Column::Sex | Column::Education => AGE_BANDS,
                    Column::MaritalStatus => 2 * AGE_BANDS,
                    Column::Occupation => 2 * SCHOOLING_LEVELS,
                    Column::NativeCountry => RACE.len(),
                    Column::Workclass => OCCUPATION.len(),
                    Column::SalaryClass => 0,
                    _ => 1,
                };
                assert_eq!(category.weights.len(), expected, "{}", category.label);
            }
        }
    }
}
