//! Verification of a recoding before anything is published.
//!
//! Written apart from the groups the methods steer by, and the plain way (sort the projections, walk
//! the runs): a mistake there must not be able to hide here.

use rayon::prelude::*;

use super::{Component, Constraint, Job, Recoding};
use crate::error::{Error, Result};
use crate::hierarchy::Tree;
use crate::method::Variant;
use crate::model::RowTable;

/// Rows whose codes are looked at together.
const CHECKED_ROWS: usize = 4096;

/// Errors unless the recoding is sound for these rows:
///
/// - every published node covers the row's value, and columns in no constraint are unchanged;
/// - every constraint, also one that another contains, holds on the rows that are published, the
///   suppressed ones among them; as the paper prints it, on those not suppressed in its component;
/// - rows suppressed in a component publish the top in all its columns and are, without those that
///   joined them, no more than the method may suppress there.
pub fn check_constraints(rows: &RowTable, job: &Job, recoding: &Recoding) -> Result<()> {
    let Recoding { nodes, components } = recoding;
    if nodes.len() != job.trees.len() || nodes.iter().any(|column| column.len() != rows.len()) {
        return Err(Error::bug("the recoding has not the shape of the table"));
    }
    check_cover(rows, job.trees, nodes)?;
    let owner_of = owners(job, components)?;
    check_untouched(rows, nodes, &owner_of)?;
    let hidden =
        components.iter().map(|component| suppressed_rows(component, rows.len(), job, nodes));
    let mut hidden = hidden.collect::<Result<Vec<_>>>()?;
    if job.variant == Variant::Best {
        let mut dropped = vec![false; rows.len()];
        recoding.dropped(job).iter().for_each(|row| dropped[*row as usize] = true);
        hidden.fill(dropped);
    }
    job.constraints.par_iter().enumerate().try_for_each(|(index, constraint)| {
        job.cancel.check()?;
        let owner = constraint.columns.first().and_then(|column| owner_of[*column]);
        let Some(owner) = owner else {
            return Err(Error::bug(format!("constraint {} is in no component", index + 1)));
        };
        if constraint.columns.iter().any(|column| owner_of[*column] != Some(owner)) {
            return Err(Error::bug(format!("constraint {} is in two components", index + 1)));
        }
        let smallest = smallest_group(constraint, nodes, &hidden[owner], job.trees);
        match smallest {
            Some(size) if size < constraint.k as usize => Err(Error::bug(format!(
                "a group of constraint {} has {size} rows, fewer than k = {}",
                index + 1,
                constraint.k
            ))),
            _ => Ok(()),
        }
    })
}

fn check_cover(rows: &RowTable, trees: &[&Tree], nodes: &[Vec<u32>]) -> Result<()> {
    trees.par_iter().zip(nodes).enumerate().try_for_each(|(column, (tree, nodes))| {
        let covers = |code: u32, node: u32| {
            node < tree.nodes() && {
                let (first, last) = tree.range(node);
                (first..=last).contains(&code)
            }
        };
        match all_cells(rows, column, nodes, covers) {
            true => Ok(()),
            false => Err(Error::bug(format!(
                "a published value of quasi-identifier {} does not cover its row",
                column + 1
            ))),
        }
    })
}

/// Whether the code and the node of every row agree.
fn all_cells(
    rows: &RowTable,
    column: usize,
    nodes: &[u32],
    agree: impl Fn(u32, u32) -> bool,
) -> bool {
    let mut codes = Vec::with_capacity(CHECKED_ROWS.min(nodes.len()));
    let mut chunks = nodes.chunks(CHECKED_ROWS).zip(0..);
    chunks.all(|(nodes, chunk)| {
        let start = chunk * CHECKED_ROWS;
        codes.clear();
        rows.append_codes(start..start + nodes.len(), column, &mut codes);
        codes.iter().zip(nodes).all(|(code, node)| agree(*code, *node))
    })
}

/// The component of each column, `None` for columns in no constraint.
fn owners(job: &Job, components: &[Component]) -> Result<Vec<Option<usize>>> {
    let mut owners = vec![None; job.trees.len()];
    for (index, component) in components.iter().enumerate() {
        for column in &component.columns {
            match owners.get_mut(*column) {
                Some(owner) if owner.is_none() => *owner = Some(index),
                _ => return Err(Error::bug("a column is in two components, or does not exist")),
            }
        }
    }
    Ok(owners)
}

fn check_untouched(rows: &RowTable, nodes: &[Vec<u32>], owners: &[Option<usize>]) -> Result<()> {
    for (column, nodes) in nodes.iter().enumerate().filter(|(column, _)| owners[*column].is_none())
    {
        if !all_cells(rows, column, nodes, |code, node| code == node) {
            return Err(Error::bug(format!(
                "quasi-identifier {} is generalized without a constraint",
                column + 1
            )));
        }
    }
    Ok(())
}

/// Marks the rows suppressed in a component.
fn suppressed_rows(
    component: &Component,
    rows: usize,
    job: &Job,
    nodes: &[Vec<u32>],
) -> Result<Vec<bool>> {
    let mut hidden = vec![false; rows];
    let suppressed = component.suppressed.len();
    let limit = component.suppress_limit;
    if suppressed.checked_sub(component.joined).is_none_or(|rejected| rejected > limit) {
        return Err(Error::bug(format!(
            "{suppressed} rows are suppressed, at most {limit} may be"
        )));
    }
    for row in &component.suppressed {
        let top = |column: &usize| {
            let published = nodes[*column].get(*row as usize).copied();
            published == job.trees[*column].nodes().checked_sub(1)
        };
        if !component.columns.iter().all(top) {
            return Err(Error::bug("a suppressed row publishes more than the top"));
        }
        hidden[*row as usize] = true;
    }
    Ok(hidden)
}

/// Rows of the smallest group of equal projections, `None` if every row is hidden.
fn smallest_group(
    constraint: &Constraint,
    nodes: &[Vec<u32>],
    hidden: &[bool],
    trees: &[&Tree],
) -> Option<usize> {
    let width = |column: &usize| u32::BITS - trees[*column].nodes().leading_zeros();
    let bits: u32 = constraint.columns.iter().map(width).sum();
    let shown = (0..hidden.len()).filter(|row| !hidden[*row]);
    if bits > u64::BITS {
        let tuple = |row| constraint.columns.iter().map(|c| nodes[*c][row]).collect::<Vec<u32>>();
        return shortest_run(shown.map(tuple).collect());
    }
    let pack = |row| {
        let columns = constraint.columns.iter();
        columns.fold(0u64, |key, column| key << width(column) | u64::from(nodes[*column][row]))
    };
    shortest_run(shown.map(pack).collect())
}

fn shortest_run<T: Ord + Send>(mut projections: Vec<T>) -> Option<usize> {
    projections.par_sort_unstable();
    projections.chunk_by(|a, b| a == b).map(<[T]>::len).min()
}
