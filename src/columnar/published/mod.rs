//! Published quasi-identifiers, read back: the loss of each cell, computed from what it publishes.

mod cells;
mod covers;
mod losses;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Fields};

pub use cells::{LabelledCells, LabelsAbove, OriginalCells, ValueNumbers};
pub use covers::{Cover, Covers};
pub use losses::{CellLoss, CellLosses, Originals};

use super::kind::{Kind, plain_type};
use crate::error::{Error, Result};
use crate::hierarchy::TOP;

/// How a quasi-identifier was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub enum PublishedForm {
    /// Text: values, ranges, sets, hierarchy nodes, `*`.
    Labels,
    /// A struct of `lower` and `upper`.
    Bounds,
    /// Means, whose loss cannot be computed: they do not say which values they stand for.
    Means,
}

impl PublishedForm {
    /// The form that a published type must have, given the original's.
    ///
    /// Whole numbers in place of whole numbers are taken for values: means of them would be
    /// fractions. Fractions, dates and times without a range may be either and count as means.
    pub fn of(original: &DataType, published: &DataType, column: &str) -> Result<Self> {
        let kind = Kind::of(original, column)?;
        let published = plain_type(published);
        let published_kind = Kind::of(&published, column);
        match (&published, published_kind) {
            (DataType::Struct(fields), _) if kind.has_ranges() && is_bounds(fields) => {
                Ok(Self::Bounds)
            }
            (_, Ok(Kind::Text)) => Ok(Self::Labels),
            (_, Ok(_)) if kind == Kind::Text => Ok(Self::Labels),
            (_, Ok(Kind::Boolean)) if kind == Kind::Boolean => Ok(Self::Labels),
            (_, Ok(Kind::Integer))
                if kind == Kind::Integer
                    && (published.is_integer() || published == plain_type(original)) =>
            {
                Ok(Self::Labels)
            }
            (_, Ok(other)) if kind.has_ranges() && other.has_ranges() => Ok(Self::Means),
            _ => Err(Error::invalid(format!(
                "column '{column}' is of type {original} in the original and of type {published} in \
                 the published table, which is no way to publish it: name the table that was \
                 published, or cast the column to a string"
            ))),
        }
    }

    /// The type in which the published values are compared with the original's.
    pub fn compared_type(self, original: &DataType, published: &DataType) -> DataType {
        match self {
            Self::Labels => DataType::Utf8View,
            Self::Bounds => plain_type(original),
            Self::Means => plain_type(published),
        }
    }
}

/// Whether a struct has the two ends of a range.
pub fn is_bounds(fields: &Fields) -> bool {
    let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    names == ["lower", "upper"]
}

/// The type in which values are grouped: encodings removed, text as views, which are cheap to hash.
pub fn grouped_type(data_type: &DataType) -> DataType {
    match plain_type(data_type) {
        DataType::Utf8 => DataType::Utf8View,
        other => other,
    }
}

/// Whether nearer values of this type are more alike.
pub fn is_ordered(data_type: &DataType) -> bool {
    Kind::of(data_type, "").is_ok_and(Kind::has_ranges)
}

/// Adds up the loss of a published quasi-identifier.
///
/// A missing cell that is published as missing loses nothing. Bounds have one NULL for both a
/// missing cell and `*`: as many of them as the original has missing cells count as unchanged, the
/// others as `*`. That is the least the release can have lost.
///
/// ILoss also counts a missing cell that is published as `*` as unchanged, because missing is the top
/// of the hierarchy. Which of the `*` were missing is not published, but how many: as many as the
/// original has missing cells, without those published as missing and those in suppressed rows. How
/// many of the latter there are is not known unless no row was suppressed; as many as there can be
/// are taken, so that the release is never said to have lost less than it did. That is exact for
/// releases without suppressed rows, and for those in which every row with a missing cell is
/// suppressed.
#[derive(Debug)]
pub struct PublishedColumn {
    losses: CellLosses,
    form: PublishedForm,
    lost: f64,
    /// ILoss of the cells that are neither NULL nor `*`.
    incomplete_lost: f64,
    /// Levels climbed over the height of the hierarchy, summed over the cells that are neither NULL nor `*`;
    /// `None` once a cell is no node of it.
    climbed: Option<f64>,
    /// Whether a cell is a node of a hierarchy below its top.
    has_nodes: bool,
    nulls: u64,
    stars: u64,
    /// Distinct labels that are nothing the original's values could become.
    unknown: usize,
}

