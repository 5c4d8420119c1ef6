//! The registered method `top_down`.

use super::top_down;
use crate::error::Result;
use crate::method::{
    About, Family, Job, Method, MethodOption, Settings, TableShape, Takes, Unverified,
};
use crate::model::RowTable;

pub(in crate::method) static TOP_DOWN: TopDown = TopDown;

pub(in crate::method) struct TopDown;

impl Method for TopDown {
    fn about(&self) -> &About {
        &About {
            name: "top_down",
            family: Family::Classes,
            summary: "you compare `alpha_k` with generalization",
            class_sizes: "at least k rows",
        }
    }

    fn accepts(&self, option: MethodOption, _given: &[MethodOption]) -> Takes {
        match option {
            MethodOption::Paper => Ok(()),
            _ => self.family().accepts(option),
        }
    }

    // Where a group is parted depends on the shares of the whole table.
    fn works_in_cells(&self) -> bool {
        false
    }

    fn memory(&self, shape: &TableShape, _settings: &Settings) -> usize {
        // The codes and numbers of a group's rows.
        shape.rows * size_of::<(u32, u32)>()
    }

    fn form(&self, rows: &mut RowTable, job: &Job, settings: &Settings) -> Result<Unverified> {
        top_down(rows, job, settings.variant).map(Unverified::from)
    }
}
