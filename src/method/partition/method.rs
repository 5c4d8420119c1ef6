//! The registered methods that cut groups.

use super::{Cut, partition};
use crate::error::Result;
use crate::method::{Family, Formed, Job, Method, MethodOption, Settings, Takes};
use crate::model::RowTable;

/// Cutting at one kind of place.
pub(in crate::method) struct Partition {
    name: &'static str,
    cut: Cut,
    summary: &'static str,
    class_sizes: &'static str,
}

pub(in crate::method) static ROUNDED: Partition = Partition {
    name: "rounded",
    cut: Cut::Rounded,
    summary: "you want the most and smallest classes",
    class_sizes: "exactly ⌊n/k⌋; at most k + 1 rows from 2k² rows on",
};

pub(in crate::method) static MONDRIAN: Partition = Partition {
    name: "mondrian",
    cut: Cut::Strict,
    summary: "a value must fall into one range only",
    class_sizes: "at least k rows; large where values are frequent",
};

pub(in crate::method) static MONDRIAN_RELAXED: Partition = Partition {
    name: "mondrian_relaxed",
    cut: Cut::Relaxed,
    summary: "you compare with the literature",
    class_sizes: "k to 2k − 1 rows",
};

impl Method for Partition {
    fn name(&self) -> &'static str {
        self.name
    }

    fn family(&self) -> Family {
        Family::Classes
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn class_sizes(&self) -> &'static str {
        self.class_sizes
    }

    fn accepts(&self, option: MethodOption, _given: &[MethodOption]) -> Takes {
        match option {
            MethodOption::Split => Ok(()),
            _ => self.family().accepts(option),
        }
    }

    fn form(&self, rows: &mut RowTable, job: &Job, settings: &Settings) -> Result<Formed> {
        partition(rows, job, self.cut, settings.split).map(Formed::from)
    }
}
