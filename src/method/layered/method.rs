//! The registered method `layered`.

use super::{Layered, Options, layered, work_bytes};
use crate::error::Result;
use crate::method::{
    About, Family, Job, Method, MethodOption, Settings, TableShape, Takes, Unverified,
};
use crate::model::RowTable;

pub(in crate::method) static LAYERED: Freezing = Freezing;

pub(in crate::method) struct Freezing;

impl Method for Freezing {
    fn about(&self) -> &About {
        &About {
            name: "layered",
            family: Family::Classes,
            summary: "you want the least loss",
            class_sizes: "k to 2k − 1 rows; every row published, or `suppress => true` leaves out the few that fit nowhere",
        }
    }

    fn accepts(&self, option: MethodOption, given: &[MethodOption]) -> Takes {
        use MethodOption::*;
        match option {
            Split | Suppress | SuppressRows => Ok(()),
            SuppressCells => Err("it leaves out whole rows; write suppress => true"),
            T if given.contains(&SuppressRows) => Err(
                "with suppress, leaving out rows changes the distribution that t compares with; leave out \
                 suppress",
            ),
            _ => self.family().accepts(option),
        }
    }

    fn memory(&self, shape: &TableShape, _settings: &Settings) -> usize {
        work_bytes(shape.row_bytes, shape.rows, shape.k, shape.threads)
    }

    fn form(&self, rows: &mut RowTable, job: &Job, settings: &Settings) -> Result<Unverified> {
        let options = Options { split: settings.split, suppress: settings.drop_suppressed };
        let Layered { classes, suppressed } = layered(rows, job, &options)?;
        Ok(Unverified::Classes { classes, suppressed })
    }
}
