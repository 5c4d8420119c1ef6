//! Columns, and how they are written in SQL.

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

/// The option with its comma before it; nothing where no column has a hierarchy.
pub fn hierarchies(columns: &[Column]) -> String {
    let given = columns.iter().filter_map(|(name, source)| Some(format!("{name}: {}", (*source)?)));
    let given: Vec<String> = given.collect();
    match given.is_empty() {
        true => String::new(),
        false => format!(", hierarchies => {{{}}}", given.join(", ")),
    }
}
