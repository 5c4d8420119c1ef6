//! The vocabulary that methods and measures share: coded rows, what a class must satisfy, classes.

mod cancel;
mod check;
mod classes;
mod columns;
mod grades;
mod parallel;
mod persons;
mod requirement;
mod row;
mod seed;
pub mod series;
mod shuffle;
mod store;
mod tally;
pub mod ties;

pub use cancel::Cancel;
pub use check::{Placement, check_placement};
pub use classes::Classes;
pub use grades::{AlphaScope, Grades, MAX_LEVELS};
pub(crate) use parallel::{join, map_parts};
pub use persons::Persons;
pub use requirement::{Model, Requirement, SensitiveColumn};
pub(crate) use row::with_rows;
pub use row::{Code, MAX_QUASI_IDENTIFIERS, Row, RowTable};
pub use seed::{Purpose, Secret, Seed};
pub use shuffle::{class_hash, shuffle_classes};
#[cfg(feature = "engine")]
pub(crate) use store::ScratchFile;
pub use store::{Plain, Store};
pub use tally::{GlobalShares, Tally};
pub use ties::RowKeys;
