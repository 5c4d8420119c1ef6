//! The categories of every string column: label, groups above it, weights.
//!
//! One table per column keeps the three together, so a label cannot drift from its weight or from its
//! place in the hierarchy. The labels are those of the Adult extract of the 1994 United States census
//! (spelling mended), the weights are round numbers that follow its tendencies.

/// One value a column can take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Category {
    /// What the column holds.
    pub(super) label: &'static str,
    /// The groups it belongs to, finest first, without the `*` on top.
    pub(super) groups: &'static [&'static str],
    /// How frequent it is under each condition of its column, relative to the other categories.
    pub(super) weights: &'static [f64],
}

/// Keeps the tables below at one line per category.
pub(super) const fn category(
    label: &'static str,
    groups: &'static [&'static str],
    weights: &'static [f64],
) -> Category {
    Category { label, groups, weights }
}

/// The first age of each age band after the youngest.
const BANDS: [u8; AGE_BANDS - 1] = [22, 30, 40, 55, 70];

/// Number of age bands, which condition sex, marital status and education.
pub(super) const AGE_BANDS: usize = 6;

/// The band of an age.
pub(super) fn age_band(age: u8) -> usize {
    BANDS.iter().filter(|&&first| age >= first).count()
}

/// Weights by age band: women live longer.
#[rustfmt::skip]
pub(super) const SEX: &[Category] = &[
    category("Female", &[], &[49.0, 49.0, 50.0, 50.5, 52.0, 58.0]),
    category("Male",   &[], &[51.0, 51.0, 50.0, 49.5, 48.0, 42.0]),
];

/// The code of `Female` in [`SEX`].
pub(super) const FEMALE: u8 = 0;

/// Weights without a condition.
#[rustfmt::skip]
pub(super) const RACE: &[Category] = &[
    category("White",              &["White"],              &[76.0]),
    category("Black",              &["Black"],              &[12.0]),
    category("Asian-Pac-Islander", &["Asian-Native-Other"], &[6.0]),
    category("Amer-Indian-Eskimo", &["Asian-Native-Other"], &[1.2]),
    category("Other",              &["Asian-Native-Other"], &[4.8]),
];

const PRESENT: &[&str] = &["Spouse-present", "Married"];
const APART: &[&str] = &["Spouse-absent", "Married"];
const FORMERLY: &[&str] = &["Formerly-married", "Not-married"];
const NEVER: &[&str] = &["Never-married", "Not-married"];

/// Weights by age band, six for women, then six for men.
#[rustfmt::skip]
pub(super) const MARITAL_STATUS: &[Category] = &[
    category("Married-civ-spouse", PRESENT,
        &[7.0, 37.0, 59.0, 60.0, 56.0, 33.0,   3.0, 31.0, 60.0, 67.0, 73.0, 71.0]),
    category("Married-AF-spouse", PRESENT,
        &[0.3, 0.5, 0.2, 0.1, 0.02, 0.0,   0.02, 0.1, 0.05, 0.02, 0.01, 0.0]),
    category("Married-spouse-absent", APART,
        &[1.0, 1.6, 1.6, 1.4, 1.2, 0.9,   0.4, 1.2, 1.4, 1.3, 1.1, 0.9]),
    category("Separated", APART,
        &[0.8, 3.0, 4.5, 4.2, 2.5, 1.0,   0.3, 1.6, 2.6, 2.7, 1.9, 0.8]),
    category("Divorced", FORMERLY,
        &[0.7, 6.5, 15.0, 22.0, 18.0, 9.0,   0.2, 4.0, 12.0, 17.0, 13.0, 7.0]),
    category("Widowed", FORMERLY,
        &[0.05, 0.3, 0.9, 3.0, 15.0, 49.0,   0.01, 0.1, 0.3, 0.9, 4.0, 15.0]),
    category("Never-married", NEVER,
        &[90.0, 51.0, 19.0, 9.0, 6.0, 6.0,   96.0, 62.0, 24.0, 11.0, 6.5, 5.0]),
];

