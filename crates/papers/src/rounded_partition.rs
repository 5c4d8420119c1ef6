//! Classes of at most k + 1 rows: `rounded` against both Mondrians and `bottom_up`, as in the experiments of the paper
//! ("Rounded partition function for k-anonymity").
//!
//! DM, CM, number of classes and time by k, on the paper's quasi-identifiers and with the salary as class label. They are
//! counted by class, because classes that publish equal values are still apart.

use datafusion::common::{Result, exec_err};

use crate::Report;
use crate::claim::{Check, Claim, Found, Rule, claim, decide_all};
use crate::columns::{Column, names, quoted};
use crate::compare::{Better, Way};
use crate::line::{Line, as_ratios, map_all, median};
use crate::people::{AdultRows, Wanted};
use crate::plot::{LinePlot, Start};
use crate::table::number;
use crate::variant::Variant;
use crate::workspace::{Workspace, numbers};

const KS: [f64; 6] = [2.0, 5.0, 10.0, 25.0, 50.0, 100.0];

const METHODS: [&str; 4] = ["rounded", "mondrian", "mondrian_relaxed", "bottom_up"];

/// Releases of which the median time is taken.
const RUNS: usize = 3;

/// Milliseconds from which one release is enough.
const LONG: f64 = 5_000.0;

/// A time of at most so many times that of strict Mondrian is acceptable.
const ACCEPTABLE: f64 = 2.0;

/// The class label stands last.
const COLUMNS: &[Column] = &[
    ("age", None),
    ("workclass", Some("workclass_levels")),
    ("education", Some("education_levels")),
    ("marital_status", Some("marital_status_levels")),
    ("occupation", Some("occupation_levels")),
    ("race", Some("race_levels")),
    ("sex", Some("sex_levels")),
    ("native_country", Some("native_country_levels")),
    ("salary_class", None),
];

pub async fn run(workspace: &Workspace) -> Result<Report> {
    let wanted = Wanted {
        sample: COLUMNS.to_vec(),
        sample_rows: 30_162,
        adult: COLUMNS.to_vec(),
        adult_rows: AdultRows::Training,
    };
    let people = workspace.load_people(&wanted).await?;
    let ks = workspace.points(&KS);
    let mut lines = Vec::new();
    for method in METHODS {
        for variant in Variant::BOTH {
            let measure = async |k| measure(workspace, method, variant, k).await;
            lines.push(Line::measure(variant.name(method), &ks, measure).await);
        }
    }
    let plots = Plots::new(people.rows as f64, &lines);
    let claims = plots.claims();
    let Plots { dm, cm, classes, largest, time, .. } = plots;
    Ok(Report { people: people.title, plots: vec![dm, cm, classes, largest, time], claims })
}

/// What one release has.
struct Measured {
    classes: f64,
    largest: f64,
    dm: f64,
    cm: f64,
    time: f64,
}

async fn measure(
    workspace: &Workspace,
    method: &str,
    variant: Variant,
    k: f64,
) -> Result<Measured> {
    let (quasi_identifiers, label) = COLUMNS.split_at(COLUMNS.len() - 1);
    let label = label[0].0;
    let release = format!(
        "anonymize(people, k => {k}, method => '{method}', class_id => true, seed => 1, \
         quasi_identifiers => [{}], keep => ['{label}']{}{})",
        quoted(&names(quasi_identifiers)),
        workspace.hierarchies(quasi_identifiers),
        variant.option()
    );
    let sql = format!(
        "SELECT count(*), max(all_rows), sum(all_rows * all_rows), sum(all_rows - of_label) FROM ( \
           SELECT sum(label_rows) AS all_rows, max(label_rows) AS of_label FROM ( \
             SELECT class_id, count(*) AS label_rows FROM {release} GROUP BY class_id, {label}) \
           GROUP BY class_id)"
    );
    let first = workspace.release(&sql).await?;
    let mut times = vec![first.forming()?];
    while times.len() < workspace.runs(RUNS) && times[0] < LONG {
        times.push(workspace.release(&sql).await?.forming()?);
    }
    let found = numbers(&first.batches)?;
    let [classes, largest, dm, cm] = found[..] else {
        return exec_err!("not four numbers");
    };
    Ok(Measured { classes, largest, dm, cm, time: median(times) })
}

