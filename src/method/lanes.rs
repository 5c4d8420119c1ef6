//! Bounds of rows whose eight codes are one byte each, sixteen bytes at a time.
//!
//! This is the shape of most tables, and looking for bounds is what cutting does most. The compiler
//! does not find vector instructions for eight bytes by itself: it was measured at ten times the cost.

use wide::u8x16;

use super::bounds::Bounds;
use crate::model::{Code, Row};

#[inline(always)]
fn lanes(first: u64, second: u64) -> u8x16 {
    u8x16::new((u128::from(first) | (u128::from(second) << 64)).to_le_bytes())
}

#[inline(always)]
fn codes<C: Code, const W: usize>(bytes: &[u8]) -> [C; W] {
    std::array::from_fn(|axis| C::from_u32(bytes.get(axis).copied().map_or(0, u32::from)))
}

/// The bounds of all rows; `None` for rows of another shape.
#[inline(always)]
pub(super) fn bounds<C: Code, const W: usize>(rows: &[Row<C, W>]) -> Option<Bounds<C, W>> {
    let (mut low, mut high) = (u8x16::splat(u8::MAX), u8x16::splat(0));
    let mut pairs = rows.chunks_exact(2);
    let mut add = |first: u64, second: u64| {
        let both = lanes(first, second);
        low = low.min(both);
        high = high.max(both);
    };
    for pair in &mut pairs {
        add(C::word(&pair[0].codes)?, C::word(&pair[1].codes)?);
    }
    for row in pairs.remainder() {
        let word = C::word(&row.codes)?;
        add(word, word);
    }
    C::word(&[C::default(); W])?;
    let (low, high) = (low.to_array(), high.to_array());
    let first = Bounds { low: codes(&low[..8]), high: codes(&high[..8]) };
    Some(first.join(&Bounds { low: codes(&low[8..]), high: codes(&high[8..]) }))
}
