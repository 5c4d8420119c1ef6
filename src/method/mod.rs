//! The methods: plain functions from coded rows to classes.

mod job;
pub mod partition;

pub use job::Job;
