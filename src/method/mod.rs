//! The methods: plain functions from coded rows to classes.

pub mod alpha_k;
mod job;
pub mod partition;

pub use job::Job;
