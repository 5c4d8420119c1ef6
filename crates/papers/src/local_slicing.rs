//! Many columns: slicing, which keeps values and breaks links, against generalization, as in the experiments of the paper
//! (Wang, Yu and Zhang, "Anonymous algorithm based on local partition", 2018).
//!
//! Loss (NCP) and association retention (AR) of `asg_ls`, `slicing` and `k_member` with l = 3, which is LGAA-CP: by k with
//! associations of at most four columns, and by number of columns with at most three, as the paper's four figures show.
//!
//! The paper names neither its columns, nor below which share a value is rare, nor how it looks for rules. Here the columns
//! are those of Adult in the order below, no value is rare, and rules are between nodes of the hierarchies, at the paper's
//! thresholds (0.2 and 0.8) and with as many columns as associations have.

use datafusion::common::Result;

use crate::Report;
use crate::claim::{Check, Claim, Found, Rule, claim, decide_all};
use crate::columns::{Column, names, quoted};
use crate::compare::{Better, all};
use crate::line::{Line, map_all};
use crate::people::{AdultRows, People, Wanted};
use crate::plot::{LinePlot, Start};
use crate::table::number;
use crate::variant::Variant;
use crate::workspace::Workspace;

const ASG_LS: &str = "asg_ls";
const SLICING: &str = "slicing";
const LGAA_CP: &str = "k_member";

const KS: [f64; 3] = [10.0, 15.0, 20.0];

/// The rows of the paper.
const ROWS: usize = 30_162;

/// Columns in the order in which they are added; the first is the sensitive one.
const FIRST: [Column; 9] = [
    ("occupation", Some("occupation_levels")),
    ("age", None),
    ("education", Some("education_levels")),
    ("marital_status", Some("marital_status_levels")),
    ("sex", Some("sex_levels")),
    ("workclass", Some("workclass_levels")),
    ("race", Some("race_levels")),
    ("native_country", Some("native_country_levels")),
    ("hours_per_week", None),
];

const MORE_OF_ADULT: [Column; 5] = [
    ("relationship", None),
    ("education_num", None),
    ("capital_gain", None),
    ("capital_loss", None),
    ("fnlwgt", None),
];

const MORE_OF_CENSUS: [Column; 3] = [
    ("salary_class", None),
    ("zip", Some("prefixes(3, 2, 1)")),
    ("birth_date", Some("date_steps('month', 'year', 'decade')")),
];

pub async fn run(workspace: &Workspace) -> Result<Report> {
    let wanted = Wanted {
        sample: [&FIRST[..], &MORE_OF_CENSUS].concat(),
        sample_rows: 20_000,
        adult: [&FIRST[..], &MORE_OF_ADULT].concat(),
        adult_rows: AdultRows::Complete { at_most: ROWS },
    };
    let people = workspace.load_people(&wanted).await?;
    let columns: &[f64] =
        if people.is_adult { &[5.0, 8.0, 10.0, 14.0] } else { &[5.0, 8.0, 10.0, 12.0] };
    let (columns, ks) = (workspace.points(columns), workspace.points(&KS));
    let experiment = Experiment { workspace, people };
    let mut plots = Plots { by_k: Vec::new(), by_columns: Vec::new() };
    for columns in &columns {
        let run = |k: f64| Run { columns: *columns as usize, k: k as usize, max_columns: 4 };
        let lines = experiment.sweep(&ks, run).await;
        plots.by_k.push(Pair::new(&format!("{columns} columns"), "k", &lines));
    }
    // In a quick run one line by columns is enough.
    for k in &ks[..workspace.runs(ks.len())] {
        let run = |columns: f64| Run { columns: columns as usize, k: *k as usize, max_columns: 3 };
        let lines = experiment.sweep(&columns, run).await;
        plots.by_columns.push(Pair::new(&format!("k = {k}"), "columns", &lines));
    }
    let claims = plots.claims();
    let pairs = plots.by_k.into_iter().chain(plots.by_columns);
    let plots = pairs.flat_map(|pair| [pair.loss, pair.retention]).collect();
    Ok(Report { people: experiment.people.title, plots, claims })
}

/// What a report tells about one release.
#[derive(Clone, Copy)]
struct Measured {
    loss: f64,
    retention: f64,
}

/// What is asked of one release.
#[derive(Clone, Copy)]
struct Run {
    /// Columns, the sensitive one included.
    columns: usize,
    k: usize,
    max_columns: usize,
}

struct Experiment<'a> {
    workspace: &'a Workspace,
    people: People,
}

