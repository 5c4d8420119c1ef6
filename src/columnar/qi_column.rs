//! A quasi-identifier's classes as an Arrow column: one published value per class.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray,
    StructArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, interleave};
use arrow::datatypes::{DataType, Field, Fields, Int64Type};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::domain::Domain;
use super::kernel_failed;
use super::kind::{Kind, plain_type};
use super::values::{as_integers, decimal_scale, exact, positions};
use crate::error::{Error, Result};
use crate::hierarchy::{MAX_SET_VALUES, Shape, TOP, Tree};

/// How a generalized number is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub enum Ranges {
    /// `[20-39]`
    Label,
    /// A struct of `lower` and `upper` in the column's own type.
    Bounds,
    /// The mean of the class.
    Mean,
}

impl Ranges {
    /// The published type of a quasi-identifier.
    pub fn published_type(self, data_type: &DataType, kind: Kind) -> DataType {
        let plain = plain_type(data_type);
        match self {
            Self::Bounds if kind.has_ranges() => DataType::Struct(bound_fields(&plain)),
            Self::Mean if matches!(kind, Kind::Integer | Kind::Float) => DataType::Float64,
            Self::Mean if kind.has_ranges() => plain,
            _ => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        }
    }
}

fn bound_fields(plain: &DataType) -> Fields {
    let field = |name| Field::new(name, plain.clone(), true);
    Fields::from(vec![field("lower"), field("upper")])
}

/// A quasi-identifier and what its form of publication needs, made once per release.
#[derive(Debug)]
pub(super) struct QiPublisher {
    form: Form,
}

#[derive(Debug)]
enum Form {
    Labels,
    Bounds,
    /// Means of floating-point values.
    FloatMeans(Vec<f64>),
    /// Means of exact values, to be divided by the decimal's unit.
    ExactMeans(Vec<i128>, f64),
    /// Means of dates and times, as the integers behind them.
    InstantMeans(Vec<i64>),
}

/// The cells of one class in one column.
pub(super) struct ClassCells<'a> {
    pub(super) low: u32,
    pub(super) high: u32,
    /// Appends the code of every row of the class.
    pub(super) codes: &'a dyn Fn(&mut Vec<u32>),
}

impl ClassCells<'_> {
    /// The codes in ascending order: the order of the rows must not show, not even in a last digit.
    fn sorted_codes(&self) -> Vec<u32> {
        let mut codes = Vec::new();
        (self.codes)(&mut codes);
        codes.sort_unstable();
        codes
    }
}

impl QiPublisher {
    pub(super) fn new(domain: &Domain, ranges: Ranges) -> Result<Self> {
        let name = &domain.name;
        let form = match (ranges, domain.kind) {
            (Ranges::Bounds, kind) if kind.has_ranges() => Form::Bounds,
            (Ranges::Mean, Kind::Float) => Form::FloatMeans(positions(&domain.values, name)?),
            (Ranges::Mean, Kind::Integer) => {
                let scale = decimal_scale(domain.values.data_type());
                Form::ExactMeans(exact(&domain.values, name)?, 10f64.powi(scale.into()))
            }
            (Ranges::Mean, kind) if kind.has_ranges() => {
                let integers = as_integers(&domain.values, name)?;
                let integers = cast(&integers, &DataType::Int64).map_err(kernel_failed(name))?;
                Form::InstantMeans(integers.as_primitive::<Int64Type>().values().to_vec())
            }
            _ => Form::Labels,
        };
        Ok(Self { form })
    }

    /// One published value per class, which covers its cells.
    pub(super) fn publish<'a>(
        &self,
        domain: &Domain,
        classes: impl Iterator<Item = ClassCells<'a>>,
    ) -> Result<ArrayRef> {
        let covering = |cells: ClassCells<'a>| Shown::covering(domain, &cells);
        match &self.form {
            Form::Labels => labels(domain, classes.map(covering)),
            Form::Bounds => bounds(domain, classes.map(covering)),
            Form::FloatMeans(values) => Ok(float_means(domain, values, classes)),
            Form::ExactMeans(values, unit) => Ok(exact_means(domain, values, *unit, classes)),
            Form::InstantMeans(values) => instant_means(domain, values, classes),
        }
    }

    /// One published value per class, a node of the column's tree.
    pub(super) fn publish_nodes(&self, domain: &Domain, nodes: &[u32]) -> Result<ArrayRef> {
        let Shape::Tree(tree) = &domain.axis.shape else {
            return Err(Error::bug(format!("column '{}' has nodes but no tree", domain.name)));
        };
        let shown = nodes.iter().map(|node| Shown::node(domain, tree, *node));
        match &self.form {
            Form::Labels => labels(domain, shown),
            Form::Bounds => bounds(domain, shown),
            // The rows of a node are not one class: their mean could be a single row's value.
            Form::FloatMeans(_) | Form::ExactMeans(..) | Form::InstantMeans(_) => {
                Err(Error::bug("means of nodes are not published"))
            }
        }
    }
}

