//! The registered methods that cut groups.

use super::{Cut, Options, partition};
use crate::error::Result;
use crate::method::{About, Family, Job, Method, MethodOption, Settings, Takes, Unverified};
use crate::model::RowTable;

/// Cutting at one kind of place.
pub(in crate::method) struct Partition {
    about: About,
    cut: Cut,
}

pub(in crate::method) static ROUNDED: Partition = Partition {
    about: About {
        name: "rounded",
        family: Family::Classes,
        summary: "you want the most and smallest classes",
        class_sizes: "exactly ⌊n/k⌋; at most k + 1 rows from k(k − 1) rows on",
    },
    cut: Cut::Rounded,
};

pub(in crate::method) static MONDRIAN: Partition = Partition {
    about: About {
        name: "mondrian",
        family: Family::Classes,
        summary: "a value must fall into one range only",
        class_sizes: "at least k rows; large where values are frequent",
    },
    cut: Cut::Strict,
};

pub(in crate::method) static MONDRIAN_RELAXED: Partition = Partition {
    about: About {
        name: "mondrian_relaxed",
        family: Family::Classes,
        summary: "you compare with the literature",
        class_sizes: "k to 2k − 1 rows",
    },
    cut: Cut::Relaxed,
};

impl Method for Partition {
    fn about(&self) -> &About {
        &self.about
    }

    fn accepts(&self, option: MethodOption, _given: &[MethodOption]) -> Takes {
        match option {
            MethodOption::Split | MethodOption::Paper => Ok(()),
            _ => self.family().accepts(option),
        }
    }

    fn form(&self, rows: &mut RowTable, job: &Job, settings: &Settings) -> Result<Unverified> {
        let options = Options { cut: self.cut, split: settings.split, variant: settings.variant };
        partition(rows, job, options).map(Unverified::from)
    }
}
