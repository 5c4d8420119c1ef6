//! Whole columns as numbers of labels, and the labels above each: what associations are counted on.

use arrow::array::{Array, ArrayRef};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::super::domain::{Domain, ResolvedHierarchy};
use super::super::intern::Interner;
use super::super::values::write;
use crate::error::Result;
use crate::hierarchy::Shape;

/// By label, the labels above it in its hierarchy, without the top.
pub type LabelsAbove = HashMap<String, Vec<String>, FixedState>;

/// The cells of an original column, in the order in which they came.
#[derive(Debug)]
pub struct OriginalCells {
    name: String,
    interner: Interner,
    numbers: Vec<u32>,
}

/// Numbers for the values of a column, whatever its type: the same value has the same number in every table.
#[derive(Debug)]
pub struct ValueNumbers(Interner);

impl ValueNumbers {
    /// A column of which nothing was seen yet.
    pub fn new(name: &str, data_type: &arrow::datatypes::DataType) -> Self {
        Self(Interner::new(name, data_type))
    }

    /// The numbers of some values.
    pub fn of(&mut self, values: &ArrayRef) -> Result<Vec<u32>> {
        let mut numbers = Vec::with_capacity(values.len());
        self.0.intern(values, &mut numbers)?;
        Ok(numbers)
    }

    /// Bytes held, roughly.
    pub fn memory(&self) -> usize {
        self.0.memory()
    }
}

/// A column of labels; cells are numbers of labels.
#[derive(Debug, Default)]
pub struct LabelledCells {
    /// By number; `None` for a missing cell.
    pub labels: Vec<Option<String>>,
    /// By row.
    pub cells: Vec<u32>,
    numbers: HashMap<String, u32, FixedState>,
}

impl OriginalCells {
    /// A column of which nothing was seen yet.
    pub fn new(name: &str, data_type: &arrow::datatypes::DataType) -> Self {
        let interner = Interner::new(name, data_type);
        Self { name: name.to_owned(), interner, numbers: Vec::new() }
    }

    /// Takes in cells.
    pub fn add(&mut self, cells: &ArrayRef) -> Result<()> {
        self.interner.intern(cells, &mut self.numbers)
    }

    /// Bytes held, roughly.
    pub fn memory(&self) -> usize {
        self.interner.memory() + self.numbers.capacity() * size_of::<u32>()
    }

    /// The column in labels, and what its hierarchy says about them.
    pub fn finish(
        self,
        data_type: &arrow::datatypes::DataType,
        hierarchy: Option<&ResolvedHierarchy>,
    ) -> Result<(LabelledCells, LabelsAbove)> {
        let (domain, remaps) = Domain::new(&self.name, data_type, &[&self.interner], hierarchy)?;
        let labels = (0..domain.axis.codes).map(|code| domain.written(code).map(str::to_owned));
        let remap = &remaps[0];
        let cells = self.numbers.into_iter().map(|number| remap[number as usize]).collect();
        let labels = LabelledCells { labels: labels.collect(), cells, ..LabelledCells::default() };
        Ok((labels, labels_above(&domain)))
    }
}

fn labels_above(domain: &Domain) -> LabelsAbove {
    let mut above = LabelsAbove::default();
    let Shape::Tree(tree) = &domain.axis.shape else { return above };
    let top = tree.nodes() - 1;
    let label = |node: u32| tree.label(node).or_else(|| domain.written(node)).map(str::to_owned);
    for node in 0..top {
        let parents = std::iter::successors(Some(tree.parent(node)), |at| Some(tree.parent(*at)));
        let parents = parents.take_while(|at| *at != top).filter_map(label).collect();
        if let Some(label) = label(node) {
            above.entry(label).or_insert(parents);
        }
    }
    above
}

impl LabelledCells {
    /// Takes in published cells, of any type that can be written.
    pub fn add(&mut self, name: &str, cells: &ArrayRef) -> Result<()> {
        let written = write(cells, name)?;
        for at in 0..written.len() {
            let next = self.labels.len() as u32;
            // A missing cell is no label, and different from every one.
            let number = match written.is_null(at) {
                true => match self.labels.iter().position(Option::is_none) {
                    Some(number) => number as u32,
                    None => {
                        self.labels.push(None);
                        next
                    }
                },
                false => {
                    let label = written.value(at);
                    match self.numbers.get(label) {
                        Some(number) => *number,
                        None => {
                            self.labels.push(Some(label.to_owned()));
                            self.numbers.insert(label.to_owned(), next);
                            next
                        }
                    }
                }
            };
            self.cells.push(number);
        }
        Ok(())
    }

    /// Bytes held, roughly.
    pub fn memory(&self) -> usize {
        let label = |label: &Option<String>| 2 * label.as_ref().map_or(0, String::len) + 64;
        self.cells.capacity() * size_of::<u32>() + self.labels.iter().map(label).sum::<usize>()
    }
}