/// What one class publishes in one column.
enum Shown<'a> {
    /// All its cells are missing.
    Missing,
    /// Nothing: the top of every hierarchy.
    Top,
    Value(u32),
    /// A node above the values, below the top.
    Node(&'a Tree, u32),
    /// From one value to another.
    Range(u32, u32),
    /// The values themselves.
    Set(Vec<u32>),
}

impl<'a> Shown<'a> {
    /// What covers the cells of a class most closely.
    fn covering(domain: &'a Domain, cells: &ClassCells<'_>) -> Self {
        let (low, high) = (cells.low, cells.high);
        if domain.position(high).is_none() {
            return Self::Missing;
        }
        if is_mixed(domain, cells) {
            return Self::Top;
        }
        if low == high {
            return Self::Value(low);
        }
        match &domain.axis.shape {
            Shape::Tree(tree) => Self::node(domain, tree, tree.ancestor(low, high)),
            Shape::Line(_) => Self::Range(low, high),
            // Both truth values together are all there is.
            Shape::Set if domain.kind == Kind::Boolean => Self::Top,
            Shape::Set => {
                let mut codes = cells.sorted_codes();
                codes.dedup();
                if codes.len() > MAX_SET_VALUES { Self::Top } else { Self::Set(codes) }
            }
        }
    }

    /// A node of the column's tree.
    fn node(domain: &'a Domain, tree: &'a Tree, node: u32) -> Self {
        match tree.label(node) {
            None if domain.position(node).is_none() => Self::Missing,
            None => Self::Value(node),
            Some(TOP) => Self::Top,
            Some(_) => Self::Node(tree, node),
        }
    }
}

/// Whether a class joins missing cells with values, which leaves nothing to say about it.
fn is_mixed(domain: &Domain, cells: &ClassCells<'_>) -> bool {
    domain.axis.missing && cells.low == 0 && cells.high > 0
}

fn labels<'a>(domain: &'a Domain, classes: impl Iterator<Item = Shown<'a>>) -> Result<ArrayRef> {
    let mut dictionary = Dictionary::default();
    let written = |code| domain.written(code).unwrap_or_default();
    let key = |shown: Shown<'a>| match shown {
        Shown::Missing => None,
        Shown::Top => Some(dictionary.key(u32::MAX, 0, || TOP.to_owned())),
        Shown::Value(code) => Some(dictionary.key(code, code, || written(code).to_owned())),
        Shown::Node(tree, node) => {
            let label = || tree.label(node).unwrap_or(TOP).to_owned();
            Some(dictionary.key(u32::MAX - 1, node, label))
        }
        Shown::Range(low, high) => {
            Some(dictionary.key(low, high, || format!("[{}-{}]", written(low), written(high))))
        }
        Shown::Set(codes) => {
            let values: Vec<&str> = codes.iter().map(|code| written(*code)).collect();
            Some(dictionary.set(format!("{{{}}}", values.join(", "))))
        }
    };
    let keys: Int32Array = classes.map(key).collect();
    let values: ArrayRef = Arc::new(dictionary.labels.iter().map(Some).collect::<StringArray>());
    let array = DictionaryArray::try_new(keys, values).map_err(kernel_failed(&domain.name))?;
    Ok(Arc::new(array))
}

/// Labels of one batch, each once.
#[derive(Default)]
struct Dictionary {
    labels: Vec<String>,
    by_codes: HashMap<(u32, u32), i32, FixedState>,
    by_text: HashMap<String, i32, FixedState>,
}

impl Dictionary {
    fn key(&mut self, low: u32, high: u32, label: impl FnOnce() -> String) -> i32 {
        let next = self.labels.len() as i32;
        *self.by_codes.entry((low, high)).or_insert_with(|| {
            self.labels.push(label());
            next
        })
    }

    fn set(&mut self, label: String) -> i32 {
        if let Some(key) = self.by_text.get(&label) {
            return *key;
        }
        let key = self.labels.len() as i32;
        self.labels.push(label.clone());
        self.by_text.insert(label, key);
        key
    }
}

