//! The experiments of the papers behind the methods.
//!
//! ```sh
//! cargo run --release -p papers                              # all of them
//! cargo run --release -p papers -- loss_by_k                 # the named ones
//! ADULT_DIR=… cargo run --release -p papers -- loss_by_k     # on the Adult census
//! ```
//!
//! With `ADULT_DIR` naming a directory with `adult.csv`, `adult_full.csv` and `hierarchies/*.csv` the people are those of
//! the Adult census, otherwise of `sample_census`. Every experiment prints its tables and draws them as SVG files.
//!
//! A new experiment is a module with a function `run`, and its entry in [`EXPERIMENTS`]. It takes the numbers of rows,
//! runs and points from its [`Workspace`], so that `--quick`, which the tests run, is quick.

mod columns;
mod graded_sensitivity;
mod incomplete_data;
mod local_slicing;
mod loss_by_k;
mod many_constraints;
mod people;
mod plot;
mod table;
mod workspace;

use datafusion::common::Result;
use futures::future::LocalBoxFuture;

pub use workspace::{Setting, Workspace};

/// One experiment.
pub struct Experiment {
    /// What the command line calls it, and the directory of its plots.
    pub name: &'static str,
    /// What it shows, in a line.
    pub shows: &'static str,
    run: for<'a> fn(&'a Workspace) -> LocalBoxFuture<'a, Result<()>>,
}

impl Experiment {
    /// Prints the experiment's tables and writes its plots.
    pub async fn run(&self, setting: &Setting) -> Result<()> {
        println!("# {}: {}\n", self.name, self.shows);
        (self.run)(&Workspace::new(setting, self.name)?).await
    }
}

/// All experiments, in the order in which they run.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "loss_by_k",
        shows: "how much every method loses, by k",
        run: |workspace| Box::pin(loss_by_k::run(workspace)),
    },
    Experiment {
        name: "many_constraints",
        shows: "many constraints at once: Classfly+ against Datafly",
        run: |workspace| Box::pin(many_constraints::run(workspace)),
    },
    Experiment {
        name: "local_slicing",
        shows: "many columns: slicing against generalization",
        run: |workspace| Box::pin(local_slicing::run(workspace)),
    },
    Experiment {
        name: "graded_sensitivity",
        shows: "sensitive values of different weight: two tables against generalization",
        run: |workspace| Box::pin(graded_sensitivity::run(workspace)),
    },
    Experiment {
        name: "incomplete_data",
        shows: "missing cells: kaim, which keeps incomplete rows, against k_member, which drops them",
        run: |workspace| Box::pin(incomplete_data::run(workspace)),
    },
];
