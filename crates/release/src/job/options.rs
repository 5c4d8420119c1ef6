//! What a job must know of its options before they meet rows.

use datafusion_anonymize::{AnonymizeConfig, Relation};
use datafusion_anonymize::{Family, MethodRef, Variant};

use super::Job;
use crate::error::{Error, Result};

impl Job {
    /// The method that the options choose. Settings of a host do not change it: a release depends on its file.
    pub fn method(&self) -> Result<MethodRef> {
        let method = self.anonymize.checked_method(&AnonymizeConfig::default());
        method.map_err(|error| Error::job(format!("anonymize: {error}")))
    }

    /// Whether quasi-identifiers and sensitive values are published apart.
    pub fn has_two_tables(&self) -> bool {
        self.is_of(Family::TwoTables)
    }

    /// Whether the method runs as its paper prints it.
    pub fn is_paper(&self) -> bool {
        self.anonymize.variant.is(Variant::Paper)
    }

    /// Whether values stay exact and the links between columns are broken.
    pub fn is_sliced(&self) -> bool {
        self.is_of(Family::Slices)
    }

    /// Whether the method keeps constraints instead of making classes.
    pub fn has_constraints(&self) -> bool {
        self.is_of(Family::Constraints)
    }

    fn is_of(&self, family: Family) -> bool {
        self.method().is_ok_and(|method| method.family() == family)
    }

    /// Columns with their k that a release must keep, also where they are written as k and quasi-identifiers.
    pub fn constraints(&self) -> Vec<(Vec<String>, i64)> {
        let options = &self.anonymize;
        match (options.constraints.is_empty(), options.k) {
            (true, Some(k)) => vec![(options.quasi_identifiers.clone(), k)],
            _ => options.constraints.clone(),
        }
    }

    /// The quasi-identifiers; those of the constraints if none are listed.
    pub fn all_quasi_identifiers(&self) -> Vec<String> {
        let mut columns = self.anonymize.quasi_identifiers.clone();
        if columns.is_empty() {
            for column in self.anonymize.constraints.iter().flat_map(|(columns, _)| columns) {
                if !columns.contains(column) {
                    columns.push(column.clone());
                }
            }
        }
        columns
    }

    pub(super) fn check_options(&self) -> Result<()> {
        let method = self.method()?;
        if self.is_sliced() && self.anonymize.bucket_id == Some(false) {
            return Err(Error::job(
                "anonymize: without its buckets nobody can verify a sliced release; write bucket_id = true, \
                 or leave it out",
            ));
        }
        if self.has_two_tables() && self.is_paper() {
            return Err(Error::job(format!(
                "anonymize: variant = \"paper\" of method '{method}' is for experiments: readers of both tables \
                 can use the order of its rows to name people; leave it out"
            )));
        }
        for lookup in self.anonymize.clone().relations() {
            if let Relation::Named(name) = &*lookup.relation
                && !self.inputs.contains_key(name)
            {
                return Err(Error::job(format!(
                    "anonymize: {} names the input '{name}', which is not there; write [input.{name}] with \
                     its path",
                    lookup.what
                )));
            }
        }
        Ok(())
    }
}
