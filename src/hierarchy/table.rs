//! Hierarchies written down leaf by leaf: `leaf;level 1;…;top`, one row per leaf.

use std::collections::HashMap;

use super::tree::depth_first;
use super::{Level, Levels};
use crate::error::{Error, Result};

/// A checked table of labels: all rows equally wide, no leaf twice, each level determines the next.
///
/// Labels are names and nothing more: `15-19` is never read as a range. Leaves are kept depth first,
/// in the order they were listed.
///
/// ```
/// use datafusion_anonymize::pure::hierarchy::LabelTable;
/// let table = LabelTable::parse("Flu;Viral;*\nHIV;Viral;*\nUlcer;Gastric;*\n")?;
/// assert_eq!(table.leaves(), ["Flu", "HIV", "Ulcer"]);
/// # Ok::<(), datafusion_anonymize::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LabelTable {
    leaves: Vec<String>,
    levels: Vec<Level>,
}

impl LabelTable {
    /// Reads and checks the `;` layout. There is no header; the last line break is optional.
    pub fn parse(text: &str) -> Result<Self> {
        Self::from_rows(Self::read_rows(text)?)
    }

    /// Reads the `;` layout: the fields of every line, with its number.
    pub fn read_rows(text: &str) -> Result<Vec<(usize, Vec<String>)>> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(b';')
            .has_headers(false)
            .flexible(true)
            .from_reader(text.as_bytes());
        let mut rows = Vec::new();
        for record in reader.records() {
            // The reader's own message could quote the line.
            let record = record.map_err(|error| {
                let line = error.position().map_or(0, csv::Position::line);
                Error::invalid(format!("line {line} of the hierarchy is not `;`-separated text"))
            })?;
            let line = record.position().map_or(0, csv::Position::line);
            rows.push((line as usize, record.iter().map(str::to_owned).collect()));
        }
        Ok(rows)
    }

    /// Checks rows of labels, each with the line number that messages should show.
    pub fn from_rows(rows: Vec<(usize, Vec<String>)>) -> Result<Self> {
        let Some((first_line, first)) = rows.first() else {
            return Err(Error::invalid("the hierarchy has no rows: write one row per leaf"));
        };
        let width = first.len();
        if width < 2 {
            return Err(Error::invalid(format!(
                "line {first_line} of the hierarchy has one field: write leaf;level 1;…;*"
            )));
        }
        if let Some((line, row)) = rows.iter().find(|(_, row)| row.len() != width) {
            return Err(Error::invalid(format!(
                "line {line} of the hierarchy has {} fields where line {first_line} has {width}: \
                 every leaf needs a label on every level",
                row.len()
            )));
        }
        check_leaves(&rows)?;
        (1..width).try_for_each(|level| check_level(&rows, level, width))?;
        Ok(Self::depth_first(rows, width))
    }

    fn depth_first(mut rows: Vec<(usize, Vec<String>)>, width: usize) -> Self {
        let level = |level: usize| {
            let labels = rows.iter().map(|(_, row)| Ok::<_, Error>(row[level].as_str()));
            let listed = Level::from_keys(labels, |label| Ok(((*label).to_owned(), 0.0)));
            let mut listed = listed.unwrap_or_default();
            listed.lose_by_values();
            listed
        };
        let listed = Levels((1..width).map(level).collect());
        let order = depth_first(&listed, rows.len());
        let positions = || order.iter().map(|row| *row as usize);
        Self {
            leaves: positions().map(|row| rows[row].1.swap_remove(0)).collect(),
            levels: listed.0.iter().map(|level| level.over(positions())).collect(),
        }
    }

    /// The leaves, depth first.
    pub fn leaves(&self) -> &[String] {
        &self.leaves
    }

    /// The levels over some of the leaves, given by their positions in [`LabelTable::leaves`].
    ///
    /// A node's loss counts all its leaves, whether they occur among these or not.
    pub fn levels_over(&self, leaves: &[usize]) -> Levels {
        // A last level of one node is the top, which every tree has anyway.
        let has_top = self.levels.last().is_some_and(|level| level.labels.len() == 1);
        let inner = self.levels.len() - usize::from(has_top);
        let over = |level: &Level| level.over(leaves.iter().copied());
        Levels(self.levels[..inner].iter().map(over).collect())
    }

    /// Gives every node of levels made by [`LabelTable::levels_over`] its ends: the smallest and the
    /// largest of all its leaves. `describe` tells a leaf's rank and how it is written.
    pub fn add_bounds<'a>(
        &self,
        levels: &mut Levels,
        leaves: &[usize],
        describe: impl Fn(usize) -> (u32, &'a str),
    ) {
        for (level, whole) in levels.0.iter_mut().zip(&self.levels) {
            // Outermost leaves of each node of the whole table.
            let mut ends: Vec<Option<(usize, usize)>> = vec![None; whole.labels.len()];
            for (leaf, node) in whole.node_of.iter().enumerate() {
                let (least, greatest) = ends[*node as usize].unwrap_or((leaf, leaf));
                let rank = |leaf| describe(leaf).0;
                ends[*node as usize] = Some((
                    if rank(leaf) < rank(least) { leaf } else { least },
                    if rank(leaf) > rank(greatest) { leaf } else { greatest },
                ));
            }
            level.bounds = vec![Default::default(); level.labels.len()];
            for (node, leaf) in level.node_of.iter().zip(leaves) {
                if let Some((least, greatest)) = ends[whole.node_of[*leaf] as usize] {
                    level.bounds[*node as usize] =
                        (describe(least).1.to_owned(), describe(greatest).1.to_owned());
                }
            }
        }
    }
}

