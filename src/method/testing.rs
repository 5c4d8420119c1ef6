//! Small tables of codes on which tests run a method, and the release that it forms, verified.

use std::ops::Range;
use std::sync::Arc;

use super::Job;
use crate::error::{Error, Result};
use crate::hierarchy::Axis;
use crate::measure::loss;
use crate::model::{
    AlphaScope, Cancel, Classes, Grades, Model, Placement, Requirement, RowKeys, RowTable,
    SensitiveColumn, check_placement,
};

/// A table and what its classes must satisfy.
pub(super) struct Table<const D: usize> {
    pub(super) axes: Vec<Axis>,
    pub(super) codes: Vec<[u32; D]>,
    pub(super) requirement: Requirement,
    pub(super) sensitive: Vec<SensitiveColumn>,
    pub(super) keys: RowKeys,
    pub(super) cancel: Cancel,
}

impl<const D: usize> Table<D> {
    /// Without sensitive values.
    pub(super) fn new(axes: Vec<Axis>, codes: Vec<[u32; D]>, k: u32) -> Self {
        Self {
            axes,
            codes,
            requirement: Requirement::k(k),
            sensitive: Vec::new(),
            keys: RowKeys::default(),
            cancel: Cancel::default(),
        }
    }

    /// With a sensitive column and a model on it. Rows of equal codes are told apart by their values.
    pub(super) fn sensitive(mut self, values: &[u32], model: Model) -> Self {
        self.requirement.models = vec![model];
        self.keys.ties = values.iter().map(|value| u64::from(*value)).collect();
        self.sensitive = vec![SensitiveColumn::of_values(values, true)];
        self
    }

    pub(super) fn job(&self) -> Job<'_> {
        Job {
            axes: &self.axes,
            requirement: &self.requirement,
            sensitive: &self.sensitive,
            keys: &self.keys,
            cancel: &self.cancel,
        }
    }

    pub(super) fn rows(&self) -> Result<RowTable> {
        RowTable::from_codes(&self.codes).ok_or_else(|| Error::bug("too wide"))
    }

    /// Runs a method, which returns its classes and how many rows behind them it suppressed, and verifies
    /// them by the code path that the engine uses.
    pub(super) fn form(
        &self,
        method: impl FnOnce(&mut RowTable, &Job) -> Result<(Classes, usize)>,
    ) -> Result<Release> {
        let mut rows = self.rows()?;
        let (formed, suppressed) = method(&mut rows, &self.job())?;
        let id_at = |at: usize| rows.id_at(at);
        let placement = Placement { id_at: &id_at, rows: rows.len(), classes: &formed, suppressed };
        check_placement(&placement, &self.requirement, &self.sensitive)?;
        let ids = |range: Range<usize>| {
            let mut ids: Vec<u32> = range.map(id_at).collect();
            ids.sort_unstable();
            ids
        };
        let axes: Vec<&Axis> = self.axes.iter().collect();
        Ok(Release {
            classes: formed.ranges().map(ids).collect(),
            suppressed: ids(formed.rows()..rows.len()),
            loss: loss(&rows, &formed, &axes),
        })
    }

    /// What does not depend on row numbers: codes and sensitive values of every class, and of the suppressed rows.
    pub(super) fn content(&self, release: &Release) -> Content<D> {
        let row = |id: &u32| {
            let value = self.sensitive.first().map_or(0, |column| column.codes[*id as usize]);
            (self.codes[*id as usize], value)
        };
        let sorted = |ids: &Vec<u32>| {
            let mut rows: Vec<([u32; D], u32)> = ids.iter().map(row).collect();
            rows.sort_unstable();
            rows
        };
        (release.classes.iter().map(sorted).collect(), sorted(&release.suppressed))
    }
}

/// The rows of every class, and the suppressed ones.
pub(super) type Content<const D: usize> = (Vec<Vec<([u32; D], u32)>>, Vec<([u32; D], u32)>);

/// What a method formed: row numbers, ascending.
#[derive(Debug, PartialEq)]
pub(super) struct Release {
    /// Of every class.
    pub(super) classes: Vec<Vec<u32>>,
    /// Of the rows that are not published.
    pub(super) suppressed: Vec<u32>,
    /// Mean loss of the published cells.
    pub(super) loss: f64,
}

impl Release {
    pub(super) fn sizes(&self) -> Vec<usize> {
        self.classes.iter().map(Vec::len).collect()
    }
}

/// A number, a hierarchy of 27 leaves in threes and nines, and a set; code 0 is missing in all.
pub(super) fn mixed_axes() -> Vec<Axis> {
    let values: Vec<f64> = (0..40).map(|value| f64::from(value * value)).collect();
    let leaf = |at: usize| format!("{at};third {};ninth {};*\n", at / 3, at / 9);
    let tree = Axis::of_labels(&(0..27).map(leaf).collect::<String>(), true);
    vec![Axis::line(&values, true), tree, Axis::set(20, true)]
}

/// The share of values 0 and 1, on level 1, and of values 2 to 4, on level 2.
pub(super) fn graded(alphas: [f64; 2], scope: AlphaScope) -> Model {
    let grades = Grades::new(vec![1, 1, 2, 2, 2], alphas.to_vec(), scope);
    Model::Graded { column: 0, grades: Arc::new(grades.unwrap_or_else(|_| unreachable!())) }
}
