//! Rows of a block or a bucket, whatever the shape of their table.

use crate::model::{RowKeys, RowTable};

/// Codes of rows, quasi-identifiers first and the sensitive attribute last.
///
/// Everything that is done to a block or a bucket is done to these, so that it is compiled once and not for every
/// shape of a table.
#[derive(Clone)]
pub(super) struct Rows {
    /// Number of codes of a row.
    width: usize,
    codes: Vec<u32>,
    /// By row, its number in the payload.
    pub(super) ids: Vec<u32>,
    /// By row, its position in the table.
    pub(super) positions: Vec<u32>,
}

impl Rows {
    fn empty(width: usize, rows: usize) -> Self {
        let codes = Vec::with_capacity(width * rows);
        Self { width, codes, ids: Vec::with_capacity(rows), positions: Vec::with_capacity(rows) }
    }

    /// The rows at some positions of a table in canonical order.
    pub(super) fn in_canonical_order(
        table: &RowTable,
        positions: std::ops::Range<usize>,
        attributes: usize,
        keys: &RowKeys,
    ) -> Self {
        let width = attributes + 1;
        let mut rows = Self::empty(width, positions.len());
        let mut codes = vec![0; width];
        for at in positions {
            rows.ids.push(table.read(at, &mut codes));
            rows.codes.extend(&codes);
            rows.positions.push(at as u32);
        }
        let mut order: Vec<u32> = (0..rows.len() as u32).collect();
        order.sort_unstable_by(|a, b| {
            let (a, b) = (*a as usize, *b as usize);
            rows.row(a).cmp(rows.row(b)).then_with(|| keys.compare(rows.ids[a], rows.ids[b]))
        });
        rows.picked(&order)
    }

    /// The rows at some places, in that order.
    pub(super) fn picked(&self, places: &[u32]) -> Self {
        let mut picked = Self::empty(self.width, places.len());
        for place in places {
            let place = *place as usize;
            picked.codes.extend(self.row(place));
            picked.ids.push(self.ids[place]);
            picked.positions.push(self.positions[place]);
        }
        picked
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The codes of every row.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u32]> + Clone {
        self.codes.chunks_exact(self.width)
    }

    /// The codes of one row.
    pub(super) fn row(&self, at: usize) -> &[u32] {
        &self.codes[at * self.width..][..self.width]
    }

    /// One attribute of all rows.
    pub(super) fn column(&self, attribute: usize) -> impl Iterator<Item = u32> + Clone {
        self.iter().map(move |row| row[attribute])
    }

    /// Permutes some attributes: row `i` gets the codes of row `from[i]`.
    pub(super) fn permute(&mut self, attributes: impl Iterator<Item = usize>, from: &[u32]) {
        for attribute in attributes {
            let before: Vec<u32> = self.column(attribute).collect();
            let rows = self.codes.chunks_exact_mut(self.width);
            rows.zip(from).for_each(|(row, from)| row[attribute] = before[*from as usize]);
        }
    }

    /// Those of the attributes in which all rows agree, as bits.
    pub(super) fn constant(&self, attributes: impl Iterator<Item = usize>) -> u64 {
        let is_constant = |at: &usize| {
            let mut codes = self.column(*at);
            codes.next().is_none_or(|first| codes.all(|code| code == first))
        };
        attributes.filter(is_constant).fold(0, |constant, at| constant | 1 << at)
    }
}
