//! What the (αᵢ,k) paper claims.

use super::release::Method;
use crate::claim::{Check, Claim, Found, Rule, claim, decide_all};
use crate::compare::{Better, Way, all, ratio_of};
use crate::plot::LinePlot;
use crate::table::number;
use crate::variant::Variant;

pub const FULL_DOMAIN: &str = "full domain";

/// A time that grows by at most this factor from two quasi-identifiers to all is flat.
const FLAT: f64 = 1.5;

/// Distances within this share of each other are about the same.
const ALIKE: [f64; 2] = [0.95, 1.05];

/// What the paper says, and how it is decided.
const CLAIMS: &[Rule<Plots>] = &[
    (
        claim(
            "graded-alpha.1",
            "The reconstruction distance of alpha_k, graded or not, is below that of generalization, by \
             k and by alpha; generalization read as full-domain recoding.",
            "Fig. 1, 2",
        ),
        |plots, variant| plots.below(variant, FULL_DOMAIN),
    ),
    (
        claim(
            "graded-alpha.2",
            "The same, with generalization read as local recoding (top_down).",
            "Fig. 1, 2",
        ),
        |plots, variant| plots.below(variant, &name(variant, Method::TopDown)),
    ),
    (
        claim(
            "graded-alpha.3",
            "The reconstruction distances of all methods grow with k.",
            "Fig. 1",
        ),
        |plots, variant| {
            let methods = Method::ALL.map(|method| name(variant, method));
            let all = methods.iter().map(String::as_str).chain([FULL_DOMAIN]);
            all.map(|method| plots.by("k")?.goes(method, Way::Up, 0.0)).collect()
        },
    ),
    (
        claim(
            "graded-alpha.4",
            "Graded and one alpha have about the same reconstruction distance, except at k = 2, where \
             graded is larger. (Here: within 5 %.)",
            "Fig. 1",
        ),
        |plots, variant| plots.graded_like_one_alpha(plots.by("k")?, variant),
    ),
    (
        claim(
            "graded-alpha.5",
            "Beyond alpha = 0.5 the reconstruction distance at k = 4 does not change any more.",
            "Fig. 2",
        ),
        |plots, variant| unchanged_from_half(plots.by("alpha")?, variant),
    ),
    (
        claim(
            "graded-alpha.6",
            "The time of alpha_k does not depend on the number of quasi-identifiers. (Here: it grows by \
             at most half.)",
            "Fig. 4",
        ),
        |plots, variant| plots.flat(variant),
    ),
    (
        claim(
            "graded-alpha.7",
            "alpha_k takes less time than Top-Down, by alpha and by number of quasi-identifiers.",
            "Fig. 3, 4",
        ),
        |plots, variant| {
            let top_down = [name(variant, Method::TopDown)];
            let plots = plots.time.iter().chain(&plots.time_by_columns);
            all(plots.flat_map(|plot| {
                [Method::Graded, Method::OneAlpha].map(|method| {
                    named(method, plot.best(&name(variant, method), &top_down, Better::Lower))
                })
            }))
        },
    ),
    (
        claim(
            "graded-alpha.8",
            "Graded alphas put sensitive values further apart (Ds) than one alpha.",
            "Fig. 5",
        ),
        |plots, variant| {
            let one_alpha = [name(variant, Method::OneAlpha)];
            all(plots
                .sensitivity
                .iter()
                .map(|plot| plot.best(&name(variant, Method::Graded), &one_alpha, Better::Higher)))
        },
    ),
];

/// All plots, by k or by alpha.
pub struct Plots {
    pub reconstruction: Vec<LinePlot>,
    pub time: Vec<LinePlot>,
    pub time_by_columns: Vec<LinePlot>,
    pub sensitivity: Vec<LinePlot>,
}

impl Plots {
    pub fn into_plots(self) -> Vec<LinePlot> {
        [self.reconstruction, self.time, self.time_by_columns, self.sensitivity]
            .into_iter()
            .flatten()
            .collect()
    }

    pub fn claims(&self) -> Vec<Claim> {
        decide_all(CLAIMS, self)
    }

    /// The reconstruction distance along an axis.
    fn by(&self, axis: &str) -> Result<&LinePlot, String> {
        let plot = self.reconstruction.iter().find(|plot| plot.axis == axis);
        plot.ok_or_else(|| "not measured".to_owned())
    }

    fn below(&self, variant: Variant, generalization: &str) -> Found {
        let rival = [generalization.to_owned()];
        all(self.reconstruction.iter().flat_map(|plot| {
            [Method::Graded, Method::OneAlpha].map(|method| {
                named(method, plot.best(&name(variant, method), &rival, Better::Lower))
            })
        }))
    }

    fn graded_like_one_alpha(&self, plot: &LinePlot, variant: Variant) -> Found {
        let [graded, one_alpha] =
            [Method::Graded, Method::OneAlpha].map(|method| name(variant, method));
        let check = |(k, graded, one_alpha): (f64, f64, f64)| {
            let ratio = graded / one_alpha;
            let holds =
                if k == 2.0 { ratio > ALIKE[1] } else { (ALIKE[0]..=ALIKE[1]).contains(&ratio) };
            let found = ratio_of(graded, one_alpha);
            Check { at: plot.at(k), found, holds }
        };
        Ok(plot.pairs(&graded, &one_alpha)?.into_iter().map(check).collect())
    }

    fn flat(&self, variant: Variant) -> Found {
        let growth = |plot: &LinePlot, method: Method| match plot.line(&name(variant, method))? {
            [first, .., last] => Ok::<f64, String>(last.1 / first.1),
            _ => Err("too few points".to_owned()),
        };
        let check = |plot: &LinePlot, method: Method| {
            let (grown, top_down) = (growth(plot, method)?, growth(plot, Method::TopDown)?);
            let found = format!("{grown:.2} times from two to all; top_down {top_down:.2} times");
            let at = format!("{}, {}", plot.setting, method.name());
            Ok(Check { at, found, holds: grown <= FLAT })
        };
        let plots = self.time_by_columns.iter();
        plots
            .flat_map(|plot| [Method::Graded, Method::OneAlpha].map(|method| check(plot, method)))
            .collect()
    }
}

/// Checks that also say of which method they are.
fn named(method: Method, found: Found) -> Found {
    let name = |check: Check| Check { at: format!("{}, {}", method.name(), check.at), ..check };
    Ok(found?.into_iter().map(name).collect())
}

fn unchanged_from_half(plot: &LinePlot, variant: Variant) -> Found {
    let check = |method: Method| {
        let points = plot.line(&name(variant, method))?;
        let from_half = points.iter().filter(|point| point.0 >= 0.5).map(|point| point.1);
        let (low, high) = from_half
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        let found = format!("{} to {}", number(low), number(high));
        Ok(Check { at: method.name().to_owned(), found, holds: high - low <= 0.01 * high })
    };
    [Method::OneAlpha, Method::TopDown].into_iter().map(check).collect()
}

fn name(variant: Variant, method: Method) -> String {
    variant.name(method.name())
}
