//! Which values a published cell could stand for: the way back from a release to the persons in it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::super::domain::Remap;
use super::super::intern::Interner;
use super::super::values::positions;
use super::PublishedForm;
use super::losses::CellLosses;
use crate::error::{Error, Result};
use crate::hierarchy::{Shape, TOP};

/// Codes that a cell could stand for, in ascending stretches from the first to the last.
pub type Cover = Arc<[(u32, u32)]>;

/// What published cells of a column could stand for, among the values that persons have.
///
/// Cells are read as their losses are ([`CellLosses`]). Where a text can be read in several ways, it stands for the
/// values of all of them: nobody is ruled out who could be meant. A missing value is published as missing or as `*`.
#[derive(Debug)]
pub struct Covers {
    cells: CellLosses,
    interner: Interner,
    /// Codes of the interner's numbers.
    codes: Remap,
    /// The nodes with a label.
    nodes: HashMap<String, Vec<u32>, FixedState>,
    /// What was read before.
    read: HashMap<String, Option<Cover>, FixedState>,
}

impl Covers {
    pub(super) fn new(cells: CellLosses, interner: Interner, codes: Remap) -> Self {
        let mut nodes: HashMap<String, Vec<u32>, FixedState> = HashMap::default();
        if let Shape::Tree(tree) = &cells.domain.axis.shape {
            for node in tree.codes()..tree.nodes() {
                if let Some(label) = tree.label(node) {
                    nodes.entry(label.to_owned()).or_default().push(node);
                }
            }
        }
        Self { cells, interner, codes, nodes, read: HashMap::default() }
    }

    /// Number of codes.
    pub fn len(&self) -> u32 {
        self.cells.domain.axis.codes
    }

    /// Bytes held, roughly.
    pub fn memory(&self) -> usize {
        let nodes: usize = self.nodes.keys().map(|label| label.len() + 64).sum();
        let read: usize = self.read.keys().map(|label| label.len() + 96).sum();
        self.cells.memory() + self.interner.memory() + self.codes.capacity() * 4 + nodes + read
    }

    /// The codes of persons' values.
    pub fn codes(&mut self, values: &ArrayRef) -> Result<Vec<u32>> {
        let mut numbers = Vec::with_capacity(values.len());
        self.interner.intern(values, &mut numbers)?;
        let code = |number: u32| self.codes.get(number as usize).copied();
        let codes = numbers.into_iter().map(code).collect::<Option<Vec<u32>>>();
        codes.ok_or_else(|| {
            Error::invalid(
                "the register gave other values when it was read again: write it to a table first (CREATE TABLE … AS)",
            )
        })
    }

    /// What published cells could stand for, `None` for one that cannot be understood. Bounds come as two columns.
    pub fn of(&mut self, form: PublishedForm, cells: &[ArrayRef]) -> Result<Vec<Option<Cover>>> {
        match (form, cells) {
            (PublishedForm::Labels, [labels]) => {
                Ok(labels.as_string_view().iter().map(|label| self.label(label)).collect())
            }
            (PublishedForm::Bounds, [lower, upper]) => self.bounds(lower, upper),
            _ => Err(Error::bug("a published column has the wrong number of parts")),
        }
    }

    fn bounds(&self, lower: &ArrayRef, upper: &ArrayRef) -> Result<Vec<Option<Cover>>> {
        let name = self.cells.name();
        let (low, high) = (positions(lower, name)?, positions(upper, name)?);
        let cover = |at: usize| match lower.is_null(at) || upper.is_null(at) {
            // A missing value, or `*`.
            true => self.all(),
            false => stretches(self.between(low[at], high[at])),
        };
        Ok((0..lower.len()).map(|at| Some(cover(at))).collect())
    }

    fn label(&mut self, label: Option<&str>) -> Option<Cover> {
        let Some(label) = label else {
            return Some(stretches(self.cells.domain.axis.missing.then_some(0)));
        };
        if let Some(known) = self.read.get(label) {
            return known.clone();
        }
        let cover = self.read_label(label);
        self.read.insert(label.to_owned(), cover.clone());
        cover
    }

    fn read_label(&self, label: &str) -> Option<Cover> {
        if label == TOP {
            return Some(self.all());
        }
        let mut found = Vec::new();
        let mut is_read = false;
        if let Some(value) = self.cells.find(label) {
            found.push(self.code(value));
            is_read = true;
        }
        if let (Some(nodes), Shape::Tree(tree)) =
            (self.nodes.get(label), &self.cells.domain.axis.shape)
        {
            for node in nodes {
                let (first, last) = tree.range(*node);
                found.extend(first..=last);
            }
            is_read = true;
        }
        if self.cells.domain.kind.has_ranges() {
            let ends = self.cells.range(label).or_else(|| {
                self.cells.parse(&[label]).pop().flatten().map(|number| (number, number))
            });
            found.extend(ends.iter().flat_map(|(low, high)| self.between(*low, *high)));
            is_read |= ends.is_some();
        } else if let Some(listed) = self.listed(label) {
            found.extend(listed);
            is_read = true;
        }
        is_read.then(|| stretches(found))
    }

