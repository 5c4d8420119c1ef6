//! All values of a column: their order, their codes and how they are written.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::make_comparator;
use arrow::array::{Array, ArrayRef, StringArray, UInt32Array};
use arrow::compute::{SortOptions, cast, concat, rank, sort_to_indices, take};
use arrow::datatypes::DataType;

use super::automatic::{Automatic, exact_steps, float_steps};
use super::intern::{Interner, MISSING};
use super::kernel_failed;
use super::kind::Kind;
use super::levels::ModelledValues;
use super::values::{
    decimal_scale, exact, instants, positions, scaled, write, written_date, written_decimal,
};
use crate::error::{Error, Result};
use crate::hierarchy::{
    Axis, DateStep, LabelTable, Levels, Shape, Tree, date_steps, float_intervals, intervals,
    prefixes,
};

/// A hierarchy whose labels are at hand.
#[derive(Debug, Clone, PartialEq)]
pub enum ResolvedHierarchy {
    /// Aligned steps, as numbers were written in the options.
    Intervals(Vec<String>),
    /// Kept characters.
    Prefixes(Vec<usize>),
    /// Calendar units.
    Dates(Vec<DateStep>),
    /// A table of labels.
    Labels(Arc<LabelTable>),
    /// Chosen by the column's type.
    Automatic(Automatic),
}

/// The distinct values of one quasi-identifier in code order.
#[derive(Debug)]
pub struct Domain {
    /// The column's name.
    pub name: String,
    /// What the column's type means.
    pub kind: Kind,
    /// What the methods see.
    pub axis: Axis,
    /// The values in code order, without the missing one, encodings removed.
    pub values: ArrayRef,
    /// How each value is written.
    pub written: StringArray,
}

/// Final codes of the provisional numbers of one reader.
pub(super) type Remap = Vec<u32>;

impl Domain {
    /// Orders the values that several readers numbered, and gives each reader its translation.
    pub(super) fn new(
        name: &str,
        data_type: &DataType,
        interners: &[&Interner],
        hierarchy: Option<&ResolvedHierarchy>,
    ) -> Result<(Self, Vec<Remap>)> {
        let kind = Kind::of(data_type, name)?;
        let missing = interners.iter().any(|interner| interner.has_missing());
        let sorted = SortedValues::new(name, interners)?;
        let (axis, order) = match hierarchy {
            Some(hierarchy) => {
                let (levels, listed) = sorted.levels(name, kind, hierarchy)?;
                let (tree, order) = Tree::new(&levels, listed.len(), missing);
                let order = order.into_iter().map(|at| listed[at as usize]).collect();
                (Axis::tree(tree, missing), order)
            }
            None => {
                let order: Vec<u32> = (0..sorted.values.len() as u32).collect();
                let axis = match kind {
                    Kind::Text | Kind::Boolean => Axis::set(order.len(), missing),
                    _ => Axis::line(&positions(&sorted.values, name)?, missing),
                };
                (axis, order)
            }
        };
        let remaps = sorted.remaps(&order, missing);
        let order = UInt32Array::from(order);
        let values = take(&sorted.values, &order, None).map_err(kernel_failed(name))?;
        let written = write(&values, name)?;
        Ok((Self { name: name.to_owned(), kind, axis, values, written }, remaps))
    }

    /// Position of a code in `values`, `None` for the missing code.
    pub fn position(&self, code: u32) -> Option<usize> {
        (code as usize).checked_sub(usize::from(self.axis.missing))
    }

    /// The place of every code between the smallest value and the largest, 0 to 1, where the values are
    /// numbers or dates and their hierarchy does not tell it.
    pub fn places(&self) -> Result<Option<Vec<f64>>> {
        if !self.kind.has_ranges() || !matches!(self.axis.shape, Shape::Tree(_)) {
            return Ok(None);
        }
        let values = positions(&self.values, &self.name)?;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let width = values.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
        let place = |value: f64| if width > 0.0 { (value - least) / width } else { 0.0 };
        let missing = self.axis.missing.then_some(0.0);
        Ok(Some(missing.into_iter().chain(values.into_iter().map(place)).collect()))
    }

