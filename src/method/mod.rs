//! The methods: plain functions from coded rows to classes, or to what is published of every row.

pub mod classfly;
pub mod partition;
