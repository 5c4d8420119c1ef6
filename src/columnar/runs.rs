//! Runs of equal rows in a sorted stream of batches.

use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use arrow::compute::{concat, partition};

use super::kernel_failed;
use crate::error::Result;

/// Finds where the rows of a sorted stream change. NULL is equal to NULL.
#[derive(Debug, Default)]
pub struct Runs {
    /// The last row of the batch before.
    last: Option<Vec<ArrayRef>>,
}

impl Runs {
    /// The runs of the next batch, and whether the first of them continues the last one before.
    pub fn next(&mut self, columns: &[ArrayRef]) -> Result<(bool, Vec<Range<usize>>)> {
        let rows = columns.first().map_or(0, |column| column.len());
        if rows == 0 {
            return Ok((false, Vec::new()));
        }
        let continues = match &self.last {
            Some(last) => {
                let edge = |(last, column): (&ArrayRef, &ArrayRef)| {
                    concat(&[last.as_ref(), column.slice(0, 1).as_ref()])
                };
                let edges = last.iter().zip(columns).map(edge).collect::<Result<Vec<_>, _>>();
                let edges = partition(&edges.map_err(kernel_failed("any"))?);
                edges.map_err(kernel_failed("any"))?.len() == 1
            }
            None => false,
        };
        self.last = Some(columns.iter().map(|column| column.slice(rows - 1, 1)).collect());
        let runs = partition(columns).map_err(kernel_failed("any"))?;
        Ok((continues, runs.ranges()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, StringViewArray};

    use super::*;

    fn columns(numbers: &[Option<i32>], texts: &[&str]) -> Vec<ArrayRef> {
        vec![
            Arc::new(Int32Array::from(numbers.to_vec())),
            Arc::new(StringViewArray::from_iter_values(texts)),
        ]
    }

    #[test]
    fn a_run_may_go_on_in_the_next_batch() -> Result<()> {
        let mut runs = Runs::default();
        let (continues, ranges) = runs.next(&columns(&[None, None, Some(1)], &["a", "a", "a"]))?;
        assert_eq!((continues, ranges), (false, vec![0..2, 2..3]));
        let (continues, ranges) = runs.next(&columns(&[], &[]))?;
        assert_eq!((continues, ranges), (false, vec![]));
        let (continues, ranges) = runs.next(&columns(&[Some(1), Some(1)], &["a", "b"]))?;
        assert_eq!((continues, ranges), (true, vec![0..1, 1..2]));
        let (continues, _) = runs.next(&columns(&[Some(1)], &["c"]))?;
        assert!(!continues);
        Ok(())
    }
}