    /// How a code is written, `None` for the missing code.
    pub fn written(&self, code: u32) -> Option<&str> {
        self.position(code).map(|position| self.written.value(position))
    }
}

/// The values of a column that is only counted, never generalized, and the translations to their
/// codes.
pub(super) fn plain_codes(
    name: &str,
    interners: &[&Interner],
) -> Result<(ModelledValues, Vec<Remap>)> {
    let missing = interners.iter().any(|interner| interner.has_missing());
    let sorted = SortedValues::new(name, interners)?;
    let order: Vec<u32> = (0..sorted.values.len() as u32).collect();
    let remaps = sorted.remaps(&order, missing);
    Ok((ModelledValues { name: name.to_owned(), values: sorted.values, missing }, remaps))
}

/// Distinct values in ascending order, and where the numbers of each reader stand among them.
struct SortedValues {
    values: ArrayRef,
    /// Per reader, by number − 1: position in `values`.
    positions: Vec<Vec<u32>>,
}

impl SortedValues {
    fn new(name: &str, interners: &[&Interner]) -> Result<Self> {
        let parts = interners.iter().map(|i| i.values()).collect::<Result<Vec<ArrayRef>>>()?;
        let refs: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let all = concat(&refs).map_err(kernel_failed(name))?;
        let sorted = sort_to_indices(&all, None, None).map_err(kernel_failed(name))?;
        let compare =
            make_comparator(&all, &all, SortOptions::default()).map_err(kernel_failed(name))?;
        let mut position = vec![0u32; all.len()];
        let mut firsts: Vec<u32> = Vec::new();
        for index in sorted.values() {
            let is_new =
                firsts.last().is_none_or(|last| compare(*last as usize, *index as usize).is_ne());
            if is_new {
                firsts.push(*index);
            }
            position[*index as usize] = firsts.len() as u32 - 1;
        }
        let values = take(&all, &UInt32Array::from(firsts), None).map_err(kernel_failed(name))?;
        let mut rest = position.as_slice();
        let mut positions = Vec::with_capacity(parts.len());
        for part in &parts {
            let (own, others) = rest.split_at(part.len());
            positions.push(own.to_vec());
            rest = others;
        }
        Ok(Self { values, positions })
    }

    /// Translations from provisional numbers to codes, when codes number the values as `order` does.
    fn remaps(&self, order: &[u32], missing: bool) -> Vec<Remap> {
        let shift = u32::from(missing);
        let mut code_of = vec![0u32; order.len()];
        for (code, position) in order.iter().enumerate() {
            code_of[*position as usize] = code as u32 + shift;
        }
        let remap = |positions: &Vec<u32>| {
            let codes = positions.iter().map(|position| code_of[*position as usize]);
            std::iter::once(MISSING).chain(codes).collect()
        };
        self.positions.iter().map(remap).collect()
    }

    /// The hierarchy over these values, and the values (by position) in the order it lists them.
    fn levels(
        &self,
        name: &str,
        kind: Kind,
        hierarchy: &ResolvedHierarchy,
    ) -> Result<(Levels, Vec<u32>)> {
        let in_column = |error: Error| match error {
            Error::Invalid(message) => {
                Error::invalid(format!("hierarchy of column '{name}': {message}"))
            }
            other => other,
        };
        let levels = match hierarchy {
            ResolvedHierarchy::Labels(table) => return self.labelled(name, kind, table),
            ResolvedHierarchy::Prefixes(kept) => {
                let written = write(&self.values, name)?;
                let texts: Vec<&str> = written.iter().flatten().collect();
                prefixes(&texts, kept).map_err(in_column)?
            }
            ResolvedHierarchy::Dates(steps)
            | ResolvedHierarchy::Automatic(Automatic::Dates(steps)) => {
                let instants = instants(&self.values, name)?;
                date_steps(&instants, steps).map_err(in_column)?
            }
            ResolvedHierarchy::Intervals(steps) => {
                self.intervals(name, kind, steps).map_err(in_column)?
            }
            ResolvedHierarchy::Automatic(Automatic::Top) => Levels::default(),
            ResolvedHierarchy::Automatic(Automatic::Intervals { .. }) => {
                self.automatic_intervals(name, kind)?
            }
        };
        Ok((levels, (0..self.values.len() as u32).collect()))
    }

