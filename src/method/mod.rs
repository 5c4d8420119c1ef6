//! The methods: plain functions from coded rows to classes.

pub mod cluster;
pub mod partition;