const PRIMARY: &[&str] = &["Primary-school", "No-diploma"];
const SECONDARY: &[&str] = &["Unfinished-high-school", "No-diploma"];
const DIPLOMA: &[&str] = &["High-school-graduate", "Diploma"];
const COLLEGE: &[&str] = &["Some-college-or-associate", "Diploma"];
const BACHELOR: &[&str] = &["Bachelor", "University-degree"];
const ADVANCED: &[&str] = &["Advanced-degree", "University-degree"];

/// Weights by age band, in the order of schooling: a code is also a rank.
#[rustfmt::skip]
pub(super) const EDUCATION: &[Category] = &[
    category("Preschool",    PRIMARY,   &[0.05, 0.1, 0.15, 0.15, 0.2, 0.4]),
    category("1st-4th",      PRIMARY,   &[0.1, 0.3, 0.5, 0.6, 1.0, 2.0]),
    category("5th-6th",      PRIMARY,   &[0.2, 0.7, 1.0, 1.1, 1.8, 3.0]),
    category("7th-8th",      PRIMARY,   &[0.5, 0.9, 1.2, 1.6, 3.5, 8.0]),
    category("9th",          SECONDARY, &[2.0, 1.4, 1.4, 1.5, 2.0, 3.0]),
    category("10th",         SECONDARY, &[6.0, 1.8, 1.9, 2.2, 3.5, 5.0]),
    category("11th",         SECONDARY, &[14.0, 2.5, 2.3, 2.2, 2.8, 3.0]),
    category("12th",         SECONDARY, &[6.0, 1.3, 1.0, 0.9, 1.0, 1.0]),
    category("HS-grad",      DIPLOMA,   &[30.0, 29.0, 31.0, 31.0, 36.0, 36.0]),
    category("Some-college", COLLEGE,   &[38.0, 25.0, 20.0, 19.0, 16.0, 14.0]),
    category("Assoc-voc",    COLLEGE,   &[1.5, 5.0, 5.5, 5.0, 3.0, 2.0]),
    category("Assoc-acdm",   COLLEGE,   &[1.5, 4.5, 4.5, 3.8, 2.2, 1.5]),
    category("Bachelors",    BACHELOR,  &[0.0, 22.0, 20.0, 18.0, 14.0, 11.0]),
    category("Masters",      ADVANCED,  &[0.0, 4.0, 6.0, 8.0, 8.0, 5.5]),
    category("Prof-school",  ADVANCED,  &[0.0, 0.6, 2.0, 2.2, 2.3, 2.0]),
    category("Doctorate",    ADVANCED,  &[0.0, 0.2, 1.3, 1.8, 2.2, 2.0]),
];

/// Number of schooling levels, which condition the occupation.
pub(super) const SCHOOLING_LEVELS: usize = 5;

/// The schooling level of a code of [`EDUCATION`].
pub(super) fn schooling(education: u8) -> usize {
    match education {
        0..=7 => 0,
        8 => 1,
        9..=11 => 2,
        12 => 3,
        _ => 4,
    }
}

const MANAGERIAL: &[&str] = &["Management-and-professions", "White-collar"];
const OFFICE: &[&str] = &["Office-and-sales", "White-collar"];
const SAFETY: &[&str] = &["Public-safety", "Service-work"];
const HELP: &[&str] = &["Personal-service", "Service-work"];
const INDUSTRY: &[&str] = &["Craft-and-industry", "Blue-collar"];
const HAULAGE: &[&str] = &["Transport-and-handling", "Blue-collar"];
const LAND: &[&str] = &["Agriculture", "Blue-collar"];

