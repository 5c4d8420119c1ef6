//! Anonymization as SQL table functions for [Apache DataFusion](https://datafusion.apache.org).
//!
//! ```sql
//! SELECT * FROM anonymize(
//!   patients,
//!   k => 10,
//!   quasi_identifiers => ['age', 'zip', 'education'],
//!   sensitive         => ['disease'],
//!   identifiers       => ['name', 'ssn'],
//!   hierarchies       => {age: intervals(5, 10, 20), zip: prefixes(4, 3, 2)}
//! );
//! ```
//!
//! Every published row shares its quasi-identifiers with at least k − 1 others; identifiers never
//! leave; the requirement is verified on the classes before the first row does.
//!
//! # In a program
//!
//! ```
//! use datafusion::prelude::SessionContext;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> datafusion::error::Result<()> {
//! let context = SessionContext::new();
//! datafusion_anonymize::register_all(&context)?;
//! // Made-up rows to try it on, from the crate `anonymize-sample`.
//! anonymize_sample::register(&context)?;
//! let release = context
//!     .sql(
//!         "SELECT * FROM anonymize(
//!            (SELECT age, education, occupation FROM sample_census(rows => 2000)),
//!            k => 25, quasi_identifiers => ['age', 'education'], sensitive => ['occupation'])",
//!     )
//!     .await?;
//! assert_eq!(release.count().await?, 2000);
//! # Ok(())
//! # }
//! ```
//!
//! [`Anonymize`] builds the same plan from a `DataFrame`. Hosts with a query planner of their
//! own use [`register_sql`] and [`AnonymizeExtensionPlanner`].
//!
//! # Which method?
//!
//! | `method =>` | choose it when | classes |
//! | --- | --- | --- |
//! | `layered` (default) | you want the least loss | k to 2k − 1 rows; every row published, or `suppress => true` leaves out the few that fit nowhere |
//! | `rounded` | you want the most and smallest classes | exactly ⌊n/k⌋; at most k + 1 rows from k(k − 1) rows on |
//! | `mondrian` | a value must fall into one range only | at least k rows; large where values are frequent |
//! | `mondrian_relaxed` | you compare with the literature | k to 2k − 1 rows |
//! | `classfly_complete` (default with `constraints`) | several recipients can link by different columns | every combination of published values in a constraint's columns occurs at least k times, `*` included |
//! | `classfly_partial` | as above; the same release, found another way | |
//! | `classfly_naive` | you compare with the literature | the same, on all columns at once |
//! | `classfly` | one constraint: values stay exact wherever k rows agree | at least k rows |
//! | `datafly` | a column must be published on one level everywhere | at least k rows |
//! | `alpha_k` | quasi-identifiers must stay exact: two tables, joined by a class | at least k rows, no sensitive value above its share |
//! | `top_down` | you compare `alpha_k` with generalization | at least k rows |
//! | `kaim` | values are missing: all rows stay, with the least loss | k to 2k − 1 rows; no row is dropped |
//! | `k_member` | you want little loss on a small, complete table | k rows or a few more; rows with missing values are dropped and counted |
//! | `bottom_up` | you compare with the literature | at least k rows |
//! | `asg_ls` | there are many columns: values stay exact, links between groups of columns are broken | buckets of at least k rows; nobody names a sensitive value with a chance above 1/l |
//! | `slicing` | as above, with one set of columns for the whole table | |
//!
//! # Layers
//!
//! `model ← {hierarchy, association} ← {method, measure} ← columnar ← engine`, each knowing only those to its left.
//! The pure layers build without Arrow and DataFusion (`--no-default-features`). `ARCHITECTURE.md`
//! walks through the code. With the feature `cells` a table can be cut into parts that are
//! anonymized apart, and with `cluster` plans can be written as bytes, for engines that run them on several
//! machines.

mod association;
#[cfg(feature = "engine")]
mod columnar;
#[cfg(feature = "engine")]
mod engine;
mod error;
mod hierarchy;
mod measure;
mod method;
mod model;

#[cfg(feature = "engine")]
pub use columnar::Ranges;
#[cfg(feature = "engine")]
pub use engine::*;
pub use error::{Error, Result};
pub use hierarchy::DateStep;
#[cfg(feature = "engine")]
pub use measure::{round_measure, round_to_three_digits};
pub use method::partition::Split;
pub use method::{Family, MethodOption, MethodRef, Variant, methods};
#[cfg(feature = "engine")]
pub use model::series::{Changes, Leavers};
pub use model::{AlphaScope, Grades, Secret, Seed};

/// The layers below Arrow and DataFusion: the methods as plain functions over codes, their models, hierarchies and
/// measures. For benchmarks and for those who read a method beside its paper; not covered by semantic versioning.
pub mod pure {
    pub mod hierarchy {
        //! Levels over the values of a column.
        pub use crate::hierarchy::*;
    }
    pub mod measure {
        //! Measures of a release.
        pub use crate::measure::*;
    }
    pub mod method {
        //! The methods.
        pub use crate::method::*;
    }
    pub mod model {
        //! Rows of codes, requirements and classes.
        pub use crate::model::*;
    }
}
