//! The role of every input column.

use std::collections::HashMap;

use datafusion::common::{Column, DFSchema};

use super::Options;
use crate::error::{Error, Result};
use crate::model::MAX_QUASI_IDENTIFIERS;

impl Options {
    pub(super) fn roles(&self, input: &DFSchema) -> Result<Roles> {
        let mut assignment = Assignment::new(input)?;
        let listed = match self.quasi_identifiers.is_empty() {
            true => self.columns_of_constraints(input)?,
            false => self.quasi_identifiers.clone(),
        };
        let quasi_identifiers = assignment.assign("quasi_identifiers", &listed)?;
        let sensitive = assignment.assign("sensitive", &self.sensitive)?;
        assignment.assign("identifiers", &self.identifiers)?;
        let keep = assignment.assign("keep", &self.keep)?;
        let privacy_unit = assignment.assign("privacy_unit", self.privacy_unit.as_slice())?.pop();
        if quasi_identifiers.is_empty() {
            return Err(Error::invalid(
                "option 'quasi_identifiers' is missing: list the columns somebody could know about \
                 a person, as in quasi_identifiers => ['age', 'zip']",
            ));
        }
        if quasi_identifiers.len() > MAX_QUASI_IDENTIFIERS {
            return Err(Error::invalid(format!(
                "option 'quasi_identifiers': {} columns are more than the {MAX_QUASI_IDENTIFIERS} one \
                 release can have",
                quasi_identifiers.len()
            )));
        }
        assignment.check_complete()?;
        Ok(Roles { quasi_identifiers, sensitive, keep, privacy_unit })
    }
}

pub(super) struct Roles {
    pub(super) quasi_identifiers: Vec<Column>,
    pub(super) sensitive: Vec<Column>,
    pub(super) keep: Vec<Column>,
    pub(super) privacy_unit: Option<Column>,
}

impl Roles {
    /// Whether a column of this name is published.
    pub(super) fn publishes(&self, name: &str) -> bool {
        let published = self.quasi_identifiers.iter().chain(&self.sensitive).chain(&self.keep);
        published.into_iter().any(|column| column.name == name)
    }

    /// Errors if a column that the release adds under this option's name is in the input too.
    pub(super) fn check_free(&self, added: &str, is_added: bool) -> Result<()> {
        match is_added && self.publishes(added) {
            true => Err(Error::invalid(format!(
                "option '{added}': the input has a column '{added}' already; rename it in the input query"
            ))),
            false => Ok(()),
        }
    }
}

/// Which role every input column has been given so far.
pub(in crate::engine) struct Assignment<'a> {
    input: &'a DFSchema,
    roles: HashMap<Column, &'static str>,
}

impl<'a> Assignment<'a> {
    pub(in crate::engine) fn new(input: &'a DFSchema) -> Result<Self> {
        let mut seen = std::collections::HashSet::new();
        match input.fields().iter().find(|field| !seen.insert(field.name())) {
            Some(field) => Err(Error::invalid(format!(
                "the input has two columns named '{}': rename one of them in the input query",
                field.name()
            ))),
            None => Ok(Self { input, roles: HashMap::new() }),
        }
    }

    pub(in crate::engine) fn assign(
        &mut self,
        role: &'static str,
        names: &[String],
    ) -> Result<Vec<Column>> {
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let column = find_column(self.input, role, name)?;
            match self.roles.insert(column.clone(), role) {
                Some(earlier) if earlier == role => {
                    return Err(Error::invalid(format!(
                        "option '{role}': column '{}' is listed twice",
                        column.name
                    )));
                }
                Some(earlier) => {
                    return Err(Error::invalid(format!(
                        "column '{}' has two roles, {earlier} and {role}: keep one",
                        column.name
                    )));
                }
                None => columns.push(column),
            }
        }
        Ok(columns)
    }

    /// A lake that grows a column overnight must stop the job, not publish it.
    fn check_complete(&self) -> Result<()> {
        let without: Vec<String> = (self.input.columns().into_iter())
            .filter(|column| !self.roles.contains_key(column))
            .map(|column| format!("'{}'", column.name))
            .collect();
        if without.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "columns without a role: {}; add each of them to quasi_identifiers, sensitive, \
             identifiers (dropped) or keep (published as it is)",
            without.join(", ")
        )))
    }
}

/// The input column a name means: the one that is spelled so, or else the only one that differs in upper and
/// lower case alone.
pub(in crate::engine) fn find_column(input: &DFSchema, option: &str, name: &str) -> Result<Column> {
    let columns = input.columns();
    let exact = (columns.iter().find(|column| column.name == name))
        .or_else(|| columns.iter().find(|column| column.flat_name() == name));
    let lower = name.to_lowercase();
    let alike: Vec<&Column> =
        columns.iter().filter(|column| column.name.to_lowercase() == lower).collect();
    if exact.is_none() && alike.len() > 1 {
        let names: Vec<String> = alike.iter().map(|column| format!("'{}'", column.name)).collect();
        return Err(Error::invalid(format!(
            "option '{option}': '{name}' could be {}: write it as the column is spelled",
            names.join(" or ")
        )));
    }
    let found = exact.or_else(|| alike.first().copied());
    found.cloned().ok_or_else(|| {
        let known: Vec<String> =
            columns.iter().map(|column| format!("'{}'", column.name)).collect();
        Error::invalid(format!(
            "option '{option}': the input has no column '{name}'; it has {}",
            known.join(", ")
        ))
    })
}
