//! Precision: how far values stay below the tops of their hierarchies.

use rayon::prelude::*;

use crate::hierarchy::Tree;

/// Prec = 1 − mean over rows and columns of (levels climbed / height), from 1 (unchanged) to 0
/// (every cell at its top). `nodes` holds, by column, the published node of each row.
///
/// ```
/// use datafusion_anonymize::pure::hierarchy::{LabelTable, Tree};
/// use datafusion_anonymize::pure::measure::precision;
/// let table = LabelTable::parse("a;x;*\nb;x;*\nc;y;*\n")?;
/// let (tree, _) = Tree::new(&table.levels_over(&[0, 1, 2]), 3, false);
/// // a, the node x and the top: 0, 1 and 2 of 2 levels climbed.
/// assert_eq!(precision(&[vec![0, 3, 5]], &[&tree]), 0.5);
/// # Ok::<(), datafusion_anonymize::Error>(())
/// ```
pub fn precision(nodes: &[Vec<u32>], trees: &[&Tree]) -> f64 {
    1.0 - mean_over_cells(nodes, trees, |tree, node| {
        f64::from(tree.level(node)) / f64::from(tree.height().max(1))
    })
}

/// Mean loss (NCP) of published nodes, from 0 (unchanged) to 1 (every cell at its top).
pub fn node_loss(nodes: &[Vec<u32>], trees: &[&Tree]) -> f64 {
    mean_over_cells(nodes, trees, Tree::loss)
}

/// Counts the rows of every node first, so that their order cannot change the last digit.
fn mean_over_cells(
    nodes: &[Vec<u32>],
    trees: &[&Tree],
    of_node: impl Fn(&Tree, u32) -> f64 + Sync,
) -> f64 {
    let of_column = |(nodes, tree): (&Vec<u32>, &&Tree)| {
        let mut rows = vec![0u32; tree.nodes() as usize];
        nodes.iter().for_each(|node| rows[*node as usize] += 1);
        let terms = (0..tree.nodes()).zip(rows).filter(|(_, rows)| *rows > 0);
        terms.map(|(node, rows)| f64::from(rows) * of_node(tree, node)).sum::<f64>()
    };
    let by_column: Vec<f64> = nodes.par_iter().zip(trees).map(of_column).collect();
    let cells: usize = nodes.iter().map(Vec::len).sum();
    by_column.iter().sum::<f64>() / cells.max(1) as f64
}
