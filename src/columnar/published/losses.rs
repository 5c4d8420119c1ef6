//! The loss of a published cell, from its text or bounds and the original column's values.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};

use super::super::automatic::{exact_steps, float_steps};
use super::super::domain::{Domain, ResolvedHierarchy};
use super::super::intern::Interner;
use super::super::kernel_failed;
use super::super::kind::Kind;
use super::super::values::{as_integers, exact, positions, write};
use super::covers::Covers;
use crate::error::Result;
use crate::hierarchy::{Shape, TOP, Tree};

// The hash only finds places in a table.
const STATE: FixedState = FixedState::with_seed(0);

/// Collects the distinct values of an original column.
#[derive(Debug)]
pub struct Originals {
    name: String,
    data_type: DataType,
    interner: Interner,
    rows: u64,
    missing: u64,
}

impl Originals {
    /// A column of which nothing was seen yet.
    pub fn new(name: &str, data_type: &DataType) -> Self {
        Self {
            name: name.to_owned(),
            data_type: data_type.clone(),
            interner: Interner::new(name, data_type),
            rows: 0,
            missing: 0,
        }
    }

    /// Takes in distinct values, each with the number of its rows.
    pub fn add(&mut self, values: &ArrayRef, rows: &[i64]) -> Result<()> {
        self.interner.intern(values, &mut Vec::with_capacity(values.len()))?;
        let nulls = values.logical_nulls();
        for (at, rows) in rows.iter().enumerate() {
            let rows = u64::try_from(*rows).unwrap_or(0);
            self.rows += rows;
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
                self.missing += rows;
            }
        }
        Ok(())
    }

    /// Rows seen.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes held, roughly.
    pub fn memory(&self) -> usize {
        self.interner.memory()
    }

    /// What generalizing these values loses, by the same hierarchy code that generalizes them.
    pub fn into_losses(self, hierarchy: Option<&ResolvedHierarchy>) -> Result<CellLosses> {
        let (domain, _) = Domain::new(&self.name, &self.data_type, &[&self.interner], hierarchy)?;
        let leaves = match hierarchy {
            Some(ResolvedHierarchy::Labels(table)) => Some(table.leaves().len()),
            _ => None,
        };
        CellLosses::new(domain, self.missing, leaves)
    }

    /// Which of these values a published cell could stand for, by the same reading of cells.
    pub fn into_covers(self, hierarchy: Option<&ResolvedHierarchy>) -> Result<Covers> {
        let Self { name, data_type, interner, missing, .. } = self;
        let (domain, mut remaps) = Domain::new(&name, &data_type, &[&interner], hierarchy)?;
        let codes = remaps.pop().unwrap_or_default();
        Ok(Covers::new(CellLosses::new(domain, missing, None)?, interner, codes))
    }
}

/// What one cell lost, from 0 (unchanged) to 1 (nothing left).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellLoss {
    /// NCP: the steps between its values over the steps between all.
    pub ncp: f64,
    /// ILoss: its values over all values, more than 0 for every cell that was generalized; NCP for floating-point numbers.
    pub iloss: f64,
    /// Levels climbed over the height of the hierarchy, `None` where no hierarchy tells it.
    pub climbed: Option<f64>,
}

impl CellLoss {
    const NONE: Self = Self { ncp: 0.0, iloss: 0.0, climbed: Some(0.0) };
    const ALL: Self = Self { ncp: 1.0, iloss: 1.0, climbed: Some(1.0) };
}

/// The most that nodes which are written alike have lost.
#[derive(Debug, Clone, Copy, Default)]
struct NodeLoss {
    ncp: f64,
    /// Levels climbed over the height of the hierarchy.
    climbed: f64,
}

impl NodeLoss {
    fn of(tree: &Tree, node: u32) -> Self {
        let climbed = f64::from(tree.level(node)) / f64::from(tree.height().max(1));
        Self { ncp: tree.loss(node), climbed }
    }

    fn max(self, other: Self) -> Self {
        Self { ncp: self.ncp.max(other.ncp), climbed: self.climbed.max(other.climbed) }
    }
}