impl PublishedColumn {
    /// A column of which no cell was seen yet.
    pub fn new(losses: CellLosses, form: PublishedForm) -> Self {
        Self {
            losses,
            form,
            lost: 0.0,
            incomplete_lost: 0.0,
            climbed: Some(0.0),
            has_nodes: false,
            nulls: 0,
            stars: 0,
            unknown: 0,
        }
    }

    /// Takes in distinct published values, each with the number of its rows. Bounds come as two
    /// columns.
    pub fn add(&mut self, values: &[ArrayRef], rows: &[i64]) -> Result<()> {
        match (self.form, values) {
            (PublishedForm::Labels, [labels]) => {
                self.add_labels(labels, rows);
                Ok(())
            }
            (PublishedForm::Bounds, [lower, upper]) => self.add_bounds(lower, upper, rows),
            (PublishedForm::Means, _) => Ok(()),
            _ => Err(Error::bug("a published column has the wrong number of parts")),
        }
    }

    /// How many values of the column each of these published cells stands for, `None` where the form
    /// does not tell it. Bounds come as two columns.
    pub fn points(&self, values: &[ArrayRef]) -> Result<Option<Vec<f64>>> {
        let covered = |loss: Option<CellLoss>| self.losses.covered(loss);
        match (self.form, values) {
            (PublishedForm::Labels, [labels]) => {
                let cell = |label: Option<&str>| match label {
                    // A missing cell is one value.
                    None => 1.0,
                    Some(label) => covered(self.losses.label(label)),
                };
                Ok(Some(labels.as_string_view().iter().map(cell).collect()))
            }
            (PublishedForm::Bounds, [lower, upper]) => {
                let losses = self.losses.bounds(lower, upper)?;
                Ok(Some(losses.into_iter().map(covered).collect()))
            }
            (PublishedForm::Means, _) => Ok(None),
            _ => Err(Error::bug("a published column has the wrong number of parts")),
        }
    }

    fn add_labels(&mut self, labels: &ArrayRef, rows: &[i64]) {
        for (label, rows) in labels.as_string_view().iter().zip(rows) {
            match label.map(|label| (label, self.losses.label(label))) {
                Some((TOP, _)) => {
                    self.lost += *rows as f64;
                    self.stars += rows.unsigned_abs();
                }
                Some((_, Some(loss))) => self.add_loss(loss, *rows),
                Some((_, None)) => self.unknown += 1,
                None => self.nulls += rows.unsigned_abs(),
            }
        }
    }

    fn add_bounds(&mut self, lower: &ArrayRef, upper: &ArrayRef, rows: &[i64]) -> Result<()> {
        for (loss, rows) in self.losses.bounds(lower, upper)?.into_iter().zip(rows) {
            match loss {
                Some(loss) => self.add_loss(loss, *rows),
                None => self.nulls += rows.unsigned_abs(),
            }
        }
        Ok(())
    }

    fn add_loss(&mut self, loss: CellLoss, rows: i64) {
        self.lost += loss.ncp * rows as f64;
        self.incomplete_lost += loss.iloss * rows as f64;
        self.has_nodes |= loss.climbed.is_some_and(|climbed| climbed > 0.0);
        let climbed = self.climbed.zip(loss.climbed);
        self.climbed = climbed.map(|(sum, climbed)| sum + climbed * rows as f64);
    }

    /// Whether a hierarchy was named.
    pub fn has_hierarchy(&self) -> bool {
        self.losses.has_hierarchy()
    }

    /// Whether a cell publishes a node of a hierarchy, named or made by the column's type.
    pub fn has_nodes(&self) -> bool {
        self.has_nodes
    }

    /// Levels climbed over the height of the hierarchy, summed over all cells; `*` is at the top, and without a
    /// hierarchy one step above the value. `None` where that is not told: by means, and by ranges and sets
    /// that are no node of a hierarchy. Where none was named, that is the one made of numbers for methods that need one.
    pub fn climbed(&self) -> Option<f64> {
        let told = self.climbed.filter(|_| self.form != PublishedForm::Means);
        told.map(|climbed| climbed + (self.stars + self.hidden()) as f64)
    }

