//! Under which node each distinct value falls, level by level.

use std::collections::HashMap;
use std::convert::Infallible;

/// One level of a hierarchy above the values: the nodes and which of them holds each value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Level {
    /// Node of each value, by the value's position.
    pub node_of: Vec<u32>,
    /// What a node is called when it is published.
    pub labels: Vec<String>,
    /// What publishing the node instead of a value loses, from 0 to 1.
    pub losses: Vec<f64>,
    /// The ends of each node, written as the column writes its values; empty where a node is only
    /// a name.
    pub bounds: Vec<(String, String)>,
}

/// All levels above the values, from the finest upward. The single top above them is implied.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Levels(pub Vec<Level>);

impl Level {
    /// The level that a function of the values' positions describes: values with the same node key
    /// share a node, `describe` is asked once per node for its label and loss.
    pub(super) fn from_keys<K: std::hash::Hash + Eq, E>(
        keys: impl Iterator<Item = Result<K, E>>,
        mut describe: impl FnMut(&K) -> Result<(String, f64), E>,
    ) -> Result<Self, E> {
        let mut level = Self::default();
        let mut nodes: HashMap<K, u32> = HashMap::new();
        for key in keys {
            let key = key?;
            let node = match nodes.get(&key) {
                Some(node) => *node,
                None => {
                    let (label, loss) = describe(&key)?;
                    let node = level.labels.len() as u32;
                    level.labels.push(label);
                    level.losses.push(loss);
                    nodes.insert(key, node);
                    node
                }
            };
            level.node_of.push(node);
        }
        Ok(level)
    }

    /// The same nodes over some of the values, given by their positions. Nodes keep their losses.
    pub(super) fn over(&self, values: impl Iterator<Item = usize>) -> Self {
        let nodes = values.map(|value| Ok::<_, Infallible>(self.node_of[value] as usize));
        let describe = |node: &usize| Ok((self.labels[*node].clone(), self.losses[*node]));
        Self::from_keys(nodes, describe).unwrap_or_default()
    }

    /// Sets each node's loss to the share of the values it holds, `(values − 1) / (all − 1)`.
    pub(super) fn lose_by_values(&mut self) {
        let mut values = vec![0usize; self.labels.len()];
        for node in &self.node_of {
            values[*node as usize] += 1;
        }
        // In a domain of one value every node has one, and the quotient is 0.
        let others = self.node_of.len().saturating_sub(1).max(1) as f64;
        self.losses = values.iter().map(|held| held.saturating_sub(1) as f64 / others).collect();
    }
}