    /// The values that `{a, b}` can list, `None` if it lists none of them.
    fn listed(&self, label: &str) -> Option<Vec<u32>> {
        let inner = label.strip_prefix('{')?.strip_suffix('}')?;
        let separators =
            inner.match_indices(", ").map(|(at, separator)| (at, at + separator.len()));
        let (mut ends, mut starts): (Vec<usize>, Vec<usize>) = separators.unzip();
        starts.insert(0, 0);
        ends.push(inner.len());
        let mut found = Vec::new();
        for (part, start) in starts.iter().enumerate() {
            let of_value = ends[part..].iter().take(self.cells.parts);
            let values = of_value.filter_map(|end| self.cells.find(&inner[*start..*end]));
            found.extend(values.map(|value| self.code(value)));
        }
        (!found.is_empty()).then_some(found)
    }

    /// The codes of the values from one position to another.
    fn between(&self, low: f64, high: f64) -> impl Iterator<Item = u32> {
        let values = self.cells.line.iter().enumerate();
        let inside = values.filter(move |(_, position)| (low..=high).contains(*position));
        inside.map(move |(value, _)| self.code(value as u32))
    }

    fn code(&self, value: u32) -> u32 {
        value + u32::from(self.cells.domain.axis.missing)
    }

    fn all(&self) -> Cover {
        stretches(0..self.len())
    }
}

/// Codes as ascending stretches.
fn stretches(codes: impl IntoIterator<Item = u32>) -> Cover {
    let mut codes: Vec<u32> = codes.into_iter().collect();
    codes.sort_unstable();
    codes.dedup();
    let runs = codes.chunk_by(|one, next| *next == *one + 1);
    runs.map(|run| (run[0], run[run.len() - 1])).collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray, StringViewArray};

    use super::super::Originals;
    use super::*;
    use crate::columnar::domain::ResolvedHierarchy;

    fn covers(values: &ArrayRef, hierarchy: Option<&ResolvedHierarchy>) -> Result<Covers> {
        let mut originals = Originals::new("column", values.data_type());
        originals.add(values, &vec![1; values.len()])?;
        originals.into_covers(hierarchy)
    }

    /// The codes of the values that each label could stand for.
    fn read(covers: &mut Covers, labels: &[Option<&str>]) -> Result<Vec<Option<Vec<u32>>>> {
        let labels: ArrayRef = Arc::new(StringViewArray::from(labels.to_vec()));
        let found = covers.of(PublishedForm::Labels, &[labels])?;
        let codes = |cover: Cover| cover.iter().flat_map(|(first, last)| *first..=*last).collect();
        Ok(found.into_iter().map(|cover| cover.map(codes)).collect())
    }

    #[test]
    fn numbers_are_covered_by_values_ranges_and_bounds() -> Result<()> {
        let ages: ArrayRef = Arc::new(Int64Array::from(vec![Some(20), None, Some(35), Some(60)]));
        let mut ages = covers(&ages, None)?;
        let labels =
            [Some("35"), Some("[20-39]"), Some("*"), None, Some("[1-5]"), Some("[a-b]"), Some("x")];
        let all = Some(vec![0, 1, 2, 3]);
        let expected =
            [Some(vec![2]), Some(vec![1, 2]), all.clone(), Some(vec![0]), Some(vec![]), None, None];
        assert_eq!(read(&mut ages, &labels)?, expected);
        let lower: ArrayRef = Arc::new(Int64Array::from(vec![Some(30), None]));
        let upper: ArrayRef = Arc::new(Int64Array::from(vec![Some(60), None]));
        let bounds = ages.of(PublishedForm::Bounds, &[lower, upper])?;
        assert_eq!(bounds[0].as_deref(), Some(&[(2, 3)][..]));
        assert_eq!(bounds[1].as_deref(), Some(&[(0, 3)][..]));
        let again: ArrayRef = Arc::new(Int64Array::from(vec![Some(60), None, Some(20)]));
        assert_eq!(ages.codes(&again)?, [3, 0, 1]);
        let unknown: ArrayRef = Arc::new(Int64Array::from(vec![61]));
        assert!(ages.codes(&unknown).is_err());
        Ok(())
    }

    #[test]
    fn texts_are_covered_by_sets_and_by_nodes_of_their_hierarchy() -> Result<()> {
        let jobs: ArrayRef = Arc::new(StringArray::from(vec!["a", "a, b", "b", "c"]));
        let mut jobs = covers(&jobs, None)?;
        let labels = [Some("{a, b}"), Some("{b, c, d}"), Some("a, b"), Some("{d, e}"), Some("d")];
        let expected = [Some(vec![0, 1, 2]), Some(vec![2, 3]), Some(vec![1]), None, None];
        assert_eq!(read(&mut jobs, &labels)?, expected);
        let zips: ArrayRef = Arc::new(StringArray::from(vec!["021", "022", "110"]));
        let mut zips = covers(&zips, Some(&ResolvedHierarchy::Prefixes(vec![2, 1])))?;
        let labels = [Some("02*"), Some("1**"), Some("021"), Some("9**")];
        let expected = [Some(vec![0, 1]), Some(vec![2]), Some(vec![0]), None];
        assert_eq!(read(&mut zips, &labels)?, expected);
        let ages: ArrayRef = Arc::new(Int64Array::from(vec![20, 24, 28, 60]));
        let steps = ResolvedHierarchy::Intervals(vec!["5".to_owned(), "10".to_owned()]);
        let mut ages = covers(&ages, Some(&steps))?;
        let found = read(&mut ages, &[Some("[20-24]"), Some("[20-29]"), Some("[90-99]")])?;
        assert_eq!(found, [Some(vec![0, 1]), Some(vec![0, 1, 2]), Some(vec![])]);
        Ok(())
    }
}
