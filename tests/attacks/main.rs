//! Attackers who know the method, the options and the code, but not the seed: one file for each.
#![allow(clippy::unwrap_used, missing_docs)]

mod hidden_values;