/// What the paper says, and how it is decided.
const CLAIMS: &[Rule<Plots>] = &[
    (
        claim(
            "rounded-partition.1",
            "No class is larger than k + ⌈β / 2^⌊log₂ α⌋⌉ rows, where n = αk + β; that is k + 1 from n = \
             2k² on.",
            "Theorem 2, corollary 2",
        ),
        |plots, variant| plots.within_bound(variant),
    ),
    (
        claim(
            "rounded-partition.2",
            "The mean size of the classes comes as close to k as the table is large: there are ⌊n/k⌋ of \
             them.",
            "Theorem 1, corollary 3",
        ),
        |plots, variant| plots.as_many_as_can_be(variant),
    ),
    (
        claim(
            "rounded-partition.3",
            "rounded has the lowest DM of the four methods, at every k.",
            "Fig. 5a",
        ),
        |plots, variant| lead(&plots.dm, variant, Better::Lower),
    ),
    (
        claim(
            "rounded-partition.4",
            "rounded has the lowest CM of the four methods, at every k.",
            "Fig. 5b",
        ),
        |plots, variant| lead(&plots.cm, variant, Better::Lower),
    ),
    (
        claim(
            "rounded-partition.5",
            "rounded makes the most classes of the four methods, at every k.",
            "Fig. 5c",
        ),
        |plots, variant| lead(&plots.classes, variant, Better::Higher),
    ),
    (
        claim("rounded-partition.6", "DM grows with k for all four methods.", "Fig. 5a"),
        |plots, variant| rise(&plots.dm, variant),
    ),
    (
        claim("rounded-partition.7", "CM grows with k for all four methods.", "Fig. 5b"),
        |plots, variant| rise(&plots.cm, variant),
    ),
    (
        claim(
            "rounded-partition.8",
            "The time of rounded is acceptable. (Here: at most twice that of strict Mondrian.)",
            "Fig. 5d",
        ),
        |plots, variant| {
            let names = ["rounded", "mondrian"].map(|name| variant.name(name));
            plots.time.ratio_within(&names[0], &names[1], [0.0, ACCEPTABLE])
        },
    ),
];

struct Plots {
    rows: f64,
    dm: LinePlot,
    cm: LinePlot,
    classes: LinePlot,
    largest: LinePlot,
    time: LinePlot,
}

impl Plots {
    fn new(rows: f64, lines: &[Line<Measured>]) -> Self {
        let plot = |title: &str, y_label: &str, lines: Vec<Line>| LinePlot {
            title: title.to_owned(),
            setting: String::new(),
            axis: "k".to_owned(),
            y_label: y_label.to_owned(),
            start: Start::Zero,
            lines,
        };
        let of = |value: fn(&Measured) -> f64| map_all(lines, value);
        Self {
            rows,
            dm: plot("Discernibility by k", "DM", of(|found| found.dm)),
            cm: plot("Classification metric by k", "CM, rows", of(|found| found.cm)),
            classes: plot("Classes by k", "classes", of(|found| found.classes)),
            largest: plot(
                "Largest class by k",
                "rows, divided by k",
                relative_to_k(of(|found| found.largest)),
            ),
            time: plot("Time by k", "time, shortest = 1", as_ratios(&of(|found| found.time))),
        }
    }

    fn claims(&self) -> Vec<Claim> {
        decide_all(CLAIMS, self)
    }

    fn within_bound(&self, variant: Variant) -> Found {
        let check = |(k, relative): &(f64, f64)| {
            let (alpha, beta) = ((self.rows / k).floor(), self.rows % k);
            let bound = k + (beta / 2f64.powf(alpha.log2().floor())).ceil();
            let largest = (relative * k).round();
            let found = format!("{} rows, bound {}", number(largest), number(bound));
            Check { at: self.largest.at(*k), found, holds: largest <= bound }
        };
        Ok(self.largest.line(&variant.name("rounded"))?.iter().map(check).collect())
    }

    fn as_many_as_can_be(&self, variant: Variant) -> Found {
        let check = |(k, classes): &(f64, f64)| {
            let most = (self.rows / k).floor();
            let found =
                format!("{} classes of {} rows", number(*classes), number(self.rows / classes));
            Check { at: self.classes.at(*k), found, holds: *classes == most }
        };
        Ok(self.classes.line(&variant.name("rounded"))?.iter().map(check).collect())
    }
}

/// Whether `rounded` is the best of the four, at every k.
fn lead(plot: &LinePlot, variant: Variant, better: Better) -> Found {
    let others = METHODS[1..].iter().map(|name| variant.name(name)).collect::<Vec<_>>();
    plot.best(&variant.name("rounded"), &others, better)
}

/// Whether all four grow with k.
fn rise(plot: &LinePlot, variant: Variant) -> Found {
    METHODS.iter().map(|method| plot.goes(&variant.name(method), Way::Up, 0.0)).collect()
}

/// Sizes of classes as multiples of k.
fn relative_to_k(lines: Vec<Line>) -> Vec<Line> {
    let relative = |mut line: Line| {
        if let Ok(points) = &mut line.points {
            points.iter_mut().for_each(|(k, size)| *size /= *k);
        }
        line
    };
    lines.into_iter().map(relative).collect()
}
