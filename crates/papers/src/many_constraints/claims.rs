//! What the Classfly+ paper claims.

use super::METHODS;
use super::people::Heights;
use crate::claim::{Check, Claim, Found, Rule, claim, decide_all};
use crate::compare::{Better, Way, all};
use crate::line::{Line, mean};
use crate::plot::LinePlot;
use crate::table::number;
use crate::variant::Variant;

const COMPLETE: &str = METHODS[0];
const NAIVE: &str = METHODS[2];
const DATAFLY: &str = METHODS[3];

/// How far Classfly+ is above Datafly, in the paper.
const GAIN: [f64; 2] = [1.1, 1.2];

/// A step back by less than this share is no step back.
const TOLERANCE: f64 = 0.005;

/// Times within this share of each other differ little.
const ALIKE: [f64; 2] = [0.67, 1.5];

/// What the paper says, and how it is decided.
const CLAIMS: &[Rule<Plots>] = &[
    (
        claim("yang-2006.1", "Complete and partial Classfly+ publish the same table.", "Theorem 4"),
        |plots, variant| plots.complete_is_partial(variant),
    ),
    (
        claim(
            "yang-2006.2",
            "Complete and partial have the highest precision of all methods, for {C1,C2} and {C1..C4}, \
             at every size.",
            "Fig. 3",
        ),
        |plots, variant| {
            let others = [NAIVE, DATAFLY].map(|method| variant.name(method));
            all(plots
                .shown_in_figure_3()
                .map(|plot| plot.best(&variant.name(COMPLETE), &others, Better::Higher)))
        },
    ),
    (
        claim(
            "yang-2006.3",
            "On average over the sizes their precision is 10 to 20 % above that of Datafly, for {C1,C2} \
             and {C1..C4}.",
            "Section 4.1",
        ),
        |plots, variant| {
            plots.means(variant, COMPLETE, |_, ratio| (GAIN[0]..=GAIN[1]).contains(&ratio))
        },
    ),
    (
        claim(
            "yang-2006.4",
            "On average over the sizes naive Classfly+ is more precise than Datafly for {C1,C2}, and \
             less for {C1..C4}.",
            "Fig. 3",
        ),
        |plots, variant| {
            plots.means(
                variant,
                NAIVE,
                |constraints, ratio| {
                    if constraints == 2 { ratio > 1.0 } else { ratio < 1.0 }
                },
            )
        },
    ),
    (
        claim(
            "yang-2006.5",
            "The precision of Classfly+ grows with the rows. (Here: no step back by more than 0.5 %.)",
            "Fig. 4",
        ),
        |plots, variant| plots.prec_grows(variant),
    ),
    (
        claim("yang-2006.6", "For {C1..C4} naive Classfly+ takes the longest of all.", "Fig. 5a"),
        |plots, variant| {
            let others = [COMPLETE, METHODS[1], DATAFLY].map(|method| variant.name(method));
            plots.times(4)?.best(&variant.name(NAIVE), &others, Better::Higher)
        },
    ),
    (
        claim(
            "yang-2006.7",
            "With eight constraints Datafly takes the shortest of all.",
            "Fig. 5b",
        ),
        |plots, variant| {
            let others = [COMPLETE, METHODS[1], NAIVE].map(|method| variant.name(method));
            plots.times(8)?.best(&variant.name(DATAFLY), &others, Better::Lower)
        },
    ),
    (
        claim(
            "yang-2006.8",
            "Complete and partial take about as long as each other. (Here: at most half as long again.)",
            "Fig. 5",
        ),
        |plots, variant| {
            let names = [COMPLETE, METHODS[1]].map(|method| variant.name(method));
            all(plots
                .time_by_rows
                .iter()
                .map(|(_, plot)| plot.ratio_within(&names[0], &names[1], ALIKE)))
        },
    ),
    (
        claim(
            "yang-2006.9",
            "The time of Classfly+ grows with the rows and with the constraints.",
            "Fig. 6",
        ),
        |plots, variant| plots.time_grows(variant),
    ),
];

