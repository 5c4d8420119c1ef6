//! Columns, and how they are written in SQL.

use crate::workspace::Workspace;

/// A name, and what the column generalizes by: the table `NAME_levels`, or SQL that makes a hierarchy. Without it numbers
/// become ranges and labels become sets.
pub type Column = (&'static str, Option<&'static str>);

pub fn names(columns: &[Column]) -> Vec<&'static str> {
    columns.iter().map(|(name, _)| *name).collect()
}

/// As the elements of a list of texts.
pub fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

impl Workspace {
    /// The option with its comma before it; nothing where no column has a hierarchy.
    ///
    /// Adult's hierarchies are given as its files, whose leaves stand in the order of their lines. Those of a table would be
    /// sorted by their texts: a table has no order.
    pub(crate) fn hierarchies(&self, columns: &[Column]) -> String {
        let source = |name: &str, source: &str| match self.levels_file(name) {
            Some(file) if source.ends_with("_levels") => {
                format!("'{}'", file.display().to_string().replace('\'', "''"))
            }
            _ => source.to_owned(),
        };
        let given = columns
            .iter()
            .filter_map(|(name, given)| Some(format!("{name}: {}", source(name, (*given)?))));
        let given: Vec<String> = given.collect();
        match given.is_empty() {
            true => String::new(),
            false => format!(", hierarchies => {{{}}}", given.join(", ")),
        }
    }
}
