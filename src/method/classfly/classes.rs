//! Rows that publish the same, brought together.

use std::cmp::{Ordering, Reverse};

use rayon::prelude::*;

use super::number::number_tuples;
use super::{Job, Recoding};
use crate::error::{Error, Result};
use crate::hierarchy::Tree;
use crate::model::{Classes, RowTable};

/// The rows that publish the same tuple, as classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedClasses {
    /// Runs of the rows, in the order of their tuples. Dropped rows stand behind the last one.
    pub classes: Classes,
    /// By column, the node that each class publishes.
    pub nodes: Vec<Vec<u32>>,
}

/// Moves the rows so that those with equal tuples stand together, in the order of the tuples, which
/// is that of the hierarchies: what is near in a tree is near in the release.
///
/// Rows that are suppressed in every component go behind the classes instead of publishing nothing but
/// tops, if the job says so.
pub fn into_classes(
    recoding: Recoding,
    rows: &mut RowTable,
    job: &Job,
) -> Result<PublishedClasses> {
    let dropped = recoding.dropped(job);
    let nodes = recoding.nodes;
    let bounded: Vec<(&[u32], u32)> =
        nodes.iter().zip(job.trees).map(|(nodes, tree)| (nodes.as_slice(), tree.nodes())).collect();
    let mut numbered = number_tuples(&bounded);
    // Dropped rows share a number of their own, behind all others.
    for position in &dropped {
        numbered.numbers[*position as usize] = numbered.distinct as u32;
    }
    let tuples = Tuples::new(&nodes, &numbered.numbers, numbered.distinct, job.trees);
    drop(nodes);
    job.cancel.check()?;
    let (order, sizes) = tuples.in_order();
    let nodes: Vec<Vec<u32>> = (tuples.nodes.iter())
        .map(|nodes| order.iter().map(|tuple| nodes[*tuple as usize]).collect())
        .collect();
    let classes = Classes::from_sizes(&sizes)?;
    // From the number of a tuple to where its next row goes.
    let mut next = vec![classes.rows() as u32; numbered.distinct + 1];
    for (class, tuple) in order.iter().enumerate() {
        next[*tuple as usize] = classes.range(class).start as u32;
    }
    drop((order, tuples));
    let mut targets = numbered.numbers;
    for target in &mut targets {
        let next = &mut next[*target as usize];
        *target = *next;
        *next += 1;
    }
    rows.permute(targets);
    check_cover(rows, &classes, &nodes, job.trees)?;
    Ok(PublishedClasses { classes, nodes })
}

/// The different tuples by number.
struct Tuples<'a> {
    /// By column, the node of each tuple.
    nodes: Vec<Vec<u32>>,
    /// Rows of each tuple. One that only dropped rows have has none.
    rows: Vec<u32>,
    trees: &'a [&'a Tree],
}

impl<'a> Tuples<'a> {
    fn new(nodes: &[Vec<u32>], numbers: &[u32], distinct: usize, trees: &'a [&'a Tree]) -> Self {
        let mut first_rows = vec![u32::MAX; distinct];
        let mut rows = vec![0u32; distinct];
        for (position, number) in numbers.iter().enumerate() {
            if let Some(count) = rows.get_mut(*number as usize) {
                if *count == 0 {
                    first_rows[*number as usize] = position as u32;
                }
                *count += 1;
            }
        }
        let of_column = |nodes: &Vec<u32>| {
            let node = |first: &u32| nodes.get(*first as usize).copied().unwrap_or(0);
            first_rows.iter().map(node).collect()
        };
        Self { nodes: nodes.par_iter().map(of_column).collect(), rows, trees }
    }

    /// The tuples that some row publishes, in order, and how many rows do.
    fn in_order(&self) -> (Vec<u32>, Vec<u32>) {
        let ranks: Vec<Vec<u32>> = self.trees.par_iter().map(|tree| depth_first(tree)).collect();
        let rank =
            |column: usize, tuple: u32| ranks[column][self.nodes[column][tuple as usize] as usize];
        // The first columns, as many as fit, are compared as one number.
        let widths = self.key_widths();
        let key = |tuple: u32| {
            let widths = widths.iter().enumerate();
            widths.fold(0u64, |key, (at, width)| key << width | u64::from(rank(at, tuple)))
        };
        let published = (0..self.rows.len() as u32).into_par_iter();
        let published = published.filter(|tuple| self.rows[*tuple as usize] > 0);
        let mut order: Vec<(u64, u32)> = published.map(|tuple| (key(tuple), tuple)).collect();
        order.par_sort_unstable_by(|(key_a, a), (key_b, b)| {
            let mut others =
                (widths.len()..self.nodes.len()).map(|c| rank(c, *a).cmp(&rank(c, *b)));
            key_a.cmp(key_b).then_with(|| others.find(|o| o.is_ne()).unwrap_or(Ordering::Equal))
        });
        order.into_iter().map(|(_, tuple)| (tuple, self.rows[tuple as usize])).unzip()
    }

    /// Bits of the first columns, of as many as a key holds.
    fn key_widths(&self) -> Vec<u32> {
        let mut free = u64::BITS;
        let widths = self.trees.iter().map_while(|tree| {
            let width = u32::BITS - tree.nodes().leading_zeros();
            free = free.checked_sub(width)?;
            Some(width)
        });
        widths.collect()
    }
}

/// Rank of every node of a tree: a node before what is under it, siblings in their order.
fn depth_first(tree: &Tree) -> Vec<u32> {
    let mut nodes: Vec<u32> = (0..tree.nodes()).collect();
    nodes.sort_unstable_by_key(|node| {
        let (first, last) = tree.range(*node);
        (first, Reverse(last), Reverse(tree.level(*node)))
    });
    let mut ranks = vec![0u32; nodes.len()];
    for (rank, node) in nodes.iter().enumerate() {
        ranks[*node as usize] = rank as u32;
    }
    ranks
}

/// The last look at what leaves: every class publishes nodes that cover its rows.
fn check_cover(
    rows: &RowTable,
    classes: &Classes,
    nodes: &[Vec<u32>],
    trees: &[&Tree],
) -> Result<()> {
    (0..classes.len()).into_par_iter().try_for_each(|class| {
        for (column, (nodes, tree)) in nodes.iter().zip(trees).enumerate() {
            let (first, last) = tree.range(nodes[class]);
            let (low, high) = rows.extent(classes.range(class), column);
            if low < first || high > last {
                return Err(Error::bug(format!(
                    "a class does not cover its rows in quasi-identifier {}",
                    column + 1
                )));
            }
        }
        Ok(())
    })
}