    /// NULL that is no missing cell, but `*`.
    fn hidden(&self) -> u64 {
        match self.form {
            PublishedForm::Labels => 0,
            _ => self.nulls.saturating_sub(self.losses.missing()),
        }
    }

    /// Missing cells of the original.
    pub fn missing(&self) -> u64 {
        self.losses.missing()
    }

    /// ILoss summed over the published cells when `suppressed` rows are not published, `None` where
    /// the form does not tell it.
    pub fn incomplete_lost(&self, suppressed: u64) -> Option<f64> {
        let tops = self.stars + self.nulls;
        let shown_missing = if self.form == PublishedForm::Labels { self.nulls } else { 0 };
        let missing = self.missing().saturating_sub(suppressed).max(shown_missing).min(tops);
        let told = self.form != PublishedForm::Means;
        told.then(|| self.incomplete_lost + (tops - missing) as f64)
    }

    /// The loss summed over all cells, `None` where the form does not tell it.
    pub fn lost(&self) -> Result<Option<f64>> {
        if self.unknown > 0 {
            let (name, unknown) = (self.losses.name(), self.unknown);
            return Err(Error::invalid(format!(
                "column '{name}': {unknown} distinct published labels are no value, range, set or \
                 hierarchy node of the original column: name the original of this release and the \
                 hierarchies it was made with, as in hierarchies => {{{name}: …}}"
            )));
        }
        Ok((self.form != PublishedForm::Means).then_some(self.lost + self.hidden() as f64))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringViewArray};

    use super::*;
    use crate::columnar::domain::ResolvedHierarchy;

