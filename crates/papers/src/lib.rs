//! The experiments of the papers behind the methods, and whether what the papers claim is found.
//!
//! ```sh
//! cargo run --release -p papers                              # all of them
//! cargo run --release -p papers -- rounded_partition         # the named ones
//! ADULT_DIR=… cargo run --release -p papers                  # on the Adult census
//! ```
//!
//! With `ADULT_DIR` naming a directory with `adult.csv`, `adult_full.csv` and `hierarchies/*.csv` the people are those of
//! the Adult census, otherwise of `sample_census`.
//!
//! Everything is measured twice, with `variant => 'paper'` and by default. A claim is a list of comparisons between the
//! numbers measured: it holds, holds in part or does not hold by how many of them are true. What the engine refuses is
//! "not measured", with its message.
//!
//! A new experiment is a module with a function `run`, and its entry in [`EXPERIMENTS`]. It takes the numbers of rows,
//! runs and points from its [`Workspace`], so that `--quick`, which the tests run, is quick.

mod claim;
mod columns;
mod compare;
mod graded_sensitivity;
mod incomplete_data;
mod line;
mod local_slicing;
mod loss_by_k;
mod many_constraints;
mod page;
mod people;
mod plot;
mod random;
mod rounded_partition;
mod summary;
mod table;
mod variant;
mod workspace;

use datafusion::common::Result;
use futures::future::LocalBoxFuture;

use claim::Claim;
use plot::LinePlot;

pub use page::page;
pub use summary::{Command, printed, summary};
pub use workspace::{Setting, Workspace};

/// One experiment.
pub struct Experiment {
    /// What the command line calls it.
    pub name: &'static str,
    /// What it shows, in a line.
    pub shows: &'static str,
    /// The paper that it repeats, if it repeats one.
    pub paper: Option<&'static str>,
    /// What has to be known to read its figures.
    pub note: &'static str,
    run: for<'a> fn(&'a Workspace) -> LocalBoxFuture<'a, Result<Report>>,
}

impl Experiment {
    /// Measures everything.
    pub async fn run(&self, setting: &Setting) -> Result<Report> {
        (self.run)(&Workspace::new(setting)?).await
    }
}

/// What an experiment found.
pub struct Report {
    people: String,
    plots: Vec<LinePlot>,
    claims: Vec<Claim>,
}

/// All experiments, in the order in which they run.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "rounded_partition",
        shows: "classes of at most k + 1 rows: rounded against Mondrian and bottom_up",
        paper: Some("“Rounded partition function for k-anonymity”"),
        note: "Everything is counted by class: classes that publish equal values are still apart.",
        run: |workspace| Box::pin(rounded_partition::run(workspace)),
    },
    Experiment {
        name: "many_constraints",
        shows: "many constraints at once: Classfly+ against Datafly",
        paper: Some(
            "Yang, Liu, Wang and Yu, “K-Anonymization approaches for supporting multiple constraints”, 2006",
        ),
        note: "The paper names neither domains nor hierarchies. The first hierarchies were chosen before \
            anything was measured. The second, without decades of birth and without intervals of 20, \
            were chosen after measuring the first.",
        run: |workspace| Box::pin(many_constraints::run(workspace)),
    },
    Experiment {
        name: "local_slicing",
        shows: "many columns: local slicing against slicing and generalization",
        paper: Some("Wang, Yu and Zhang, “Anonymous algorithm based on local partition”, 2018"),
        note: "The paper names neither its columns, nor which values are rare, nor how it looks for \
            rules. Here no value is rare, and rules are between nodes of the hierarchies. LGAA-CP is \
            k_member with l = 3.",
        run: |workspace| Box::pin(local_slicing::run(workspace)),
    },
    Experiment {
        name: "graded_sensitivity",
        shows: "sensitive values of different weight: two tables against generalization",
        paper: Some("“(αᵢ,k)-anonymity by grading of sensitivity”"),
        note: "Full domain is one level per column for all rows, climbed by Datafly’s rule until at most \
            k rows break k or alpha; top_down recodes locally and publishes rows exactly where k of them \
            agree. A suppressed row counts as lost, at distance 1.",
        run: |workspace| Box::pin(graded_sensitivity::run(workspace)),
    },
    Experiment {
        name: "incomplete_data",
        shows: "missing cells: kaim, which keeps incomplete rows, against k_member, which drops them",
        paper: Some(
            "Gong, Yang and Luo, “Data anonymization approach for incomplete microdata”, 2013",
        ),
        note: "As in the paper, k_member gets only the records that are complete in all eight columns, \
            whichever are used. What it drops counts as lost.",
        run: |workspace| Box::pin(incomplete_data::run(workspace)),
    },
    Experiment {
        name: "loss_by_k",
        shows: "beyond the papers: how much every method loses, by k",
        paper: None,
        note: "NCP per cell: 0 for an exact value, 1 for * and for every cell of a suppressed row. \
            alpha_k is not here, because it publishes quasi-identifiers as they are.",
        run: |workspace| Box::pin(loss_by_k::run(workspace)),
    },
];
