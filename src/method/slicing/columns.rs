//! Which attributes of a bucket stay together.

use super::AsgOptions;
use super::groups::Groups;
use super::promise::{all, bits};
use super::rows::Rows;
use super::vertices::{Node, Vertex};
use crate::association::ItemSet;

/// The columns of a bucket; quasi-identifiers as bits. Every one of them is in exactly one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Columns {
    /// The quasi-identifiers beside the sensitive attribute.
    pub(super) with_sensitive: u64,
    /// The other columns, none of them empty.
    pub(super) others: Vec<u64>,
}

impl Columns {
    /// All quasi-identifiers in one column and the sensitive attribute apart.
    pub(super) fn apart(attributes: usize) -> Self {
        Self { with_sensitive: 0, others: vec![all(attributes)] }
    }

    /// Groups of the quasi-identifiers that vary. The others tell nothing apart and stand beside the sensitive
    /// attribute.
    pub(super) fn grouped(rows: &Rows, groups: &Groups) -> Self {
        let attributes = groups.attributes();
        match varying(rows, attributes) {
            0 => Self::apart(attributes),
            varying => Self {
                with_sensitive: all(attributes) & !varying,
                others: groups.of(rows, varying),
            },
        }
    }

    /// Takes quasi-identifiers away from the sensitive attribute.
    pub(super) fn cut_off(&mut self, attributes: u64) {
        let leaving = self.with_sensitive & attributes;
        self.with_sensitive &= !attributes;
        if leaving != 0 {
            self.others.push(leaving);
        }
    }

    /// Joins the two smallest columns beside the sensitive attribute's.
    pub(super) fn join_smallest(&mut self) {
        self.others.sort_by_key(|column| (std::cmp::Reverse(column.count_ones()), *column));
        if let (Some(one), Some(other)) = (self.others.pop(), self.others.pop()) {
            self.others.push(one | other);
        }
    }
}

/// The quasi-identifiers in which the rows differ.
pub(super) fn varying(rows: &Rows, attributes: usize) -> u64 {
    all(attributes) & !rows.constant(0..attributes)
}

/// Chooses columns by associations.
pub(super) struct Chooser<'a> {
    pub(super) items: &'a [Node],
    /// Associations without the sensitive attribute, the most important first.
    pub(super) others: &'a [Vertex],
    pub(super) asg: &'a AsgOptions<'a>,
    /// The most attributes of a column.
    pub(super) max_columns: usize,
    /// Number of quasi-identifiers.
    pub(super) attributes: usize,
}

impl Chooser<'_> {
    /// The columns of a bucket that was made for an association. Of its attributes those stay with the
    /// sensitive one that `harmless` says.
    pub(super) fn columns(
        &self,
        rows: &Rows,
        association: &ItemSet,
        harmless: impl Fn(u64) -> u64,
    ) -> Columns {
        let with_sensitive = harmless(self.attributes_of(association));
        let mut free = all(self.attributes) & !with_sensitive;
        let mut others = Vec::new();
        let least = self.asg.min_columns.max(1) as u32;
        for vertex in self.by_matches(rows) {
            if free.count_ones() < least {
                break;
            }
            let column = self.attributes_of(&vertex.set) & free;
            if column.count_ones() >= least {
                others.push(column);
                free &= !column;
            }
        }
        others.extend(even_parts(free, self.max_columns));
        Columns { with_sensitive, others }
    }

    /// The quasi-identifiers of an association.
    fn attributes_of(&self, set: &ItemSet) -> u64 {
        let attributes = set.items().iter().map(|item| self.items[*item as usize].attribute);
        let quasi_identifiers = attributes.filter(|attribute| *attribute < self.attributes);
        quasi_identifiers.fold(0, |bits, attribute| bits | 1 << attribute)
    }

    /// Associations by how many rows have them, the most first, important ones first among equals.
    fn by_matches(&self, rows: &Rows) -> impl Iterator<Item = &Vertex> {
        let words = rows.len().div_ceil(64);
        // By item, the rows of the bucket that have it.
        let mut have = vec![0u64; self.items.len() * words];
        for (item, node) in self.items.iter().enumerate() {
            for (at, code) in rows.column(node.attribute).enumerate() {
                let has = node.covers(code);
                have[item * words + at / 64] |= u64::from(has) << (at % 64);
            }
        }
        let mut by_count: Vec<Vec<u32>> = vec![Vec::new(); rows.len() + 1];
        for (number, vertex) in self.others.iter().enumerate() {
            let count: u32 = (0..words)
                .map(|word| {
                    let items = vertex.set.items().iter();
                    let all =
                        items.fold(u64::MAX, |all, item| all & have[*item as usize * words + word]);
                    all.count_ones()
                })
                .sum();
            by_count[count as usize].push(number as u32);
        }
        by_count.into_iter().rev().flatten().map(|number| &self.others[number as usize])
    }
}

/// The attributes as one column, or as even parts if they are more than `most`.
pub(super) fn even_parts(attributes: u64, most: usize) -> Vec<u64> {
    let listed: Vec<usize> = bits(attributes).collect();
    let parts = listed.len().div_ceil(most.max(1)).max(1);
    let part = |number: usize| {
        let range = number * listed.len() / parts..(number + 1) * listed.len() / parts;
        listed[range].iter().fold(0u64, |bits, at| bits | 1 << at)
    };
    (0..parts).map(part).filter(|column| *column != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_cut_evenly() {
        assert_eq!(even_parts(0b1011, 4), [0b1011]);
        assert_eq!(even_parts(0b1_1111, 4), [0b0_0011, 0b1_1100]);
        assert_eq!(even_parts(0, 4), [0u64; 0]);
        assert_eq!(even_parts(u64::MAX, 64), [u64::MAX]);
    }

    #[test]
    fn joining_keeps_every_attribute_once() {
        let mut columns = Columns { with_sensitive: 0b1, others: vec![0b110, 0b1000, 0b1_0000] };
        columns.cut_off(0b1);
        assert_eq!(columns.others.iter().fold(0, |all, column| all ^ column), 0b1_1111);
        columns.join_smallest();
        columns.join_smallest();
        columns.join_smallest();
        assert_eq!((columns.with_sensitive, columns.others), (0, vec![0b1_1111]));
    }
}
