//! `anonymize serve` as its clients meet it: a real process, a real psql.

#![cfg(all(feature = "serve", unix))]
#![allow(clippy::unwrap_used)]

mod access;
mod answers;
mod bucket;
mod dialect;
mod documentation;
mod limits;
mod protocol;
mod python;
mod refreshes;
mod server;
mod setup;
