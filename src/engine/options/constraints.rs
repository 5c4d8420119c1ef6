//! Constraints over the quasi-identifiers.

use datafusion::common::{Column, DFSchema};

use super::{Options, find_column};
use crate::engine::options::AnonymizeConfig;
use crate::error::{Error, Result};
use crate::method::classfly::Constraint;

impl Options {
    /// The constraints over the quasi-identifiers; without any, all of them with the one k.
    pub(super) fn checked_constraints(
        &self,
        settings: &AnonymizeConfig,
        input: &DFSchema,
        quasi_identifiers: &[Column],
    ) -> Result<Vec<Constraint>> {
        if self.constraints.is_empty() {
            let columns = (0..quasi_identifiers.len()).collect();
            return Ok(vec![Constraint { columns, k: self.checked_k(settings)? }]);
        }
        if self.k.is_some() {
            return Err(Error::invalid(
                "options 'k' and 'constraints' exclude each other: every constraint has its own k",
            ));
        }
        let mut constraints: Vec<Constraint> = Vec::with_capacity(self.constraints.len());
        for (number, (names, k)) in (1..).zip(&self.constraints) {
            let found = constraint_columns(number, names, *k, input)?;
            let mut columns = Vec::with_capacity(found.len());
            for column in found {
                let place = quasi_identifiers.iter().position(|qi| *qi == column);
                columns.push(place.ok_or_else(|| {
                    Error::invalid(format!(
                        "option 'constraints': column '{}' of constraint {number} is not in \
                         quasi_identifiers; add it there, or leave quasi_identifiers out",
                        column.name
                    ))
                })?);
            }
            columns.sort_unstable();
            let k = u32::try_from(*k).map_err(|_| {
                Error::invalid(format!(
                    "option 'constraints': k = {k} of constraint {number} is more than a table can \
                     hold"
                ))
            })?;
            let constraint = Constraint { columns, k };
            if let Some(earlier) = constraints.iter().position(|other| *other == constraint) {
                return Err(Error::invalid(format!(
                    "option 'constraints': constraints {} and {number} are identical; remove one of \
                     them",
                    earlier + 1
                )));
            }
            constraints.push(constraint);
        }
        let is_free = |index: &usize| !constraints.iter().any(|c| c.columns.contains(index));
        if let Some(index) = (0..quasi_identifiers.len()).find(is_free) {
            return Err(Error::invalid(format!(
                "option 'quasi_identifiers': column '{}' is in no constraint and would be published \
                 as it is; add it to a constraint, or list it in keep or identifiers",
                quasi_identifiers[index].name
            )));
        }
        Ok(constraints)
    }

    /// The columns of all constraints, each once, in the order in which they are named.
    pub(super) fn columns_of_constraints(&self, input: &DFSchema) -> Result<Vec<String>> {
        let mut columns: Vec<String> = Vec::new();
        for (number, (names, k)) in (1..).zip(&self.constraints) {
            for column in constraint_columns(number, names, *k, input)? {
                if !columns.contains(&column.name) {
                    columns.push(column.name);
                }
            }
        }
        Ok(columns)
    }
}

/// The input columns that a constraint names, each once.
pub(in crate::engine) fn constraint_columns(
    number: usize,
    names: &[String],
    k: i64,
    input: &DFSchema,
) -> Result<Vec<Column>> {
    if k < 2 {
        return Err(Error::invalid(format!(
            "option 'constraints': k = {k} of constraint {number} hides nobody; write 2 or more"
        )));
    }
    if names.is_empty() {
        return Err(Error::invalid(format!(
            "option 'constraints': constraint {number} has no columns; list those that one recipient \
             could know, as in {{columns: ['age', 'zip'], k: 3}}"
        )));
    }
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let column = find_column(input, "constraints", name)?;
        if columns.contains(&column) {
            return Err(Error::invalid(format!(
                "option 'constraints': constraint {number} names column '{}' twice; keep one",
                column.name
            )));
        }
        columns.push(column);
    }
    Ok(columns)
}
