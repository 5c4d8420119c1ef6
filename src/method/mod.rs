//! The methods: plain functions from coded rows to classes, or to what is published of every row.

pub mod alike;
pub mod alpha_k;
mod blocks;
mod bounds;
mod branches;
mod budget;
#[cfg(feature = "cells")]
pub mod cells;
pub mod classfly;
pub mod cluster;
mod counter;
mod lanes;
pub mod layered;
mod option;
pub mod partition;
#[cfg(test)]
mod promises;
mod refine;
mod registry;
mod settings;
pub mod slicing;
#[cfg(test)]
mod testing;
pub mod top_down;
#[cfg(test)]
mod toy;

#[cfg(feature = "engine")]
pub(crate) use option::method_options;
pub use option::{MethodOption, Takes};
pub use registry::{About, Family, Method, MethodRef, methods};
pub use settings::{Job, Settings, TableShape, Unverified, Variant};
