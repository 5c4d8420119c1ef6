//! The registered method `alpha_k`.

use super::{Grouping, alpha_k};
use crate::error::Result;
use crate::method::{About, Family, Job, Method, Settings, TableShape, Unverified};
use crate::model::{Purpose, RowTable, shuffle_classes};

pub(in crate::method) static ALPHA_K: AlphaK = AlphaK;

pub(in crate::method) struct AlphaK;

impl Method for AlphaK {
    fn about(&self) -> &About {
        &About {
            name: "alpha_k",
            family: Family::TwoTables,
            summary: "quasi-identifiers must stay exact: two tables, joined by a class",
            class_sizes: "at least k rows, no sensitive value above its share",
        }
    }

    fn suppresses(&self) -> bool {
        true
    }

    fn memory(&self, shape: &TableShape, _settings: &Settings) -> usize {
        // The class of every row, its place among the classes and the keys of rows that mix; rows go to
        // their classes through a second table.
        shape.rows * (24 + shape.row_bytes)
    }

    fn form(&self, rows: &mut RowTable, job: &Job, settings: &Settings) -> Result<Unverified> {
        let mixing = settings.seed(Purpose::Mixing);
        let Grouping { classes, suppressed } = alpha_k(rows, job, settings.variant, mixing)?;
        // Both tables show the numbers of the classes, which must not tell the order in which they were made.
        let seed = settings.seed(Purpose::ClassNumbers);
        let classes = shuffle_classes(rows, &classes, job.keys, seed)?;
        Ok(Unverified::Classes { classes, suppressed })
    }
}
