//! Associations between hierarchy nodes of different attributes.

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};

use super::{AsgOptions, Options, Variant};
use crate::association::{Frequent, ItemSet, Items, Limits, MAX_SET};
use crate::error::Result;
use crate::hierarchy::{Axis, Shape};
use crate::method::Job;
use crate::model::RowTable;

/// The most associations without the sensitive attribute that are kept, the most important ones.
const MOST_OTHERS: usize = 1 << 13;

/// A frequent node of an attribute below the top: all codes from the first to the last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) attribute: usize,
    first: u32,
    last: u32,
    /// Steps above the values.
    level: u32,
    /// Steps below the top, as a share of the hierarchy's height.
    depth: f64,
    /// The item above it, `None` below the top.
    parent: Option<u16>,
}

impl Node {
    pub(super) fn covers(&self, code: u32) -> bool {
        (self.first..=self.last).contains(&code)
    }
}

/// Nodes that go together.
#[derive(Debug, Clone)]
pub(super) struct Vertex {
    pub(super) set: ItemSet,
    pub(super) importance: f64,
}

/// What was found, the most important first.
#[derive(Debug, Default)]
pub(super) struct Associations {
    pub(super) with_sensitive: Vec<Vertex>,
    pub(super) others: Vec<Vertex>,
    pub(super) items: Vec<Node>,
    pub(super) cut: u64,
}

/// Finds the associations of the first rows of the table; the sensitive attribute is the last one.
pub(super) fn associations(
    table: &RowTable,
    rows: usize,
    job: &Job,
    options: &Options,
    asg: &AsgOptions,
) -> Result<Associations> {
    let support = (asg.min_support * rows as f64).ceil().max(1.0) as u32;
    let axes = job.axes.iter().chain([options.sensitive]);
    let mut found = Associations::default();
    let mut bits = Items::new(rows);
    for (attribute, axis) in axes.enumerate() {
        job.cancel.check()?;
        let first_item = found.items.len();
        let counts = table.counts(0..rows, attribute, axis.codes);
        let (nodes, parents) = frequent_nodes(&counts, attribute, axis, support);
        let codes = table.codes(0..rows, attribute);
        for node in nodes {
            let of = |row: usize| node.covers(codes[row]);
            match bits.add(attribute as u16, of) {
                Some(_) => found.items.push(node),
                None => found.cut += 1,
            }
        }
        for (item, parent) in found.items[first_item..].iter_mut().zip(parents) {
            item.parent = parent.map(|parent| (first_item + parent) as u16);
        }
    }
    let limits = Limits { support, items: options.max_columns.min(MAX_SET), work: asg.work };
    let frequent = Frequent::find(&bits, limits, job.cancel)?;
    found.cut += frequent.cut;
    let strength = |set: &ItemSet| match options.variant {
        // A node that nearly all rows have makes high-confidence rules with anything, but none with lift.
        Variant::Best => frequent.lift(set, rows),
        Variant::Paper => frequent.confidence(set),
    };
    found.record(&frequent, asg, job.axes.len(), strength);
    Ok(found)
}

/// The nodes below the top that enough rows have, given the rows of every code, and the position of each one's parent among them.
fn frequent_nodes(
    counts: &[u32],
    attribute: usize,
    axis: &Axis,
    support: u32,
) -> (Vec<Node>, Vec<Option<usize>>) {
    // Rows of all codes below.
    let mut below = vec![0u32; counts.len() + 1];
    (0..counts.len()).for_each(|code| below[code + 1] = below[code] + counts[code]);
    let is_frequent =
        |first: u32, last: u32| below[last as usize + 1] - below[first as usize] >= support;
    let leaf =
        |code: u32| Node { attribute, first: code, last: code, level: 0, depth: 1.0, parent: None };
    let Shape::Tree(tree) = &axis.shape else {
        let nodes: Vec<Node> =
            (0..axis.codes).filter(|code| is_frequent(*code, *code)).map(leaf).collect();
        let parents = vec![None; nodes.len()];
        return (nodes, parents);
    };
    let top = tree.nodes() - 1;
    let height = f64::from(tree.height().max(1));
    let mut positions: HashMap<u32, usize, FixedState> = HashMap::default();
    let mut nodes = Vec::new();
    for node in 0..top {
        let (first, last) = tree.range(node);
        if is_frequent(first, last) {
            let level = tree.level(node);
            let depth = f64::from(tree.height() - level) / height;
            positions.insert(node, nodes.len());
            nodes.push(Node { first, last, level, depth, ..leaf(first) });
        }
    }
    let mut parents = vec![None; nodes.len()];
    for (node, position) in &positions {
        parents[*position] = positions.get(&tree.parent(*node)).copied();
    }
    (nodes, parents)
}

impl Associations {
    /// Records the most specific sets in which a rule holds, set by set of attributes.
    fn record(
        &mut self,
        frequent: &Frequent,
        asg: &AsgOptions,
        sensitive: usize,
        strength: impl Fn(&ItemSet) -> f64,
    ) {
        let node = |item: u16| &self.items[item as usize];
        let height = |set: &ItemSet| set.items().iter().map(|item| node(*item).level).sum::<u32>();
        let mut vertices: Vec<(u32, ItemSet)> = (frequent.supports.keys())
            .filter(|set| set.items().len() > 1)
            .map(|set| (height(set), *set))
            .collect();
        vertices.sort_unstable();
        let mut marked: HashSet<ItemSet, FixedState> = HashSet::default();
        let (mut with_sensitive, mut others) = (Vec::new(), Vec::new());
        for (_, set) in vertices {
            let is_marked = marked.contains(&set);
            if !is_marked && frequent.confidence(&set) < asg.min_confidence {
                continue;
            }
            for (position, item) in set.items().iter().enumerate() {
                marked.extend(node(*item).parent.map(|parent| set.with(position, parent)));
            }
            if is_marked {
                continue;
            }
            let weight = |attribute: usize| asg.weights.get(attribute).copied().unwrap_or(1.0);
            let depths = set.items().iter().map(|item| {
                let node = node(*item);
                weight(node.attribute) * node.depth
            });
            let vertex = Vertex { set, importance: depths.sum::<f64>() + strength(&set) };
            match set.items().iter().any(|item| node(*item).attribute == sensitive) {
                true => with_sensitive.push(vertex),
                false => others.push(vertex),
            }
        }
        for found in [&mut with_sensitive, &mut others] {
            found.sort_by(|a, b| {
                b.importance.total_cmp(&a.importance).then_with(|| a.set.cmp(&b.set))
            });
        }
        // Every bucket looks at all of them.
        self.cut += others.len().saturating_sub(MOST_OTHERS) as u64;
        others.truncate(MOST_OTHERS);
        self.with_sensitive = with_sensitive;
        self.others = others;
    }
}