/// What each cell of a published column lost.
///
/// A text is read as the first of these that it can be:
///
/// 1. `*`: everything is lost;
/// 2. a value of the original: nothing is lost, even if a node, a set or a range is written alike;
/// 3. a node of the hierarchy: what the hierarchy says, the most if several nodes have the label;
/// 4. numbers, dates and times: `[low-high]`, its width over the width of the original, or a single
///    value, which loses nothing;
/// 5. strings: `{a, b}`, the values it lists. A value may hold `, ` itself: where a text can be read
///    in several ways, the one with the most values counts.
#[derive(Debug)]
pub struct CellLosses {
    pub(super) domain: Domain,
    missing: u64,
    /// Finds a value by how it is written.
    by_text: HashTable<u32>,
    /// The largest loss of the nodes with a label.
    nodes: HashMap<String, NodeLoss, FixedState>,
    /// The largest loss of the nodes with these ends.
    by_ends: HashMap<(String, String), NodeLoss, FixedState>,
    /// Positions of the values on their line; empty for values without one.
    pub(super) line: Vec<f64>,
    /// Largest minus smallest position.
    width: f64,
    /// The widths of intervals, ascending, in the hierarchy that a method makes of numbers where it needs one and none is given.
    /// Empty where one is given.
    automatic: Vec<f64>,
    /// How many values the column could take: leaves of its table of labels, distance of the ends and
    /// 1 on a line, distinct values of all others.
    values: f64,
    /// Whether ILoss counts them. Between two floating-point numbers there is no number of values.
    counts_values: bool,
    /// The most parts that `, ` cuts a single value into.
    pub(super) parts: usize,
}

impl CellLosses {
    fn new(domain: Domain, missing: u64, leaves: Option<usize>) -> Result<Self> {
        let line = match domain.kind.has_ranges() {
            true => positions(&domain.values, &domain.name)?,
            false => Vec::new(),
        };
        let largest = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let smallest = line.iter().copied().fold(f64::INFINITY, f64::min);
        let mut by_text = HashTable::with_capacity(domain.written.len());
        let hash = |at: &u32| STATE.hash_one(domain.written.value(*at as usize));
        for at in 0..domain.written.len() as u32 {
            by_text.insert_unique(hash(&at), at, hash);
        }
        let parts = match domain.kind {
            Kind::Text => {
                let parts = |value: &str| value.matches(", ").count() + 1;
                domain.written.iter().flatten().map(parts).max().unwrap_or(1)
            }
            _ => 1,
        };
        let nodes = node_losses(&domain.axis.shape);
        let by_ends = losses_by_ends(&domain)?;
        let width = (largest - smallest).max(0.0);
        let automatic = automatic_widths(&domain, &line);
        let values = match leaves {
            Some(leaves) => leaves as f64,
            None if domain.kind.has_ranges() => width + 1.0,
            None => domain.written.len() as f64,
        };
        let counts_values = leaves.is_some() || domain.kind != Kind::Float;
        Ok(Self {
            domain,
            missing,
            by_text,
            nodes,
            by_ends,
            line,
            width,
            automatic,
            values,
            counts_values,
            parts,
        })
    }

    /// The column's name.
    pub fn name(&self) -> &str {
        &self.domain.name
    }

    /// Missing cells of the original.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Whether its values climb in a hierarchy.
    pub fn has_hierarchy(&self) -> bool {
        matches!(self.domain.axis.shape, Shape::Tree(_))
    }

    /// Bytes held, roughly.
    pub fn memory(&self) -> usize {
        let nodes: usize = self.nodes.keys().map(|label| label.len() + 48).sum();
        self.domain.values.get_array_memory_size()
            + self.domain.written.get_array_memory_size()
            + self.by_text.capacity() * 5
            + self.line.capacity() * size_of::<f64>()
            + nodes
            + self.by_ends.len() * 104
    }

    /// The loss of a cell by its text, `None` if it cannot be understood.
    pub fn label(&self, label: &str) -> Option<CellLoss> {
        if label == TOP {
            return Some(CellLoss::ALL);
        }
        if self.find(label).is_some() {
            return Some(CellLoss::NONE);
        }
        if let Some(node) = self.nodes.get(label) {
            return Some(self.at_node(*node));
        }
        match self.domain.kind {
            Kind::Text => self.set(label).map(|loss| self.generalized(loss)),
            Kind::Boolean => None,
            _ => match self.range(label) {
                Some((low, high)) => Some(self.over(low, high)),
                None => self.parse(&[label]).pop().flatten().map(|_| CellLoss::NONE),
            },
        }
    }

    /// The loss of a cell that does not show its value any more.
    fn generalized(&self, ncp: f64) -> CellLoss {
        if !self.counts_values {
            return CellLoss { ncp, iloss: ncp, climbed: None };
        }
        // NCP counts the steps between values, ILoss the values.
        let values = ncp * (self.values - 1.0) + 1.0;
        CellLoss { ncp, iloss: (values / self.values.max(1.0)).min(1.0), climbed: None }
    }