fn check_leaves(rows: &[(usize, Vec<String>)]) -> Result<()> {
    let mut seen = HashMap::new();
    for (line, row) in rows {
        if let Some(earlier) = seen.insert(&row[0], line) {
            return Err(Error::invalid(format!(
                "lines {earlier} and {line} of the hierarchy have the same leaf: write one row per leaf"
            )));
        }
    }
    Ok(())
}

fn check_level(rows: &[(usize, Vec<String>)], level: usize, width: usize) -> Result<()> {
    if level + 1 == width {
        return Ok(());
    }
    let mut parents: HashMap<&str, (&str, usize)> = HashMap::new();
    for (line, row) in rows {
        let parent = row[level + 1].as_str();
        let (known, earlier) = *parents.entry(&row[level]).or_insert((parent, *line));
        if known != parent {
            return Err(Error::invalid(format!(
                "lines {earlier} and {line} of the hierarchy have the same label on level {level} and \
                 different ones on level {}: each level must determine the next",
                level + 1
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        LabelTable::parse(text).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn carriage_returns_and_a_missing_last_newline_are_fine() {
        let unix = LabelTable::parse("a;x;*\nb;x;*\n");
        assert_eq!(unix, LabelTable::parse("a;x;*\r\nb;x;*"));
        assert!(unix.is_ok());
    }

    #[test]
    fn leaves_are_depth_first_as_listed() {
        let table = LabelTable::parse("a;x;*\nb;y;*\nc;x;*\n").map(|table| table.leaves);
        assert_eq!(table, Ok(vec!["a".into(), "c".into(), "b".into()]));
    }

    #[test]
    fn broken_tables_are_refused_with_line_numbers() {
        assert!(message("").contains("no rows"));
        assert!(message("a\n").contains("line 1"));
        assert!(message("a;x;*\nb;*\n").contains("line 2 of the hierarchy has 2 fields"));
        assert!(message("a;x;*\na;x;*\n").contains("lines 1 and 2"));
        assert!(message("a;x;u;*\nb;x;v;*\n").contains("level 1"));
    }

    #[test]
    fn messages_never_show_a_label() {
        assert!(!message("secret;x;u;*\nother;x;v;*\n").contains("secret"));
    }

    #[test]
    fn extra_leaves_count_in_the_loss() {
        let table = LabelTable::parse("a;x;*\nb;x;*\nc;y;*\n");
        let losses = table.map(|table| table.levels_over(&[0]).0[0].losses.clone());
        assert_eq!(losses, Ok(vec![0.5]));
    }
}