    fn ages(missing: i64) -> Result<CellLosses> {
        let mut originals = Originals::new("age", &DataType::Int64);
        let values: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(20), Some(60)]));
        originals.add(&values, &[missing, 1, 1])?;
        originals.into_losses(None)
    }

    #[test]
    fn the_types_tell_the_form() {
        use DataType::{Boolean, Date32, Float64, Int32, Int64, Utf8};
        let bounds = DataType::Struct(
            ["lower", "upper"]
                .map(|name| arrow::datatypes::Field::new(name, Int64, true))
                .to_vec()
                .into(),
        );
        let dictionary = DataType::Dictionary(Box::new(Int32), Box::new(Utf8));
        let form = |original: &DataType, published: &DataType| {
            PublishedForm::of(original, published, "column").ok()
        };
        assert_eq!(form(&Int64, &dictionary), Some(PublishedForm::Labels));
        assert_eq!(form(&Int64, &bounds), Some(PublishedForm::Bounds));
        assert_eq!(form(&Int64, &Float64), Some(PublishedForm::Means));
        assert_eq!(form(&Int64, &Int32), Some(PublishedForm::Labels));
        assert_eq!(form(&Date32, &Date32), Some(PublishedForm::Means));
        assert_eq!(form(&Boolean, &Boolean), Some(PublishedForm::Labels));
        assert_eq!(form(&Utf8, &Int64), Some(PublishedForm::Labels));
        assert_eq!(form(&Utf8, &bounds), None);
        assert_eq!(form(&Boolean, &Float64), None);
    }

    #[test]
    fn null_bounds_beyond_the_missing_cells_are_stars() -> Result<()> {
        let ends: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(20)]));
        for (missing, lost) in [(5, 0.0), (4, 0.0), (1, 3.0), (0, 4.0)] {
            let mut column = PublishedColumn::new(ages(missing)?, PublishedForm::Bounds);
            column.add(&[Arc::clone(&ends), Arc::clone(&ends)], &[4, 2])?;
            assert_eq!(column.lost()?, Some(lost), "{missing}");
            assert_eq!(column.climbed(), Some(lost), "{missing}");
        }
        Ok(())
    }

    #[test]
    fn cells_climb_to_nodes_of_a_hierarchy_and_nowhere_else() -> Result<()> {
        let mut originals = Originals::new("age", &DataType::Int64);
        let values: ArrayRef = Arc::new(Int64Array::from(vec![20, 24, 28, 60]));
        originals.add(&values, &[1, 1, 1, 1])?;
        let intervals = ResolvedHierarchy::Intervals(vec!["5".to_owned(), "10".to_owned()]);
        let mut column =
            PublishedColumn::new(originals.into_losses(Some(&intervals))?, PublishedForm::Labels);
        let labels: ArrayRef = Arc::new(StringViewArray::from(vec![
            Some("20"),
            Some("[20-24]"),
            Some("[20-29]"),
            Some("*"),
            None,
        ]));
        // Of three levels 0, 1, 2 and 3; a missing cell stays.
        column.add(&[labels], &[5, 1, 2, 4, 7])?;
        let climbed = column.climbed().unwrap_or(f64::NAN);
        assert!(column.has_hierarchy() && (climbed - (1.0 + 2.0 * 2.0) / 3.0 - 4.0).abs() < 1e-12);
        let range: ArrayRef = Arc::new(StringViewArray::from(vec![Some("[20-28]")]));
        column.add(&[range], &[1])?;
        assert_eq!(column.climbed(), None);
        Ok(())
    }

    #[test]
    fn aligned_ranges_climb_in_the_hierarchy_that_nobody_had_to_name() -> Result<()> {
        // Intervals of 5, 10 and 50, then everything.
        let mut originals = Originals::new("age", &DataType::Int64);
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(17..=90));
        originals.add(&values, &[1; 74])?;
        let mut column = PublishedColumn::new(originals.into_losses(None)?, PublishedForm::Labels);
        let labels =
            |labels: [&str; 4]| -> ArrayRef { Arc::new(StringViewArray::from_iter_values(labels)) };
        column.add(&[labels(["20", "*", "*", "*"])], &[3, 1, 0, 0])?;
        assert_eq!((column.climbed(), column.has_nodes()), (Some(1.0), false));
        column.add(&[labels(["[20-24]", "[20-29]", "[0-49]", "*"])], &[4, 2, 4, 1])?;
        assert_eq!(
            (column.climbed(), column.has_nodes()),
            (Some(1.0 + 1.0 + 1.0 + 3.0 + 1.0), true)
        );
        column.add(&[labels(["[21-25]", "20", "20", "20"])], &[1, 0, 0, 0])?;
        assert_eq!(column.climbed(), None, "not aligned");
        Ok(())
    }

    #[test]
    fn labels_nobody_understands_are_counted_and_not_shown() -> Result<()> {
        let mut column = PublishedColumn::new(ages(0)?, PublishedForm::Labels);
        let labels: ArrayRef = Arc::new(StringViewArray::from(vec![
            Some("[20-60]"),
            Some("[secret]"),
            Some("[60-20]"),
            None,
        ]));
        column.add(&[labels], &[2, 1, 1, 1])?;
        let message = column.lost().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains("'age': 2 distinct"), "{message}");
        assert!(!message.contains("secret"), "{message}");
        Ok(())
    }

    /// Ages 20 and 60, so 41 values; two rows of [20-60], three of `*` and one of NULL.
    #[test]
    fn stars_that_were_missing_have_lost_nothing() -> Result<()> {
        let labels: ArrayRef =
            Arc::new(StringViewArray::from(vec![Some("[20-60]"), Some("*"), None]));
        for (missing, suppressed, stars) in
            [(1, 0, 3.0), (3, 0, 1.0), (4, 0, 0.0), (3, 2, 3.0), (5, 2, 1.0), (9, 0, 0.0)]
        {
            let mut column = PublishedColumn::new(ages(missing)?, PublishedForm::Labels);
            column.add(&[Arc::clone(&labels)], &[2, 3, 1])?;
            let lost = column.incomplete_lost(suppressed);
            assert_eq!(lost, Some(2.0 + stars), "{missing} missing, {suppressed} suppressed");
            assert_eq!(column.lost()?, Some(5.0), "NCP does not know");
        }
        let ends: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(20)]));
        for (missing, suppressed, nulls) in [(0, 0, 4.0), (3, 0, 1.0), (3, 1, 2.0), (9, 0, 0.0)] {
            let mut column = PublishedColumn::new(ages(missing)?, PublishedForm::Bounds);
            column.add(&[Arc::clone(&ends), Arc::clone(&ends)], &[4, 2])?;
            assert_eq!(column.incomplete_lost(suppressed), Some(nulls), "{missing}");
        }
        Ok(())
    }

    #[test]
    fn means_tell_nothing() -> Result<()> {
        let mut column = PublishedColumn::new(ages(0)?, PublishedForm::Means);
        column.add(&[], &[])?;
        assert_eq!(column.lost()?, None);
        assert_eq!(column.incomplete_lost(0), None);
        assert_eq!(column.climbed(), None);
        Ok(())
    }
}
