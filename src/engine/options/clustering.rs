//! Options of the methods that group by distance.

use datafusion::common::{Column, DFSchema};

use super::{Options, find_column};
use crate::error::{Error, Result};

impl Options {
    /// A weight for every quasi-identifier, 1 where none was given; empty without any.
    pub(super) fn checked_weights(
        &self,
        input: &DFSchema,
        quasi_identifiers: &[Column],
    ) -> Result<Vec<f64>> {
        let mut given: Vec<Option<f64>> = vec![None; quasi_identifiers.len()];
        for (name, weight) in &self.weights {
            let column = find_column(input, "weights", name)?;
            let place = quasi_identifiers.iter().position(|qi| *qi == column);
            let place = place.ok_or_else(|| {
                Error::invalid(format!(
                    "option 'weights': column '{name}' is not a quasi-identifier; only those are \
                     compared"
                ))
            })?;
            if !(weight.is_finite() && *weight > 0.0) {
                return Err(Error::invalid(format!(
                    "option 'weights': {weight} of column '{name}' is not a finite number above 0; \
                     write 1 for a column that counts like any other"
                )));
            }
            if given[place].replace(*weight).is_some() {
                return Err(Error::invalid(format!(
                    "option 'weights': column '{name}' has two weights; keep one"
                )));
            }
        }
        match self.weights.is_empty() {
            true => Ok(Vec::new()),
            false => Ok(given.into_iter().map(|weight| weight.unwrap_or(1.0)).collect()),
        }
    }

    pub(super) fn checked_block_rows(&self) -> Result<Option<usize>> {
        match self.block_rows.map(usize::try_from) {
            None => Ok(None),
            Some(Ok(rows)) if rows > 0 => Ok(Some(rows)),
            Some(_) => Err(Error::invalid(format!(
                "option 'block_rows': {} rows are no block; write block_rows => 65536",
                self.block_rows.unwrap_or(0)
            ))),
        }
    }
}