/// Weights by schooling level, five for women, then five for men.
#[rustfmt::skip]
pub(super) const OCCUPATION: &[Category] = &[
    category("Exec-managerial",   MANAGERIAL, &[3.0, 8.0, 12.0, 20.0, 15.0,   4.0, 8.0, 13.0, 26.0, 20.0]),
    category("Prof-specialty",    MANAGERIAL, &[1.0, 3.0, 11.0, 36.0, 68.0,   1.0, 2.5, 8.0, 26.0, 66.0]),
    category("Tech-support",      MANAGERIAL, &[0.5, 2.0, 6.0, 4.0, 2.0,   0.5, 1.5, 6.0, 5.0, 2.0]),
    category("Adm-clerical",      OFFICE,     &[12.0, 33.0, 37.0, 20.0, 7.0,   2.5, 4.5, 7.0, 6.0, 2.0]),
    category("Sales",             OFFICE,     &[12.0, 13.0, 11.0, 10.0, 3.0,   5.0, 9.0, 13.0, 17.0, 5.0]),
    category("Protective-serv",   SAFETY,     &[0.5, 1.0, 1.2, 0.7, 0.3,   1.5, 3.5, 6.0, 3.0, 1.0]),
    category("Armed-Forces",      SAFETY,     &[0.01, 0.03, 0.03, 0.02, 0.01,   0.05, 0.15, 0.1, 0.05, 0.05]),
    category("Other-service",     HELP,       &[36.0, 22.0, 13.0, 5.0, 2.0,   14.0, 8.0, 5.0, 2.5, 0.8]),
    category("Priv-house-serv",   HELP,       &[4.5, 1.2, 0.5, 0.3, 0.1,   0.3, 0.1, 0.05, 0.02, 0.01]),
    category("Craft-repair",      INDUSTRY,   &[3.5, 2.5, 1.5, 0.8, 0.3,   24.0, 29.0, 22.0, 7.0, 1.5]),
    category("Machine-op-inspct", INDUSTRY,   &[18.0, 9.0, 3.0, 0.8, 0.2,   14.0, 11.0, 5.0, 1.5, 0.3]),
    category("Transport-moving",  HAULAGE,    &[1.5, 1.0, 0.7, 0.3, 0.1,   12.0, 11.0, 6.0, 1.8, 0.4]),
    category("Handlers-cleaners", HAULAGE,    &[4.0, 2.0, 1.0, 0.4, 0.1,   14.0, 9.0, 5.0, 1.3, 0.2]),
    category("Farming-fishing",   LAND,       &[1.5, 0.8, 0.6, 0.5, 0.2,   11.0, 5.0, 3.0, 2.5, 0.8]),
];

const COMPANY: &[&str] = &["Company", "Private-sector"];
const OWN: &[&str] = &["Self-employed", "Private-sector"];
const FAMILY: &[&str] = &["Unpaid", "Private-sector"];
const GOVERNMENT: &[&str] = &["Government", "Public-sector"];

/// Weights by occupation, in the order of [`OCCUPATION`]. Everybody here works, so the extract's
/// `Never-worked`, which has no occupation, is left out.
#[rustfmt::skip]
pub(super) const WORKCLASS: &[Category] = &[
    category("Private", COMPANY,
        &[66.0, 56.0, 75.0, 75.0, 81.0, 29.0, 0.0, 84.0, 100.0, 78.0, 95.0, 81.0, 92.0, 46.0]),
    category("Self-emp-not-inc", OWN,
        &[10.0, 9.0, 3.0, 1.3, 10.0, 1.0, 0.0, 5.0, 0.0, 13.0, 2.0, 8.0, 1.5, 43.0]),
    category("Self-emp-inc", OWN,
        &[10.0, 4.0, 0.4, 0.8, 8.0, 1.0, 0.0, 1.0, 0.0, 2.5, 0.5, 2.0, 0.2, 5.0]),
    category("Without-pay", FAMILY,
        &[0.0, 0.0, 0.0, 0.1, 0.03, 0.0, 0.0, 0.1, 0.1, 0.05, 0.05, 0.05, 0.1, 0.7]),
    category("Federal-gov", GOVERNMENT,
        &[4.5, 4.2, 7.0, 8.5, 0.4, 4.5, 100.0, 1.0, 0.0, 1.6, 0.7, 1.6, 1.7, 0.8]),
    category("State-gov", GOVERNMENT,
        &[4.7, 10.0, 6.0, 6.8, 0.3, 18.0, 0.0, 3.8, 0.0, 1.4, 0.7, 2.6, 0.7, 1.5]),
    category("Local-gov", GOVERNMENT,
        &[5.2, 17.0, 4.0, 7.5, 0.2, 47.0, 0.0, 5.8, 0.0, 3.5, 0.6, 4.8, 3.5, 2.8]),
];

/// Drawn by score, not by weight. It is what one protects, so it has no groups.
pub(super) const SALARY_CLASS: &[Category] =
    &[category("<=50K", &[], &[]), category(">50K", &[], &[])];
