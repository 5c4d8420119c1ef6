//! The methods: plain functions from coded rows to classes.

pub mod partition;
