//! Release jobs: a table is anonymized, written, read back, verified and published in one atomic step.
//!
//! ```text
//! job.toml ─► Job ─► session (inputs, rows, seed) ─► anonymize ─► staging ─► read back ─► reports, checks
//!                                                                   └─► releases/<release>/ ─► manifest.json
//! ```
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`job`] | what a job file says, and its mistakes |
//! | `session` | inputs as tables of a session of the job's own |
//! | `plan` | the release and the reports as plans |
//! | `sql` | quoted names and texts of other queries |
//! | `write` | rows to files |
//! | `verify` | files to measures and checks |
//! | `place` | directories and object stores: lock, staging, pointer |
//! | [`manifest`] | what a release says of itself |
//! | `ready` | whether a job can run, without running it |
//! | `run` | the steps in their order, and what happens when one fails |
//! | `series` | releases that follow each other: their state, and in which order both are published |
//! | [`store`] | object stores by URL |
//! | `current` | reading the current release |
//! | [`report`] | a page about a release, for people |

mod checksum;
mod csv;
mod current;
mod error;
pub mod job;
pub mod manifest;
mod place;
mod plan;
mod progress;
mod ready;
pub mod report;
mod run;
mod scratch;
mod series;
mod session;
mod sql;
pub mod store;
mod verify;
mod write;

pub use current::{check_files, current, register_release};
pub use error::{Error, Result};
pub use job::Job;
pub use manifest::Manifest;
pub use progress::{Observer, Phase, Silent, rows_read, rows_to_read};
pub use ready::{check_goes_on, plan_release};
pub use run::{Outcome, RunOptions, run, run_until};
pub use series::{
    Forgotten, NEW_SERIES_COST, Night, Status, Withdrawn, forget, history, status,
    withdraw_forgotten,
};
