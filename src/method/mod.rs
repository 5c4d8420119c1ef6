//! The methods: plain functions from coded rows to classes, or to what is published of every row.

pub mod alpha_k;
mod job;
pub mod cluster;
pub mod classfly;
pub mod partition;
pub mod top_down;

pub use job::Job;
