//! What the KAIM paper claims.

use crate::claim::{Check, Claim, Found, Rule, claim, decide_all};
use crate::compare::{Better, Way, all};
use crate::line::mean;
use crate::plot::LinePlot;
use crate::table::number;
use crate::variant::Variant;

pub const KAIM: &str = "kaim";
pub const K_MEMBER: &str = "k_member";

/// The parts of a loss, and their measures.
pub const PARTS: [(&str, &str); 2] =
    [("generalization", "iloss_generalization"), ("suppression", "iloss_suppression")];

/// "About 43.8 %" in two digits.
const RATIO: f64 = 0.445;

/// Rates of one method over the seeds that spread by at most this share of their mean are stable.
const STABLE: f64 = 0.05;

/// A step back by less than this share is no step back.
const TOLERANCE: f64 = 0.01;

/// What the paper says, and how it is decided.
const CLAIMS: &[Rule<Plots>] = &[
    (
        claim(
            "gong-2013.1",
            "kaim loses less than k_member that drops incomplete records, for 2, 5 and 8 \
             quasi-identifiers and every k.",
            "Fig. 4",
        ),
        |plots, variant| {
            let k_member = [variant.name(K_MEMBER)];
            all(plots
                .by_k
                .iter()
                .map(|plot| plot.best(&variant.name(KAIM), &k_member, Better::Lower)))
        },
    ),
    (
        claim(
            "gong-2013.2",
            "The loss of kaim is about 43.8 % of that of k_member. (Here: at most 44.5 %, with 8 \
             quasi-identifiers, k = 5 and the missing cells of the table.)",
            "Section 4.2",
        ),
        |plots, variant| Ok(plots.ratios(variant)?.into_iter().take(1).collect()),
    ),
    (
        claim("gong-2013.3", "That ratio falls as more cells are missing.", "Section 4.2, fig. 7b"),
        |plots, variant| plots.ratio_falls(variant),
    ),
    (
        claim("gong-2013.4", "The losses of both methods grow with k.", "Fig. 4"),
        |plots, variant| plots.both_go(&plots.by_k, variant, Way::Up, 0.0),
    ),
    (
        claim(
            "gong-2013.5",
            "The losses of both methods fall slowly as the table grows. (Here: no step back by more than \
             1 %.)",
            "Fig. 5",
        ),
        |plots, variant| plots.both_go(&plots.by_rows, variant, Way::Down, TOLERANCE),
    ),
    (
        claim(
            "gong-2013.6",
            "With more quasi-identifiers the loss of kaim grows, and that of k_member falls.",
            "Fig. 6",
        ),
        |plots, variant| plots.by_quasi_identifiers(variant),
    ),
    (
        claim(
            "gong-2013.7",
            "As more cells are missing k_member loses less by generalization and more by suppression.",
            "Fig. 7a",
        ),
        |plots, variant| plots.in_two_parts(variant),
    ),
    (
        claim(
            "gong-2013.8",
            "The loss of kaim hardly depends on its random choices. (Here: over 20 seeds it spreads by \
             at most 5 %.)",
            "Fig. 8",
        ),
        |plots, variant| plots.stable(variant),
    ),
];

/// All plots.
#[derive(Default)]
pub struct Plots {
    /// One for each number of quasi-identifiers.
    pub by_k: Vec<LinePlot>,
    /// One for each k, as the next two.
    pub by_columns: Vec<LinePlot>,
    pub by_rows: Vec<LinePlot>,
    pub by_seed: Vec<LinePlot>,
    pub by_missing: Option<LinePlot>,
    pub parts: Option<LinePlot>,
}

impl Plots {
    pub fn into_plots(self) -> Vec<LinePlot> {
        let lists = [self.by_k, self.by_rows, self.by_columns].into_iter().flatten();
        lists.chain(self.parts).chain(self.by_missing).chain(self.by_seed).collect()
    }

    pub fn claims(&self) -> Vec<Claim> {
        decide_all(CLAIMS, self)
    }

    fn missing(&self) -> Result<&LinePlot, String> {
        self.by_missing.as_ref().ok_or_else(|| "not measured".to_owned())
    }

    fn ratios(&self, variant: Variant) -> Found {
        self.missing()?.ratio_within(&variant.name(KAIM), &variant.name(K_MEMBER), [0.0, RATIO])
    }

    fn ratio_falls(&self, variant: Variant) -> Found {
        let plot = self.missing()?;
        let pairs = plot.pairs(&variant.name(KAIM), &variant.name(K_MEMBER))?;
        let ratios: Vec<(f64, f64)> =
            pairs.iter().map(|(at, kaim, other)| (*at, kaim / other)).collect();
        let check = |step: &[(f64, f64)]| Check {
            at: format!("missing cells {} → {} %", step[0].0, step[1].0),
            found: format!("{} → {}", number(step[0].1), number(step[1].1)),
            holds: step[1].1 < step[0].1,
        };
        Ok(ratios.windows(2).map(check).collect())
    }

    fn both_go(&self, plots: &[LinePlot], variant: Variant, way: Way, tolerance: f64) -> Found {
        let methods = [KAIM, K_MEMBER].map(|method| variant.name(method));
        let checks = |plot: &LinePlot| {
            methods.iter().map(|method| plot.goes(method, way, tolerance)).collect::<Found>()
        };
        all(plots.iter().map(checks))
    }

    fn by_quasi_identifiers(&self, variant: Variant) -> Found {
        let checks = |plot: &LinePlot| {
            let kaim = plot.goes(&variant.name(KAIM), Way::Up, 0.0)?;
            Ok(vec![kaim, plot.goes(&variant.name(K_MEMBER), Way::Down, 0.0)?])
        };
        all(self.by_columns.iter().map(checks))
    }

    fn in_two_parts(&self, variant: Variant) -> Found {
        let plot = self.parts.as_ref().ok_or("not measured")?;
        let [generalization, suppression] = PARTS.map(|(part, _)| variant.name(part));
        Ok(vec![
            plot.goes(&generalization, Way::Down, 0.0)?,
            plot.goes(&suppression, Way::Up, 0.0)?,
        ])
    }

    fn stable(&self, variant: Variant) -> Found {
        let check = |plot: &LinePlot| {
            let rates =
                || Ok::<_, String>(plot.line(&variant.name(KAIM))?.iter().map(|point| point.1));
            let (low, high) =
                (rates()?.fold(f64::INFINITY, f64::min), rates()?.fold(0.0, f64::max));
            let spread = (high - low) / mean(rates()?);
            let found =
                format!("{} to {}, {:.1} % apart", number(low), number(high), 100.0 * spread);
            Ok(Check { at: plot.setting.clone(), found, holds: spread <= STABLE })
        };
        self.by_seed.iter().map(check).collect()
    }
}
