//! The methods: plain functions from coded rows to classes, or to what is published of every row.

pub mod alike;
pub mod alpha_k;
mod blocks;
mod bounds;
pub mod cells;
pub mod classfly;
pub mod cluster;
mod job;
mod lanes;
pub mod layered;
pub mod partition;
pub mod slicing;
#[cfg(test)]
mod stops;
pub mod top_down;
mod variant;

pub use job::Job;
pub use variant::Variant;