    /// The loss of a cell that publishes a node of the hierarchy.
    fn at_node(&self, node: NodeLoss) -> CellLoss {
        CellLoss { climbed: Some(node.climbed), ..self.generalized(node.ncp) }
    }

    /// The loss of a cell that publishes a range.
    fn over(&self, low: f64, high: f64) -> CellLoss {
        CellLoss {
            climbed: self.climbed_unnamed(low, high),
            ..self.generalized(self.share(low, high))
        }
    }

    /// Levels climbed over the height of the hierarchy that is made where none is given, `None` where these are not the ends
    /// of one of its intervals.
    fn climbed_unnamed(&self, low: f64, high: f64) -> Option<f64> {
        // Intervals of fractions touch and have rounded ends, those of whole numbers end a unit before the next one.
        let (last, slack) = if self.domain.kind == Kind::Float { (0.0, 1e-6) } else { (1.0, 0.0) };
        let is_near = |one: f64, other: f64, width: f64| (one - other).abs() <= slack * width;
        let is_width = |width: &f64| is_near(high - low + last, *width, *width);
        let level = self.automatic.iter().position(is_width)?;
        let width = self.automatic[level];
        let height = self.automatic.len() + 1;
        let is_aligned = is_near(low, (low / width).round() * width, width);
        is_aligned.then(|| (level + 1) as f64 / height as f64)
    }

    /// How many values a cell stands for that lost this much; all of them if nothing is known.
    pub(super) fn covered(&self, loss: Option<CellLoss>) -> f64 {
        let share = loss.map_or(1.0, |loss| loss.ncp);
        (share * (self.values - 1.0) + 1.0).max(1.0)
    }

    /// The losses of cells by their bounds, `None` for cells without.
    pub fn bounds(&self, lower: &ArrayRef, upper: &ArrayRef) -> Result<Vec<Option<CellLoss>>> {
        let name = self.name();
        let (low, high) = (positions(lower, name)?, positions(upper, name)?);
        let (low_text, high_text) = (write(lower, name)?, write(upper, name)?);
        let loss = |at: usize| {
            if lower.is_null(at) || upper.is_null(at) {
                return None;
            }
            let (low_end, high_end) = (low_text.value(at), high_text.value(at));
            if low_end == high_end {
                return Some(CellLoss::NONE);
            }
            let node = self.node_loss(low_end, high_end).map(|node| self.at_node(node));
            node.or_else(|| Some(self.over(low[at], high[at])))
        };
        Ok((0..lower.len()).map(loss).collect())
    }

    /// Position of a value in code order.
    pub(super) fn find(&self, text: &str) -> Option<u32> {
        let is_it = |at: &u32| self.domain.written.value(*at as usize) == text;
        self.by_text.find(STATE.hash_one(text), is_it).copied()
    }

    /// The loss of the hierarchy node with these ends, or over these two values.
    fn node_loss(&self, low: &str, high: &str) -> Option<NodeLoss> {
        if let Some(loss) = self.by_ends.get(&(low.to_owned(), high.to_owned())) {
            return Some(*loss);
        }
        let Shape::Tree(tree) = &self.domain.axis.shape else { return None };
        let shift = u32::from(self.domain.axis.missing);
        let (one, other) = (self.find(low)? + shift, self.find(high)? + shift);
        Some(NodeLoss::of(tree, tree.ancestor(one.min(other), one.max(other))))
    }