/// Bounds come from the values themselves or, for nodes of a hierarchy, from the ends of the node: what
/// else is in the table must not show. An end beyond the column's type is that of the type, or NULL.
fn bounds<'a>(domain: &'a Domain, classes: impl Iterator<Item = Shown<'a>>) -> Result<ArrayRef> {
    let mut ends: Vec<&str> = Vec::new();
    let (mut lower, mut upper, mut known) = (Vec::new(), Vec::new(), Vec::new());
    for shown in classes {
        let value = |code| (0usize, domain.position(code).unwrap_or(0));
        let pair = match shown {
            Shown::Missing | Shown::Top | Shown::Set(_) => None,
            Shown::Value(code) => Some((value(code), value(code))),
            Shown::Range(low, high) => Some((value(low), value(high))),
            Shown::Node(tree, node) => tree.bounds(node).map(|(low, high)| {
                ends.extend([low.as_str(), high.as_str()]);
                ((1, ends.len() - 2), (1, ends.len() - 1))
            }),
        };
        known.push(pair.is_some());
        let (low, high) = pair.unwrap_or(((2, 0), (2, 0)));
        lower.push(low);
        upper.push(high);
    }
    let name = &domain.name;
    let plain = domain.values.data_type();
    let typed = |texts: Vec<Option<&str>>| {
        let texts: ArrayRef = Arc::new(StringArray::from(texts));
        cast(&texts, plain).map_err(kernel_failed(name))
    };
    let ends = typed(ends.into_iter().map(Some).collect())?;
    let limits = limits(plain);
    let limits = typed(limits.iter().map(Option::as_deref).collect())?;
    let nothing = arrow::array::new_null_array(plain, 1);
    let sources: [&dyn Array; 4] = [&domain.values, &ends, &nothing, &limits];
    let column = |from: Vec<(usize, usize)>| {
        let fitting = |(source, at)| match source {
            // Ends stand in pairs, and so do the limits.
            1 if sources[1].is_null(at) => (3, at % 2),
            _ => (source, at),
        };
        let from: Vec<(usize, usize)> = from.into_iter().map(fitting).collect();
        interleave(&sources, &from).map_err(kernel_failed(name))
    };
    let (lower, upper) = (column(lower)?, column(upper)?);
    let nulls = NullBuffer::from(known);
    let array = StructArray::try_new(bound_fields(plain), vec![lower, upper], Some(nulls))
        .map_err(kernel_failed(name))?;
    Ok(Arc::new(array))
}

/// The smallest and the largest whole number of a type, nothing for other types.
fn limits(plain: &DataType) -> [Option<String>; 2] {
    let (low, high) = match plain {
        DataType::Int8 => (i128::from(i8::MIN), i128::from(i8::MAX)),
        DataType::Int16 => (i128::from(i16::MIN), i128::from(i16::MAX)),
        DataType::Int32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
        DataType::Int64 => (i128::from(i64::MIN), i128::from(i64::MAX)),
        DataType::UInt8 => (0, i128::from(u8::MAX)),
        DataType::UInt16 => (0, i128::from(u16::MAX)),
        DataType::UInt32 => (0, i128::from(u32::MAX)),
        DataType::UInt64 => (0, i128::from(u64::MAX)),
        _ => return [None, None],
    };
    [Some(low.to_string()), Some(high.to_string())]
}

/// Positions in the domain of a class's cells, `None` where a mean would speak for fewer rows than
/// the class has: the mean of one known value among missing ones is that value.
fn positions_of(domain: &Domain, cells: &ClassCells<'_>) -> Option<Vec<usize>> {
    if is_mixed(domain, cells) {
        return None;
    }
    cells.sorted_codes().into_iter().map(|code| domain.position(code)).collect()
}

fn float_means<'a>(
    domain: &Domain,
    values: &[f64],
    classes: impl Iterator<Item = ClassCells<'a>>,
) -> ArrayRef {
    let mean = |cells: ClassCells<'a>| {
        let positions = positions_of(domain, &cells)?;
        if cells.low == cells.high {
            return positions.first().map(|position| values[*position]);
        }
        // Divided before it is summed, so that large values do not overflow.
        let rows = positions.len() as f64;
        Some(positions.iter().map(|position| values[*position] / rows).sum::<f64>())
    };
    Arc::new(classes.map(mean).collect::<Float64Array>())
}

fn exact_means<'a>(
    domain: &Domain,
    values: &[i128],
    unit: f64,
    classes: impl Iterator<Item = ClassCells<'a>>,
) -> ArrayRef {
    let mean = |cells: ClassCells<'a>| {
        let positions = positions_of(domain, &cells)?;
        if cells.low == cells.high {
            return positions.first().map(|position| values[*position] as f64 / unit);
        }
        let rows = positions.len() as f64;
        let exact = positions.iter().try_fold(0i128, |sum, at| sum.checked_add(values[*at]));
        let mean = exact.map(|sum| sum as f64 / rows);
        // Only sums of 38-digit decimals are too large for 128 bits.
        let mean =
            mean.unwrap_or_else(|| positions.iter().map(|at| values[*at] as f64 / rows).sum());
        Some(mean / unit)
    };
    Arc::new(classes.map(mean).collect::<Float64Array>())
}

fn instant_means<'a>(
    domain: &Domain,
    values: &[i64],
    classes: impl Iterator<Item = ClassCells<'a>>,
) -> Result<ArrayRef> {
    let mean = |cells: ClassCells<'a>| {
        let positions = positions_of(domain, &cells)?;
        let sum: i128 = positions.iter().map(|position| i128::from(values[*position])).sum();
        i64::try_from(sum.div_euclid(positions.len().max(1) as i128)).ok()
    };
    let means: ArrayRef = Arc::new(classes.map(mean).collect::<Int64Array>());
    let plain = domain.values.data_type();
    let narrow = match plain {
        DataType::Date32 | DataType::Time32(_) => DataType::Int32,
        _ => DataType::Int64,
    };
    let narrow = cast(&means, &narrow).map_err(kernel_failed(&domain.name))?;
    cast(&narrow, plain).map_err(kernel_failed(&domain.name))
}
