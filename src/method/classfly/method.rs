//! The registered methods that work from constraints.

use super::memory::bytes;
use super::{Job as ConstraintJob, Search, classfly, datafly};
use crate::error::{Error, Result};
use crate::hierarchy::{Axis, Shape, Tree};
use crate::method::{
    About, Family, Job, Method, MethodOption, Settings, TableShape, Takes, Unverified,
};
use crate::model::{Purpose, RowTable};

/// Generalizing until the constraints hold.
pub(in crate::method) struct Recodings {
    about: About,
    /// How rows are found that can be published; without it, whole columns climb.
    search: Option<Search>,
    /// Whether it takes more than one constraint.
    takes_several: bool,
}

pub(in crate::method) static CLASSFLY_COMPLETE: Recodings = Recodings {
    about: About {
        name: "classfly_complete",
        family: Family::Constraints,
        summary: "several recipients can link by different columns",
        class_sizes: "every combination of published values in a constraint's columns occurs at least k times, \
                  `*` included",
    },
    search: Some(Search::Complete),
    takes_several: true,
};

pub(in crate::method) static CLASSFLY_PARTIAL: Recodings = Recodings {
    about: About {
        name: "classfly_partial",
        family: Family::Constraints,
        summary: "as above; the same release, found another way",
        class_sizes: "",
    },
    search: Some(Search::Partial),
    takes_several: true,
};

pub(in crate::method) static CLASSFLY_NAIVE: Recodings = Recodings {
    about: About {
        name: "classfly_naive",
        family: Family::Constraints,
        summary: "you compare with the literature",
        class_sizes: "the same, on all columns at once",
    },
    search: Some(Search::Naive),
    takes_several: true,
};

pub(in crate::method) static CLASSFLY: Recodings = Recodings {
    about: About {
        name: "classfly",
        family: Family::Constraints,
        summary: "one constraint: values stay exact wherever k rows agree",
        class_sizes: "at least k rows",
    },
    search: Some(Search::Complete),
    takes_several: false,
};

pub(in crate::method) static DATAFLY: Recodings = Recodings {
    about: About {
        name: "datafly",
        family: Family::Constraints,
        summary: "a column must be published on one level everywhere",
        class_sizes: "at least k rows",
    },
    search: None,
    takes_several: true,
};

impl Method for Recodings {
    fn about(&self) -> &About {
        &self.about
    }

    fn accepts(&self, option: MethodOption, _given: &[MethodOption]) -> Takes {
        match option {
            MethodOption::ManyConstraints if !self.takes_several => option.refused(),
            _ => self.family().accepts(option),
        }
    }

    fn memory(&self, shape: &TableShape, settings: &Settings) -> usize {
        bytes(shape, settings.constraints, self.search)
    }

    fn form(&self, rows: &mut RowTable, job: &Job, settings: &Settings) -> Result<Unverified> {
        let trees = trees(job.axes)?;
        let constraints = ConstraintJob::new(&trees, job, settings);
        let recoding = match self.search {
            Some(search) => classfly(rows, &constraints, search),
            None => {
                let most = settings.suppression_limit * rows.len() as f64;
                datafly(rows, &constraints, Some(most as usize))
            }
        };
        recoding.map(Unverified::Recoded)
    }
}

impl<'a> ConstraintJob<'a> {
    /// What the constraints of a query ask.
    pub fn new(trees: &'a [&'a Tree], job: &Job<'a>, settings: &Settings<'a>) -> Self {
        Self {
            trees,
            constraints: settings.constraints,
            variant: settings.variant,
            drop_suppressed: settings.drop_suppressed,
            keys: job.keys,
            seed: settings.seed(Purpose::Suppressed),
            cancel: job.cancel,
        }
    }
}

/// The hierarchies of the axes, of which each has one.
pub fn trees(axes: &[Axis]) -> Result<Vec<&Tree>> {
    axes.iter().map(tree_of).collect()
}

fn tree_of(axis: &Axis) -> Result<&Tree> {
    match &axis.shape {
        Shape::Tree(tree) => Ok(tree),
        Shape::Line(_) | Shape::Set => Err(Error::bug("a quasi-identifier has no hierarchy")),
    }
}
