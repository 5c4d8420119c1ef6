//! Precision: how far values stay below the tops of their hierarchies.

use rayon::prelude::*;

use crate::hierarchy::Tree;

/// Prec = 1 − mean over rows and columns of (levels climbed / height), from 1 (unchanged) to 0
/// (every cell at its top). `nodes` holds, by column, the published node of each row.
///
/// ```
/// use datafusion_anonymize::hierarchy::{LabelTable, Tree};
/// use datafusion_anonymize::measure::precision;
/// let table = LabelTable::parse("a;x;*\nb;x;*\nc;y;*\n")?;
/// let (tree, _) = Tree::new(&table.levels_over(&[0, 1, 2]), 3, false);
/// // a, the node x and the top: 0, 1 and 2 of 2 levels climbed.
/// assert_eq!(precision(&[vec![0, 3, 5]], &[&tree]), 0.5);
/// # Ok::<(), datafusion_anonymize::Error>(())
/// ```
pub fn precision(nodes: &[Vec<u32>], trees: &[&Tree]) -> f64 {
    let climbed = |(nodes, tree): (&Vec<u32>, &&Tree)| {
        // Whole levels are summed, so that the order of the rows cannot change the last digit.
        let levels: u64 = nodes.iter().map(|node| u64::from(tree.level(*node))).sum();
        levels as f64 / f64::from(tree.height().max(1))
    };
    let by_column: Vec<f64> = nodes.par_iter().zip(trees).map(climbed).collect();
    let cells: usize = nodes.iter().map(Vec::len).sum();
    1.0 - by_column.iter().sum::<f64>() / cells.max(1) as f64
}