impl Experiment<'_> {
    async fn sweep(&self, places: &[f64], run: impl Fn(f64) -> Run) -> Vec<Line<Measured>> {
        let mut lines = Vec::new();
        for method in [ASG_LS, SLICING, LGAA_CP] {
            for variant in Variant::BOTH {
                let measure = async |place| self.measure(method, variant, run(place)).await;
                lines.push(Line::measure(variant.name(method), places, measure).await);
            }
        }
        lines
    }

    async fn measure(&self, method: &str, variant: Variant, run: Run) -> Result<Measured> {
        let columns = &self.people.columns[..run.columns];
        let (sensitive, quasi_identifiers) = (columns[0].0, &columns[1..]);
        let roles = format!(
            "quasi_identifiers => [{}], sensitive => ['{sensitive}']",
            quoted(&names(quasi_identifiers))
        );
        let hierarchies = |columns| self.workspace.hierarchies(columns);
        // Only slicing looks at the hierarchy of the sensitive column.
        let how = match method {
            LGAA_CP => hierarchies(quasi_identifiers),
            _ => format!("{}, max_columns => {}", hierarchies(columns), run.max_columns),
        };
        let original = format!("(SELECT {} FROM people)", names(columns).join(", "));
        let release = format!(
            "anonymize({original}, k => {}, l => 3, method => '{method}', suppression_limit => 1, \
             {roles}, seed => 1{how}{})",
            run.k,
            variant.option()
        );
        let report = format!(
            "utility_report({original}, {release}, {roles}{}, min_support => 0.2, \
             min_confidence => 0.8, max_columns => {})",
            hierarchies(columns),
            run.max_columns
        );
        let measures = self.workspace.measures(&report).await?;
        Ok(Measured {
            loss: measures.get("ncp")?,
            retention: measures.get("association_retention")?,
        })
    }
}

/// Loss and retention along one axis.
struct Pair {
    loss: LinePlot,
    retention: LinePlot,
}

impl Pair {
    fn new(setting: &str, axis: &str, lines: &[Line<Measured>]) -> Self {
        let plot = |what: &str, y_label: &str, lines: Vec<Line>| LinePlot {
            title: format!("{what} by {axis}, {setting}"),
            setting: setting.to_owned(),
            axis: axis.to_owned(),
            y_label: y_label.to_owned(),
            start: Start::Zero,
            lines,
        };
        Self {
            loss: plot("Loss", "NCP", map_all(lines, |found| found.loss)),
            retention: plot("Association retention", "AR", map_all(lines, |found| found.retention)),
        }
    }

    fn columns(&self) -> f64 {
        self.loss
            .setting
            .split(' ')
            .next()
            .and_then(|columns| columns.parse().ok())
            .unwrap_or(f64::NAN)
    }
}

/// What the paper says, and how it is decided.
const CLAIMS: &[Rule<Plots>] = &[
    (
        claim(
            "wang-2018.1",
            "With five columns all three methods retain the same associations.",
            "Fig. 3a",
        ),
        |plots, variant| plots.same_at_five(variant),
    ),
    (
        claim(
            "wang-2018.2",
            "From eight columns on asg_ls retains 8.9 to 22.8 % more associations than slicing.",
            "Abstract",
        ),
        |plots, variant| plots.many_columns(variant, SLICING, 1.089, 1.228),
    ),
    (
        claim(
            "wang-2018.3",
            "asg_ls retains at least as many associations as slicing.",
            "Fig. 3, 4",
        ),
        |plots, variant| {
            let [asg_ls, slicing] = with_asg_ls(variant, SLICING);
            all(plots.pairs().map(|pair| {
                pair.retention.best(&asg_ls, std::slice::from_ref(&slicing), Better::Higher)
            }))
        },
    ),
    (
        claim(
            "wang-2018.4",
            "From eight columns on asg_ls retains 24 to 118 % more associations than LGAA-CP. (Here: at \
             least 24 %.)",
            "Abstract",
        ),
        |plots, variant| plots.many_columns(variant, LGAA_CP, 1.24, f64::INFINITY),
    ),
    (
        claim(
            "wang-2018.5",
            "What asg_ls retains more than LGAA-CP grows with the columns.",
            "Fig. 4",
        ),
        |plots, variant| plots.gap_grows(variant),
    ),
    (
        claim(
            "wang-2018.6",
            "The losses of asg_ls and slicing differ by at most 1.5 %.",
            "Abstract",
        ),
        |plots, variant| {
            let [asg_ls, slicing] = with_asg_ls(variant, SLICING);
            all(plots.pairs().map(|pair| pair.loss.ratio_within(&asg_ls, &slicing, [0.985, 1.015])))
        },
    ),
    (
        claim(
            "wang-2018.7",
            "LGAA-CP loses 47 to 183 % more than asg_ls. (Here: at least 47 %.)",
            "Abstract",
        ),
        |plots, variant| {
            let [asg_ls, lgaa_cp] = with_asg_ls(variant, LGAA_CP);
            all(plots
                .pairs()
                .map(|pair| pair.loss.ratio_within(&lgaa_cp, &asg_ls, [1.47, f64::INFINITY])))
        },
    ),
    (
        claim(
            "wang-2018.8",
            "With k the loss of LGAA-CP grows far more than that of asg_ls. (Here: at least twice as much.)",
            "Fig. 1",
        ),
        |plots, variant| plots.loss_grows_with_k(variant),
    ),
];