    fn share(&self, low: f64, high: f64) -> f64 {
        if self.width > 0.0 { ((high - low) / self.width).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The ends of `[low-high]`. Both may hold a `-` of their own: negative numbers, dates.
    pub(super) fn range(&self, label: &str) -> Option<(f64, f64)> {
        let inner = label.strip_prefix('[')?.strip_suffix(']')?;
        let ends: Vec<(&str, &str)> =
            inner.match_indices('-').map(|(at, _)| (&inner[..at], &inner[at + 1..])).collect();
        let position = |text: &str| Some(self.line[self.find(text)? as usize]);
        let known = |(low, high): &(&str, &str)| Some((position(low)?, position(high)?));
        let in_order = |(low, high): &(f64, f64)| low <= high;
        ends.iter().filter_map(known).find(in_order).or_else(|| {
            // Ends of aligned intervals need not be values of the column.
            let (low, high): (Vec<&str>, Vec<&str>) = ends.into_iter().unzip();
            let pairs = self.parse(&low).into_iter().zip(self.parse(&high));
            pairs.filter_map(|(low, high)| Some((low?, high?))).find(in_order)
        })
    }

    /// Texts as positions on the line, `None` where a text is no value of the column's type.
    pub(super) fn parse(&self, texts: &[&str]) -> Vec<Option<f64>> {
        let array: ArrayRef = Arc::new(texts.iter().map(Some).collect::<StringArray>());
        let parsed = cast(&array, self.domain.values.data_type())
            .map_err(kernel_failed(self.name()))
            .and_then(|values| as_integers(&values, self.name()))
            .and_then(|values| {
                cast(&values, &DataType::Float64).map_err(kernel_failed(self.name()))
            });
        match parsed {
            Ok(numbers) => {
                let numbers = numbers.as_primitive::<Float64Type>().iter();
                numbers.map(|number| number.filter(|number| number.is_finite())).collect()
            }
            // Some types are written but never read, durations for example.
            Err(_) => vec![None; texts.len()],
        }
    }

    /// `{a, b}`: the largest number of values that the text can list.
    fn set(&self, label: &str) -> Option<f64> {
        let inner = label.strip_prefix('{')?.strip_suffix('}')?;
        let mut starts: Vec<usize> = vec![0];
        starts.extend(inner.match_indices(", ").map(|(at, separator)| at + separator.len()));
        // most[n]: how many values the first n parts are, if they are whole values.
        let mut most: Vec<Option<usize>> = vec![Some(0)];
        for end in 1..=starts.len() {
            let to = starts.get(end).map_or(inner.len(), |next| next - ", ".len());
            let ending_here = (end.saturating_sub(self.parts)..end).filter_map(|start| {
                let values = most[start]?;
                self.find(&inner[starts[start]..to]).map(|_| values + 1)
            });
            let best = ending_here.max();
            most.push(best);
        }
        let values = most.last().copied().flatten()?;
        let all = self.domain.written.len();
        (values >= 2).then(|| ((values - 1) as f64 / all.saturating_sub(1).max(1) as f64).min(1.0))
    }
}

/// The widths of the intervals that a method makes of a column of numbers without a hierarchy.
fn automatic_widths(domain: &Domain, line: &[f64]) -> Vec<f64> {
    let has_hierarchy = matches!(domain.axis.shape, Shape::Tree(_));
    match domain.kind {
        Kind::Integer if !has_hierarchy => {
            let values = exact(&domain.values, &domain.name).unwrap_or_default();
            exact_steps(&values).into_iter().map(|step| step as f64).collect()
        }
        Kind::Float if !has_hierarchy => {
            float_steps(line).iter().filter_map(|step| step.parse().ok()).collect()
        }
        _ => Vec::new(),
    }
}

/// The loss of every node by its ends, as the column writes them.
fn losses_by_ends(domain: &Domain) -> Result<HashMap<(String, String), NodeLoss, FixedState>> {
    let mut by_ends = HashMap::default();
    let Shape::Tree(tree) = &domain.axis.shape else { return Ok(by_ends) };
    let nodes =
        (0..tree.nodes()).filter_map(|node| Some((tree.bounds(node)?, NodeLoss::of(tree, node))));
    let (ends, losses): (Vec<_>, Vec<NodeLoss>) = nodes.unzip();
    let written = |texts: StringArray| {
        let texts: ArrayRef = Arc::new(texts);
        let values =
            cast(&texts, domain.values.data_type()).map_err(kernel_failed(&domain.name))?;
        write(&values, &domain.name)
    };
    let lower = written(ends.iter().map(|(low, _)| Some(low)).collect())?;
    let upper = written(ends.iter().map(|(_, high)| Some(high)).collect())?;
    for ((low, high), loss) in lower.iter().zip(&upper).zip(losses) {
        if let (Some(low), Some(high)) = (low, high) {
            let known = by_ends.entry((low.to_owned(), high.to_owned())).or_insert(loss);
            *known = known.max(loss);
        }
    }
    Ok(by_ends)
}

fn node_losses(shape: &Shape) -> HashMap<String, NodeLoss, FixedState> {
    let mut losses = HashMap::with_hasher(STATE);
    let Shape::Tree(tree) = shape else { return losses };
    for node in tree.codes()..tree.nodes() {
        if let Some(label) = tree.label(node) {
            let known = losses.entry(label.to_owned()).or_insert(NodeLoss::default());
            *known = known.max(NodeLoss::of(tree, node));
        }
    }
    losses
}

#[cfg(test)]
mod tests;
