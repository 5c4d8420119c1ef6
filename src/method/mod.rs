//! The methods: plain functions from coded rows to classes.

pub mod alpha_k;
mod job;
pub mod cluster;
pub mod partition;
pub mod top_down;

pub use job::Job;