struct Plots {
    /// At most four columns in an association; one for each number of columns.
    by_k: Vec<Pair>,
    /// At most three columns in an association; one for each k.
    by_columns: Vec<Pair>,
}

impl Plots {
    fn claims(&self) -> Vec<Claim> {
        decide_all(CLAIMS, self)
    }

    fn pairs(&self) -> impl Iterator<Item = &Pair> {
        self.by_k.iter().chain(&self.by_columns)
    }

    fn same_at_five(&self, variant: Variant) -> Found {
        let five = self.by_k.iter().filter(|pair| pair.columns() == 5.0);
        let check = |pair: &Pair| {
            let others = [SLICING, LGAA_CP].map(|other| {
                pair.retention.ratio_within(
                    &variant.name(ASG_LS),
                    &variant.name(other),
                    [0.999, 1.001],
                )
            });
            let [slicing, lgaa_cp] = others;
            let both = slicing?.into_iter().zip(lgaa_cp?);
            let both = both.map(|(slicing, lgaa_cp)| Check {
                at: slicing.at,
                found: format!("of slicing {}; of LGAA-CP {}", slicing.found, lgaa_cp.found),
                holds: slicing.holds && lgaa_cp.holds,
            });
            Ok(both.collect())
        };
        all(five.map(check))
    }

    /// The ratio of `asg_ls` to another method where there are eight columns or more.
    fn many_columns(&self, variant: Variant, other: &str, low: f64, high: f64) -> Found {
        let [asg_ls, other] = [ASG_LS, other].map(|method| variant.name(method));
        let by_k = self.by_k.iter().filter(|pair| pair.columns() >= 8.0);
        let by_k = by_k.map(|pair| pair.retention.ratio_within(&asg_ls, &other, [low, high]));
        let by_columns = self.by_columns.iter().map(|pair| {
            let mut checks = pair.retention.ratio_within(&asg_ls, &other, [low, high])?;
            // The first place has five columns.
            checks.remove(0);
            Ok(checks)
        });
        all(by_k.chain(by_columns))
    }

    fn gap_grows(&self, variant: Variant) -> Found {
        let check = |pair: &Pair| {
            let pairs = pair.retention.pairs(&variant.name(ASG_LS), &variant.name(LGAA_CP))?;
            let gaps: Vec<f64> =
                pairs.iter().map(|(_, asg_ls, lgaa_cp)| asg_ls - lgaa_cp).collect();
            let shown: Vec<String> = gaps.iter().map(|gap| number(*gap)).collect();
            let holds = gaps.windows(2).all(|step| step[0] < step[1]);
            Ok(Check { at: pair.retention.setting.clone(), found: shown.join(" → "), holds })
        };
        self.by_columns.iter().map(check).collect()
    }

    fn loss_grows_with_k(&self, variant: Variant) -> Found {
        let check = |pair: &Pair| {
            let growth = |method: &str| match pair.loss.line(&variant.name(method))? {
                [first, .., last] => Ok::<f64, String>(last.1 - first.1),
                _ => Err("too few points".to_owned()),
            };
            let (asg_ls, lgaa_cp) = (growth(ASG_LS)?, growth(LGAA_CP)?);
            let found = format!("LGAA-CP {lgaa_cp:+.4}, asg_ls {asg_ls:+.4}");
            Ok(Check {
                at: pair.loss.setting.clone(),
                found,
                holds: lgaa_cp > 2.0 * asg_ls.max(0.0),
            })
        };
        self.by_k.iter().map(check).collect()
    }
}

/// `asg_ls` and another method.
fn with_asg_ls(variant: Variant, other: &str) -> [String; 2] {
    [ASG_LS, other].map(|method| variant.name(method))
}
