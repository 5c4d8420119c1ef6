//! The registered methods that slice.

use super::{AsgOptions, DEFAULT_BLOCK_ROWS, Options, asg_ls, block_row_bytes, row_bytes, slicing};
use crate::association::DEFAULT_WORK;
use crate::error::{Error, Result};
use crate::method::{
    About, Family, Job, Method, MethodOption, TableShape, Takes, Unverified, Variant,
};
use crate::model::RowTable;

/// Options of a query for the slicing methods.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// Options of both methods.
    pub options: Options<'a>,
    /// Columns of the whole table, if a number was given.
    pub columns: Option<usize>,
    /// The fewest attributes of a column that an association makes.
    pub min_columns: usize,
    /// The share of all rows that an association needs.
    pub min_support: f64,
    /// How often the rule of an association holds.
    pub min_confidence: f64,
}

/// Slicing by one way to find the columns.
pub(in crate::method) struct Slices {
    about: About,
    by: By,
}

/// What decides which columns stay together.
#[derive(PartialEq, Eq)]
enum By {
    /// Associations between values, bucket by bucket.
    Associations,
    /// Correlation in the whole table.
    Correlation,
}

pub(in crate::method) static ASG_LS: Slices = Slices {
    about: About {
        name: "asg_ls",
        family: Family::Slices,
        summary: "there are many columns: values stay exact, links between groups of columns are broken",
        class_sizes: "buckets of at least k rows; nobody names a sensitive value with a chance above 1/l",
    },
    by: By::Associations,
};

pub(in crate::method) static SLICING: Slices = Slices {
    about: About {
        name: "slicing",
        family: Family::Slices,
        summary: "as above, with one set of columns for the whole table",
        class_sizes: "",
    },
    by: By::Correlation,
};

impl Method for Slices {
    fn about(&self) -> &About {
        &self.about
    }

    fn accepts(&self, option: MethodOption, given: &[MethodOption]) -> Takes {
        use MethodOption::*;
        match (&self.by, option) {
            (By::Correlation, Columns) => Ok(()),
            (By::Associations, Weights | BlockRows | MinSupport | MinConfidence) => Ok(()),
            (By::Associations, MinColumns) => match given.contains(&Paper) {
                true => Ok(()),
                false => Err(
                    "its columns are groups of quasi-identifiers that go together, of any size; leave it \
                     out, or write variant => 'paper'",
                ),
            },
            _ => self.family().accepts(option),
        }
    }

    // Rows that are in no bucket of neighbours fit nowhere.
    fn suppresses(&self) -> bool {
        self.by == By::Associations
    }

    // Associations are between nodes.
    fn needs_hierarchies(&self) -> bool {
        self.by == By::Associations
    }

    fn memory(&self, shape: &TableShape, settings: &crate::method::Settings) -> usize {
        let columns = shape.codes.len();
        let in_work = match self.by {
            By::Associations => shape.threads.saturating_mul(block_rows(settings)),
            // Bucket by bucket.
            By::Correlation => 0,
        };
        // Rows are put together in a second table.
        let of_table = shape.rows * (row_bytes(columns) + shape.row_bytes);
        of_table + in_work.min(shape.rows) * block_row_bytes(columns)
    }

    fn form(
        &self,
        rows: &mut RowTable,
        job: &Job,
        settings: &crate::method::Settings,
    ) -> Result<Unverified> {
        let Some(asked) = &settings.slicing else {
            return Err(Error::bug("a slicing lost its options"));
        };
        let sliced = match self.by {
            By::Associations => {
                let associations = AsgOptions {
                    min_support: asked.min_support,
                    min_confidence: asked.min_confidence,
                    min_columns: asked.min_columns,
                    weights: settings.weights,
                    block_rows: block_rows(settings),
                    work: DEFAULT_WORK,
                };
                asg_ls(rows, job, &asked.options, &associations)
            }
            By::Correlation => slicing(rows, job, &asked.options, asked.columns),
        };
        sliced.map(Unverified::Sliced)
    }
}

fn block_rows(settings: &crate::method::Settings) -> usize {
    settings.block_rows.unwrap_or(match settings.variant {
        Variant::Best => DEFAULT_BLOCK_ROWS,
        // The paper looks for neighbours in the whole table.
        Variant::Paper => usize::MAX,
    })
}
