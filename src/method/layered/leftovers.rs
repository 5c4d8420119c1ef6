//! Rows that no layer froze find a class.

use super::Class;
use super::cut::Cutter;
use crate::error::Result;
use crate::model::{Code, Row};

/// How many classes a row asks, the cheapest first, before it goes to those nobody takes.
const ASKED: usize = 8;

/// Every row looks at all classes of its block. If models leave more rows than this, all of them become
/// one group that is cut anew.
const MOST_ASKING: usize = 1024;

/// Adds each row to the class where it costs least and that still could be one with it. Rows that
/// none takes become a class of their own, with the classes they need to be one.
pub(super) fn place<C: Code, const W: usize>(
    cutter: &mut Cutter,
    classes: &mut Vec<Class<C, W>>,
    left: Vec<Row<C, W>>,
) -> Result<()> {
    let (left, mut homeless) = match left.len() <= MOST_ASKING {
        true => (left, Vec::new()),
        false => (Vec::new(), left),
    };
    for row in left {
        cutter.context.job.cancel.check()?;
        if !join_nearest(cutter, classes, row) {
            homeless.push(row);
        }
    }
    let mut grown = Vec::new();
    if !homeless.is_empty() {
        grown.push(absorb(cutter, classes, homeless)?);
    }
    for class in classes.iter_mut().filter(|class| class.rows.len() >= 2 * cutter.context.k()) {
        grown.push(std::mem::take(&mut class.rows));
    }
    classes.retain(|class| !class.rows.is_empty());
    grown.into_iter().for_each(|rows| cutter.divide(rows, classes));
    Ok(())
}

fn join_nearest<C: Code, const W: usize>(
    cutter: &mut Cutter,
    classes: &mut [Class<C, W>],
    row: Row<C, W>,
) -> bool {
    let losses = &cutter.context.losses;
    let mut costs: Vec<(f64, usize)> = (classes.iter().enumerate())
        .map(|(at, class)| (class.cost_of(&row.codes, losses), at))
        .collect();
    let asked = ASKED.min(costs.len());
    if asked < costs.len() {
        costs.select_nth_unstable_by(asked, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    }
    costs.truncate(asked);
    costs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    for (_, at) in costs {
        let class = &mut classes[at];
        class.rows.push(row);
        if cutter.holds(&class.rows) {
            class.tighten(&cutter.context.losses);
            return true;
        }
        class.rows.pop();
    }
    false
}

/// Takes the classes that cost least, again and again and more every time, until all rows together
/// could be a class. At the latest the whole block can.
fn absorb<C: Code, const W: usize>(
    cutter: &mut Cutter,
    classes: &mut Vec<Class<C, W>>,
    rows: Vec<Row<C, W>>,
) -> Result<Vec<Row<C, W>>> {
    let mut pool = Class::new(rows, &cutter.context.losses);
    let mut absorbed = 0;
    while !cutter.holds(&pool.rows) && !classes.is_empty() {
        cutter.context.job.cancel.check()?;
        let cost = |class: &Class<C, W>| {
            let loss = cutter.context.losses.of(&pool.bounds.join(&class.bounds));
            (pool.rows.len() + class.rows.len()) as f64 * f64::from(loss) - class.total()
        };
        let mut costs: Vec<(f64, usize)> = classes.iter().map(cost).zip(0..).collect();
        costs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        // One at a time, then a quarter of what was taken before: as few looks as the logarithm.
        costs.truncate(1 + absorbed / 4);
        absorbed += costs.len();
        for (_, at) in costs {
            pool.rows.append(&mut classes[at].rows);
        }
        classes.retain(|class| !class.rows.is_empty());
        pool.tighten(&cutter.context.losses);
    }
    Ok(pool.rows)
}
