//! The logical node of a release, and what its schema says of it.

mod builder;
mod node;
mod privacy_unit;
mod reason;
mod series;
mod written;

pub(super) use builder::plan_anonymize;
pub use node::AnonymizeNode;
pub(super) use node::{
    Binding, hierarchy_input, is_of_release, metadata, output_fields, take_back_filter,
};
pub(super) use privacy_unit::{split_unit, with_unit};
pub(super) use series::last_column;
pub use written::check_may_be_written;
pub(super) use written::check_variant;