    /// Nobody asked for these steps, so numbers that have none go to `*` instead of failing.
    fn automatic_intervals(&self, name: &str, kind: Kind) -> Result<Levels> {
        if kind == Kind::Float {
            let values = positions(&self.values, name)?;
            let steps = float_steps(&values);
            if steps.is_empty() {
                return Ok(Levels::default());
            }
            return Ok(float_intervals(&values, &steps).unwrap_or_default());
        }
        let values = exact(&self.values, name)?;
        let steps = exact_steps(&values);
        if steps.is_empty() {
            return Ok(Levels::default());
        }
        let scale = decimal_scale(self.values.data_type());
        let show = |value: i128| written_decimal(value, scale);
        Ok(intervals(&values, &steps, &show).unwrap_or_default())
    }

    fn intervals(&self, name: &str, kind: Kind, steps: &[String]) -> Result<Levels> {
        let bad_step = |step: &String, unit: &str| {
            Error::invalid(format!(
                "intervals(): the step {step} is not a multiple of {unit}, the smallest difference \
                 between values of this column"
            ))
        };
        if kind == Kind::Float {
            return float_intervals(&positions(&self.values, name)?, steps);
        }
        let scale = decimal_scale(self.values.data_type());
        let unit = written_decimal(1, scale);
        let step = |step: &String| scaled(step, scale).ok_or_else(|| bad_step(step, &unit));
        let steps = steps.iter().map(step).collect::<Result<Vec<i128>>>()?;
        let values = exact(&self.values, name)?;
        let is_date = matches!(self.values.data_type(), DataType::Date32);
        let show = |value: i128| {
            if is_date { written_date(value) } else { written_decimal(value, scale) }
        };
        intervals(&values, &steps, &show)
    }

    /// Finds every value among the leaves. Numbers and dates are compared by value, not by spelling.
    fn labelled(&self, name: &str, kind: Kind, table: &LabelTable) -> Result<(Levels, Vec<u32>)> {
        let leaves: ArrayRef = Arc::new(table.leaves().iter().map(Some).collect::<StringArray>());
        let leaves = cast(&leaves, self.values.data_type()).map_err(|_| {
            let data_type = self.values.data_type();
            Error::invalid(format!(
                "hierarchy of column '{name}': leaves cannot be read as {data_type}; cast the column to a string"
            ))
        })?;
        let written_leaves = write(&leaves, name)?;
        let mut leaf_of = HashMap::new();
        for (position, leaf) in written_leaves.iter().enumerate() {
            if let Some(leaf) = leaf
                && leaf_of.insert(leaf, position).is_some()
            {
                return Err(Error::invalid(format!(
                    "hierarchy of column '{name}': two leaves are the same value of the column, as 1 \
                     and 01 are the same number; write one row per value"
                )));
            }
        }
        let written = write(&self.values, name)?;
        let found: Vec<Option<usize>> =
            written.iter().map(|value| leaf_of.get(value?).copied()).collect();
        let absent = found.iter().filter(|leaf| leaf.is_none()).count();
        if absent > 0 {
            return Err(Error::invalid(format!(
                "hierarchy of column '{name}': {absent} distinct values of the column have no leaf in \
                 it; add a row for each of them"
            )));
        }
        let mut pairs: Vec<(usize, u32)> =
            found.into_iter().flatten().enumerate().map(|(at, leaf)| (leaf, at as u32)).collect();
        // Strings take the order of the hierarchy, numbers and dates keep their own.
        if kind == Kind::Text {
            pairs.sort_unstable();
        }
        let (listed, order): (Vec<usize>, Vec<u32>) = pairs.into_iter().unzip();
        let mut levels = table.levels_over(&listed);
        if kind.has_ranges() {
            // All leaves count, not only those in the data: the ends of a node tell nothing about it.
            let ranks = rank(&leaves, None).map_err(kernel_failed(name))?;
            table
                .add_bounds(&mut levels, &listed, |leaf| (ranks[leaf], written_leaves.value(leaf)));
        }
        Ok((levels, order))
    }
}
