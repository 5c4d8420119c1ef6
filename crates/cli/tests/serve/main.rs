//! `anonymize serve` as its clients meet it: a real process, a real psql.

#![cfg(all(feature = "serve", unix))]
#![allow(clippy::unwrap_used)]

mod access;
mod answers;
mod bucket;
mod client;
mod dialect;
mod documentation;
mod limits;
#[path = "../shared/ports.rs"]
mod ports;
#[path = "../shared/program.rs"]
mod program;
mod protocol;
mod python;
mod refreshes;
mod series;
mod server;
mod setup;
#[path = "../shared/shell.rs"]
mod shell;
