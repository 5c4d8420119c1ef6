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

/// Prec of a release from what its columns publish: for each quasi-identifier (levels climbed / height) summed over the
/// published cells, `None` where that cannot be told. The cells of rows that are not published count as climbed
/// to the top. `None` if a column cannot be told, or if there is nothing to measure.
///
/// ```
/// use datafusion_anonymize::pure::measure::release_precision;
/// // Three rows, of which one is suppressed; the others climbed 1 of 2 levels and none in the first column.
/// assert_eq!(release_precision(3, 1, &[Some(0.5), Some(0.0)]), Some(1.0 - 2.5 / 6.0));
/// ```
pub fn release_precision(rows: u64, suppressed: u64, climbed: &[Option<f64>]) -> Option<f64> {
    let total = climbed.iter().copied().sum::<Option<f64>>()?;
    let (cells, columns) = (rows as f64 * climbed.len() as f64, climbed.len() as f64);
    (cells > 0.0).then(|| 1.0 - (total + suppressed as f64 * columns) / cells)
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

#[cfg(test)]
mod tests {
    use super::*;

    // Figure 2 of the Classfly+ paper: nine rows of Race, Birth (heights 1) and ZIP (height 5).
    #[test]
    fn the_paper_s_example_from_what_its_columns_climbed() {
        let complete = [Some(2.0), Some(2.0), Some(2.0)];
        assert_eq!(release_precision(9, 0, &complete), Some(1.0 - 6.0 / 27.0));
        // The two suppressed rows left out instead of published as stars.
        assert_eq!(release_precision(9, 2, &[Some(0.0); 3]), Some(1.0 - 6.0 / 27.0));
        // Naive: four rows climb one level of the ZIP.
        let naive = release_precision(9, 0, &[Some(2.0), Some(2.0), Some(2.0 + 4.0 / 5.0)]);
        assert!(naive.is_some_and(|naive| (naive - (1.0 - 6.8 / 27.0)).abs() < 1e-12), "{naive:?}");
    }

    #[test]
    fn what_cannot_be_told_is_not_made_up() {
        assert_eq!(release_precision(9, 0, &[Some(2.0), None]), None);
        assert_eq!(release_precision(0, 0, &[Some(0.0)]), None);
        assert_eq!(release_precision(9, 0, &[]), None);
        assert_eq!(release_precision(4, 4, &[Some(0.0)]), Some(0.0));
    }
}
