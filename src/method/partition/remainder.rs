//! The remainder of a rounded partition whose groups are cut at nodes.
//!
//! n = αk + β rows: β of them are set aside, so that every group has a multiple of k rows. In the end each joins the class where
//! it costs least, at most ⌈β/α⌉ of them the same.

use super::Context;
use crate::error::{Error, Result};
use crate::method::bounds::{Bounds, Losses, Nearest};
use crate::model::{Code, Row};

/// Among so many of the nearest classes a row finds one that has room, as a rule.
const CLASSES_KNOWN: usize = 16;

/// Brings the rows that are set aside, the last in canonical order, to the end; returns how many stand before them.
pub(super) fn set_aside<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    context: &Context,
) -> usize {
    let keys = context.job.keys;
    let aside = rows.len() % context.k();
    let whole = rows.len() - aside;
    if aside > 0 {
        rows.select_nth_unstable_by(whole, |a, b| a.canonical_order(b, keys));
        rows[whole..].sort_unstable_by(|a, b| a.canonical_order(b, keys));
    }
    whole
}

/// Moves the rows behind the classes of these sizes into classes.
pub(super) fn place<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    sizes: &mut [u32],
    context: &Context,
    losses: &Losses,
) -> Result<()> {
    let whole = rows.len() - rows.len() % context.k();
    let aside = rows[whole..].to_vec();
    if aside.is_empty() {
        return Ok(());
    }
    let mut nearest: Vec<Nearest> = aside.iter().map(|_| Nearest::new(CLASSES_KNOWN)).collect();
    let mut start = 0;
    for (class, size) in sizes.iter().enumerate() {
        context.job.cancel.check()?;
        let end = start + *size as usize;
        let bounds = Bounds::of(&rows[start..end]);
        let before = f64::from(losses.of(&bounds));
        for (row, nearest) in aside.iter().zip(&mut nearest) {
            let joined = f64::from(losses.of(&bounds.with(&row.codes)));
            let size = f64::from(*size);
            nearest.offer((size + 1.0) * joined - size * before, class);
        }
        start = end;
    }
    let mut room = vec![aside.len().div_ceil(sizes.len()) as u32; sizes.len()];
    let mut joining: Vec<(usize, Row<C, W>)> = Vec::with_capacity(aside.len());
    for (row, nearest) in aside.iter().zip(&nearest) {
        let has_room = |class: &usize| room[*class] > 0;
        let class = nearest.places().into_iter().find(has_room);
        let class = class.or_else(|| (0..room.len()).find(has_room));
        let class = class.ok_or_else(|| Error::bug("no class takes a row"))?;
        room[class] -= 1;
        joining.push((class, *row));
    }
    joining.sort_by_key(|(class, _)| *class);
    insert(rows, sizes, &joining);
    Ok(())
}

/// Puts rows, sorted by class, behind the others of their classes; the rows behind the last class are overwritten.
fn insert<C: Code, const W: usize>(
    rows: &mut [Row<C, W>],
    sizes: &mut [u32],
    joining: &[(usize, Row<C, W>)],
) {
    let mut end = rows.len() - joining.len();
    let mut left = joining.len();
    for (class, size) in sizes.iter_mut().enumerate().rev() {
        let start = end - *size as usize;
        let first = joining[..left].partition_point(|(of, _)| *of < class);
        // The classes before this one take so many rows.
        rows.copy_within(start..end, start + first);
        for (at, (_, row)) in joining[first..left].iter().enumerate() {
            rows[end + first + at] = *row;
        }
        *size += (left - first) as u32;
        (end, left) = (start, first);
        if left == 0 {
            break;
        }
    }
}
