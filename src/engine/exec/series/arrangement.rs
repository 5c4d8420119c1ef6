//! The classes that a night publishes, and where their rows come from.

use datafusion::common::{Result, internal_err};
use rayon::prelude::*;

use super::newcomers::NewCohorts;
use crate::columnar::{Cohorts, LastRows};
use crate::error::Error;
use crate::model::series::{Fate, Groups, Members, cohort_id};
use crate::model::{Classes, Placement, Seed};

/// A class that is published.
#[derive(Clone, Copy)]
pub(super) struct Published {
    pub(super) id: u64,
    pub(super) rows: Rows,
}

/// Where the codes of a published row are, and the number of its other values.
pub(super) type RowSource = (Option<u32>, u32);

/// Where the rows of a class come from. Cohorts are positions in the state, or among the new ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    Live(usize),
    /// Tonight's quasi-identifiers with the values of the last release.
    Kept(usize),
    New(usize),
    Repeated(usize),
}

/// All classes, in the order of their ids: an order that tells nothing, because ids are keyed hashes.
pub(super) struct Arrangement<'a> {
    pub(super) published: Vec<Published>,
    /// Tonight's rows by cohort of the state.
    pub(super) tonight: &'a Groups,
    pub(super) new: &'a NewCohorts,
    /// Rows of the last release by cohort of the state.
    pub(super) last: Groups,
}

/// The classes of a night, in the order of their ids.
pub(super) fn published_classes(
    members: &Members,
    fates: &[Fate],
    new: &NewCohorts,
) -> Vec<Published> {
    let known = members.cohorts().iter().zip(fates).enumerate();
    let known = known.filter_map(|(cohort, (of, fate))| {
        let rows = match fate {
            Fate::Live => Rows::Live(cohort),
            Fate::Kept => Rows::Kept(cohort),
            Fate::Held => Rows::Repeated(cohort),
            Fate::Withdrawn => return None,
        };
        Some(Published { id: of.id, rows })
    });
    let new = new.ids.iter().enumerate().map(|(at, id)| Published { id: *id, rows: Rows::New(at) });
    let mut published: Vec<Published> = known.chain(new).collect();
    published.par_sort_unstable_by_key(|of| of.id);
    published
}

/// Whether rows are those of the persons whose hash the id is.
pub(super) fn is_of(id: u64, rows: &[u32], persons: &[u128], seed: Seed) -> bool {
    let mut persons: Vec<u128> = rows.iter().map(|row| persons[*row as usize]).collect();
    cohort_id(&mut persons, seed) == id
}

impl Arrangement<'_> {
    /// Tonight's rows of a class, none of one that repeats the last release.
    pub(super) fn tonight_rows(&self, of: &Published) -> &[u32] {
        match of.rows {
            Rows::Live(cohort) | Rows::Kept(cohort) => self.tonight.rows(cohort),
            Rows::New(at) => self.new.rows.rows(at),
            Rows::Repeated(_) => &[],
        }
    }

    pub(super) fn size(&self, of: &Published) -> usize {
        match of.rows {
            Rows::Repeated(cohort) => self.last.rows(cohort).len(),
            _ => self.tonight_rows(of).len(),
        }
    }

    /// For every published row where its codes are and which number its other values have. Rows of the last release are
    /// numbered from `first` on; with `keeps_values` live cohorts publish their values.
    pub(super) fn row_sources<'s>(
        &'s self,
        first: u32,
        keeps_values: bool,
    ) -> impl Iterator<Item = RowSource> + 's {
        let of_last =
            move |cohort: usize| self.last.rows(cohort).iter().map(move |row| first + row);
        self.published.iter().flat_map(move |of| -> Box<dyn Iterator<Item = RowSource> + 's> {
            let codes = self.tonight_rows(of).iter();
            match of.rows {
                Rows::Repeated(cohort) => Box::new(of_last(cohort).map(|id| (None, id))),
                Rows::Live(_) if !keeps_values => Box::new(codes.map(|row| (Some(*row), *row))),
                Rows::Live(cohort) | Rows::Kept(cohort) => {
                    Box::new(codes.zip(of_last(cohort)).map(|(row, id)| (Some(*row), id)))
                }
                Rows::New(_) => Box::new(codes.map(|row| (Some(*row), *row))),
            }
        })
    }

    pub(super) fn cohorts(&self, first_repeated: u32, last: LastRows) -> Result<Cohorts> {
        let LastRows { ties, tuples, tuple_of, .. } = last;
        let of = |published: &Published| match published.rows {
            Rows::Repeated(cohort) => {
                let tuple = tuple_of.get(cohort).copied().flatten();
                let missing = || Error::bug("a cohort of the last release was not kept");
                Ok((Some(tuple.ok_or_else(missing)?), true))
            }
            _ => Ok((None, false)),
        };
        let of_class = self.published.iter().map(of).collect::<crate::Result<Vec<_>>>()?;
        let (repeated, held) = of_class.into_iter().unzip();
        let ids = self.published.iter().map(|of| of.id).collect();
        Ok(Cohorts { ids, held, repeated, tuples, first_repeated, ties })
    }
}

/// Checks that no row is in two classes, and classes with `check`, to which all other rows are suppressed.
pub(super) fn check_classes<'r>(
    rows: usize,
    classes: &[&Published],
    rows_of: &dyn Fn(&Published) -> &'r [u32],
    check: &dyn Fn(&Placement) -> crate::Result<()>,
) -> Result<()> {
    let mut order: Vec<u32> = Vec::with_capacity(rows);
    let mut sizes = Vec::with_capacity(classes.len());
    for class in classes {
        let rows = rows_of(class);
        order.extend(rows);
        sizes.push(rows.len() as u32);
    }
    let mut is_placed = vec![false; rows];
    for row in &order {
        match is_placed.get_mut(*row as usize) {
            Some(placed) => *placed = true,
            None => return internal_err!("a class has a row that is not there"),
        }
    }
    let others = is_placed.iter().zip(0u32..).filter(|(placed, _)| !**placed);
    order.extend(others.map(|(_, row)| row));
    let classes = Classes::from_sizes(&sizes)?;
    if order.len() != rows {
        return internal_err!("a row is in two classes");
    }
    let suppressed = rows - classes.rows();
    let id_at = |at: usize| order[at];
    Ok(check(&Placement { id_at: &id_at, rows, classes: &classes, suppressed })?)
}
