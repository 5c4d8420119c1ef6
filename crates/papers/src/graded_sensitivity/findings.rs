//! The claims of the paper, and whether they hold here.

use super::release::{Found, METHODS, Method, Times};

/// A time that grows by less than this from two quasi-identifiers to all is flat.
const FLAT: f64 = 1.5;

/// Said of findings that leave out the rows which `top_down` publishes as they are. Their distance is 0,
/// and that of a row in two tables is at least 1 - 1/k or so.
pub const GENERALIZED: &str = " for the rows that it generalizes";

pub struct Finding {
    pub claim: String,
    pub holds: bool,
}

impl Finding {
    /// Holds unless there are exceptions along the axis.
    fn except(claim: String, axis: &str, exceptions: &[String]) -> Self {
        match exceptions.is_empty() {
            true => Self { claim, holds: true },
            false => {
                let claim = format!("{claim}; not with {axis} = {}", exceptions.join(", "));
                Self { claim, holds: false }
            }
        }
    }
}

/// Something known of all three methods, by position on an axis.
pub type ByMethod<T> = Vec<(f64, [T; 3])>;

/// Whether a method is below what `top_down` has, for all rows or for some.
pub fn below_top_down(
    axis: &str,
    method: Method,
    found: &[(f64, [Found; 3])],
    rows: &str,
    top_down: &[f64],
) -> Finding {
    let at = position(method);
    let above = found.iter().zip(top_down);
    let above = above.filter(|((_, all), top_down)| all[at].reconstruction >= **top_down);
    let above: Vec<String> = above.map(|((x, _), _)| x.to_string()).collect();
    let claim = format!(
        "by {axis}, the reconstruction distance of {} is below that of top_down{rows}",
        method.name()
    );
    Finding::except(claim, axis, &above)
}

/// Whether graded alphas put values further apart than another method.
pub fn larger(axis: &str, found: &[(f64, [Found; 3])], than: Method) -> Finding {
    let at = position(than);
    let not = found.iter().filter(|(_, all)| all[0].sensitivity <= all[at].sensitivity);
    let not: Vec<String> = not.map(|(x, _)| x.to_string()).collect();
    let claim = format!(
        "by {axis}, the sensitivity distance of alpha_k, graded is above that of {}",
        than.name()
    );
    Finding::except(claim, axis, &not)
}

/// Whether the time of a method does not grow with the quasi-identifiers.
pub fn flat(k: u32, method: Method, times: &[(f64, [Times; 3])]) -> Finding {
    let growth = |method: Method| {
        let at = position(method);
        let ends = times.first().zip(times.last());
        ends.map_or(f64::NAN, |((_, first), (_, last))| last[at].forming / first[at].forming)
    };
    let claim = format!(
        "k = {k}, the time of {} from two quasi-identifiers to all grows {:.2} times, less than {FLAT} \
         (top_down: {:.2} times)",
        method.name(),
        growth(method),
        growth(Method::TopDown)
    );
    Finding { claim, holds: growth(method) < FLAT }
}

fn position(method: Method) -> usize {
    METHODS.iter().position(|other| *other == method).unwrap_or_default()
}