/// All plots, with what they are of.
#[derive(Default)]
pub struct Plots {
    pub prec_by_rows: Vec<(Heights, usize, LinePlot)>,
    pub time_by_rows: Vec<(usize, LinePlot)>,
    pub prec_by_constraints: Option<LinePlot>,
    pub time_by_constraints: Option<LinePlot>,
    pub equal: Vec<EqualTables>,
}

/// Heights, the number of constraints, and by rows 1 where complete and partial publish the same table.
pub type EqualTables = (Heights, usize, [(Variant, Line); 2]);

impl Plots {
    pub fn into_plots(self) -> Vec<LinePlot> {
        let by_rows = self.prec_by_rows.into_iter().map(|(_, _, plot)| plot);
        let times = self.time_by_rows.into_iter().map(|(_, plot)| plot);
        let by_constraints = self.prec_by_constraints.into_iter().chain(self.time_by_constraints);
        by_rows.chain(times).chain(by_constraints).collect()
    }

    pub fn claims(&self) -> Vec<Claim> {
        decide_all(CLAIMS, self)
    }

    fn shown_in_figure_3(&self) -> impl Iterator<Item = &LinePlot> {
        self.prec_by_rows
            .iter()
            .filter(|(_, constraints, _)| *constraints < 8)
            .map(|(_, _, plot)| plot)
    }

    fn times(&self, constraints: usize) -> Result<&LinePlot, String> {
        let plot = self.time_by_rows.iter().find(|(of, _)| *of == constraints);
        plot.map(|(_, plot)| plot)
            .ok_or_else(|| format!("{constraints} constraints were not timed"))
    }

    fn complete_is_partial(&self, variant: Variant) -> Found {
        let check = |(heights, constraints, lines): &EqualTables| {
            let line = lines.iter().find(|(of, _)| *of == variant);
            let points =
                line.map_or(Err("not measured".to_owned()), |(_, line)| line.points.clone())?;
            let equal = points.iter().filter(|(_, equal)| *equal == 1.0).count();
            let at = format!("{}, C1 to C{constraints}", heights.name());
            let found = format!("equal at {equal} of {} sizes", points.len());
            Ok(Check { at, found, holds: equal == points.len() })
        };
        self.equal.iter().map(check).collect()
    }

    /// The mean precision of a method over the sizes, divided by that of Datafly.
    fn means(&self, variant: Variant, method: &str, holds: impl Fn(usize, f64) -> bool) -> Found {
        let figure_3 = self.prec_by_rows.iter().filter(|(_, constraints, _)| *constraints < 8);
        let check = |(_, constraints, plot): &(Heights, usize, LinePlot)| {
            let of = |method: &str| {
                let points = plot.line(&variant.name(method))?;
                Ok::<f64, String>(mean(points.iter().map(|point| point.1)))
            };
            let (one, datafly) = (of(method)?, of(DATAFLY)?);
            let ratio = one / datafly;
            let found = format!(
                "{} against {}: {:+.1} %",
                number(one),
                number(datafly),
                100.0 * (ratio - 1.0)
            );
            Ok(Check { at: plot.setting.clone(), found, holds: holds(*constraints, ratio) })
        };
        figure_3.map(check).collect()
    }

    fn prec_grows(&self, variant: Variant) -> Found {
        let lines = |(_, _, plot): &(Heights, usize, LinePlot)| {
            [COMPLETE, NAIVE]
                .iter()
                .map(|method| plot.goes(&variant.name(method), Way::Up, TOLERANCE))
                .collect::<Found>()
        };
        all(self.prec_by_rows.iter().map(lines))
    }

    fn time_grows(&self, variant: Variant) -> Found {
        let plots = self.time_by_rows.iter().map(|(_, plot)| plot).chain(&self.time_by_constraints);
        // Times are never quite even; a tenth is noise.
        let lines = |plot: &LinePlot| {
            METHODS[..3]
                .iter()
                .map(|method| plot.goes(&variant.name(method), Way::Up, 0.1))
                .collect::<Found>()
        };
        all(plots.map(lines))
    }
}
