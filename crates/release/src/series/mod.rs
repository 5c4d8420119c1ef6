//! A series: releases that follow each other, and what is remembered between them.
//!
//! The state is a folder that only the job reads. It says by keyed hashes who is in which cohort, and nothing else about
//! anybody:
//!
//! ```text
//! state/
//!   state.json                              whose state it is, and the last version that a pointer has named
//!   series-20261116T020000Z-1f6e07ad.json   the series after one release: segments, promise, nights
//!   members-20261116T020000Z-1f6e07ad.parquet   the persons who got a cohort that night
//! ```
//!
//! # The steps of a night
//!
//! A run may end after each of them, killed or by a power cut. What the next run finds:
//!
//! | step | if the run ends here |
//! | --- | --- |
//! | 1. lock the output, read its pointer, and the state that the pointer names; verify both, and the last release | nothing was written |
//! | 2. claim the folder if nobody has; remove what neither the pointer nor its state name | the next run does the rest |
//! | 3. compute release and new cohorts at once, write the release to `.staging/` of the output | a stray there |
//! | 4. write `members-RUN.parquet`, the persons of tonight's new cohorts | a stray in the state, too: nobody reads a segment that no state names |
//! | 5. read both back: every cohort whole, nobody in two, nothing of the last release lost | as before |
//! | 6. write `series-RUN.json`, which names all segments with their SHA-256 | one more stray: nobody reads a state that no pointer names |
//! | 7. put the release in place | a stray in `releases/` |
//! | 8. **replace the pointer**, whose manifest names `series-RUN.json` with its SHA-256 | before: the old release with the old state; after: the new ones |
//! | 9. say in `state.json` that this version is published | the next run says it |
//! | 10. remove the old `series-….json`, and releases that are too old | the next run removes them |
//!
//! So a release is never current without its state, nor a state without its release. Nobody gets a second cohort: the
//! persons of a night are known to the next one if and only if the release of that night is the one that the pointer names.
//! A pointer that is older than `state.json` says was brought back from somewhere. Going on from there would put those
//! who came meanwhile into other cohorts, so it is refused, as are a state that is missing, altered, or of another seed.
//!
//! Forgetting somebody writes the segment anew under another name, then the steps 6, 8, 9 and 10.

mod check;
mod figures;
mod folder;
mod forget;
mod live;
mod members;
mod once;
mod state;
mod status;
mod tonight;

pub(crate) use check::SecondLook;
pub(crate) use figures::Figures;
pub use forget::{Forgotten, Withdrawn, forget, withdraw_forgotten};
pub(crate) use live::{loss_of_live, register_held, register_live};
pub(crate) use once::compute;
pub use state::{NEW_SERIES_COST, Night};
pub use status::{Status, history, status};
pub(crate) use tonight::{Begin, Recorded, Tonight, register_empty};
