//! `anonymize` for Rust programs: a builder over a `DataFrame`.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion::prelude::DataFrame;

use super::config::AnonymizeConfig;
use super::logical::{AnonymizeNode, hierarchy_input};
use super::options::{Hierarchy, Options, Sensitivity};
use super::planning_error;
use super::session::SessionSecret;
use super::spec::{Models, Publish, Suppress};
use crate::columnar::Ranges;
use crate::method::Variant;
use crate::method::partition::Split;
use crate::model::{AlphaScope, Secret};

/// Builds the same plan as the SQL function. The session must know the functions
/// ([`register_all`](super::register_all)).
///
/// ```
/// # use datafusion::prelude::*;
/// # use datafusion_anonymize::engine::{Anonymize, Hierarchy};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let context = SessionContext::new();
/// datafusion_anonymize::register_all(&context)?;
/// let census = context.sql("SELECT age, zip, occupation FROM sample_census(rows => 500)").await?;
/// let release = Anonymize::new(5)
///     .quasi_identifiers(["age", "zip"])
///     .sensitive(["occupation"])
///     .hierarchy("zip", Hierarchy::prefixes([3, 2]))
///     .apply(census)?;
/// assert_eq!(release.count().await?, 500);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Anonymize {
    options: Options,
}

impl Anonymize {
    /// A release whose classes have at least `k` rows.
    pub fn new(k: u32) -> Self {
        Self { options: Options { k: Some(i64::from(k)), ..Options::default() } }
    }

    /// Columns somebody could know about a person; published generalized.
    pub fn quasi_identifiers<T: Into<String>>(
        mut self,
        columns: impl IntoIterator<Item = T>,
    ) -> Self {
        self.options.quasi_identifiers = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Columns nobody should learn about a person; published as they are.
    pub fn sensitive<T: Into<String>>(mut self, columns: impl IntoIterator<Item = T>) -> Self {
        self.options.sensitive = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Columns that name a person; never read, never published.
    pub fn identifiers<T: Into<String>>(mut self, columns: impl IntoIterator<Item = T>) -> Self {
        self.options.identifiers = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Harmless columns; published as they are.
    pub fn keep<T: Into<String>>(mut self, columns: impl IntoIterator<Item = T>) -> Self {
        self.options.keep = columns.into_iter().map(Into::into).collect();
        self
    }

    /// The column that tells persons apart: k then counts persons instead of rows.
    pub fn privacy_unit(mut self, column: impl Into<String>) -> Self {
        self.options.privacy_unit = Some(column.into());
        self
    }

    /// The largest share of a class that one person may hold, above 0 and at most 1. Needs a privacy unit;
    /// without it one person may hold all but k − 1 rows of a class.
    pub fn unit_share(mut self, share: f64) -> Self {
        self.options.unit_share = Some(share);
        self
    }

    /// How classes are formed.
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.options.method = Some(method.into());
        self
    }

    /// Conditions on the sensitive columns.
    pub fn models(mut self, models: Models) -> Self {
        self.options.l = models.l.map(i64::from);
        self.options.entropy_l = models.entropy_l;
        self.options.t = models.t;
        self.options.alpha = models.alpha.into_iter().collect();
        self
    }

    /// A release for several recipients, each of whom can know some of the columns: every
    /// combination of published values in the columns of a constraint occurs at least k times.
    pub fn with_constraints<C: Into<String>>(
        constraints: impl IntoIterator<Item = (Vec<C>, u32)>,
    ) -> Self {
        let constraint = |(columns, k): (Vec<C>, u32)| {
            (columns.into_iter().map(Into::into).collect(), i64::from(k))
        };
        let constraints = constraints.into_iter().map(constraint).collect();
        Self { options: Options { constraints, ..Options::default() } }
    }

    /// What happens to rows that are suppressed altogether.
    pub fn suppress(mut self, suppress: Suppress) -> Self {
        let name = match suppress {
            Suppress::Cells => "cells",
            Suppress::Rows => "rows",
        };
        self.options.suppress = Some(name.to_owned());
        self
    }

    /// The largest share of cells or rows that may be suppressed.
    pub fn suppression_limit(mut self, share: f64) -> Self {
        self.options.suppression_limit = Some(share);
        self
    }

    /// How much a quasi-identifier counts in the distances of a clustering, beside 1 for the others
    /// (`kaim`, `k_member`, `bottom_up`).
    ///
    /// ```
    /// # use datafusion::prelude::*;
    /// # use datafusion_anonymize::engine::Anonymize;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::error::Result<()> {
    /// # let context = SessionContext::new();
    /// # datafusion_anonymize::register_all(&context)?;
    /// let census = "SELECT age, education, occupation FROM sample_census(rows => 500, missing => 0.2)";
    /// let release = Anonymize::new(5)
    ///     .method("kaim")
    ///     .quasi_identifiers(["age", "education"])
    ///     .sensitive(["occupation"])
    ///     .weight("age", 2.0)
    ///     .apply(context.sql(census).await?)?;
    /// assert_eq!(release.count().await?, 500, "rows with missing cells are kept");
    /// # Ok(())
    /// # }
    /// ```
    pub fn weight(mut self, column: impl Into<String>, weight: f64) -> Self {
        self.options.weights.push((column.into(), weight));
        self
    }

    /// The most rows that a clustering looks at together; larger tables are cut into blocks first.
    pub fn block_rows(mut self, rows: usize) -> Self {
        self.options.block_rows = Some(i64::try_from(rows).unwrap_or(i64::MAX));
        self
    }

    /// The number of column groups for `slicing`, which otherwise finds one that fits.
    pub fn columns(mut self, columns: usize) -> Self {
        self.options.slicing.columns = Some(i64::try_from(columns).unwrap_or(i64::MAX));
        self
    }

    /// What `asg_ls` takes for an association: the share of all rows that have it, and how often
    /// its rule holds.
    ///
    /// ```
    /// # use datafusion::prelude::*;
    /// # use datafusion_anonymize::engine::{Anonymize, Models};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::error::Result<()> {
    /// # let context = SessionContext::new();
    /// # datafusion_anonymize::register_all(&context)?;
    /// let census = "SELECT age, sex, education, marital_status, occupation FROM sample_census(rows => 500)";
    /// let release = Anonymize::new(10)
    ///     .method("asg_ls")
    ///     .models(Models { l: Some(3), ..Models::default() })
    ///     .quasi_identifiers(["age", "sex", "education", "marital_status"])
    ///     .sensitive(["occupation"])
    ///     .associations(0.1, 0.7)
    ///     .apply(context.sql(census).await?)?;
    /// assert_eq!(release.count().await?, 500);
    /// # Ok(())
    /// # }
    /// ```
    pub fn associations(mut self, min_support: f64, min_confidence: f64) -> Self {
        self.options.slicing.min_support = Some(min_support);
        self.options.slicing.min_confidence = Some(min_confidence);
        self
    }

    /// The most attributes of a column for `asg_ls` and `slicing`, and of an association.
    pub fn max_columns(mut self, most: usize) -> Self {
        self.options.slicing.max_columns = Some(i64::try_from(most).unwrap_or(i64::MAX));
        self
    }

    /// The fewest attributes of a column that an association makes for `asg_ls` in its paper.
    pub fn min_columns(mut self, fewest: usize) -> Self {
        self.options.slicing.min_columns = Some(i64::try_from(fewest).unwrap_or(i64::MAX));
        self
    }

    /// Whether a sliced release says in a column `column_groups` which columns of a bucket were permuted together.
    pub fn column_groups(mut self, publish: bool) -> Self {
        self.options.slicing.column_groups = Some(publish);
        self
    }

    /// Values that a smaller share of the rows has are generalized by `asg_ls` and
    /// `slicing`.
    pub fn rare_below(mut self, share: f64) -> Self {
        self.options.slicing.rare_below = Some(share);
        self
    }

    /// The largest share of a class that a sensitive value may hold, by its level of sensitivity:
    /// one share for each level from 1, the most sensitive, or one for all.
    ///
    /// ```
    /// # use datafusion::prelude::*;
    /// # use datafusion_anonymize::engine::{Anonymize, Publish, Sensitivity};
    /// # use datafusion_anonymize::model::AlphaScope;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::error::Result<()> {
    /// # let context = SessionContext::new();
    /// # datafusion_anonymize::register_all(&context)?;
    /// let visits = context.sql("SELECT * FROM (VALUES (30, 'HIV'), (34, 'Flu'), (51, 'Cold'), (62, 'Flu'))
    ///     AS t(age, disease)").await?;
    /// let levels = [("HIV", 1), ("Flu", 2), ("Cold", 2)];
    /// let release = Anonymize::new(2)
    ///     .quasi_identifiers(["age"])
    ///     .sensitive(["disease"])
    ///     .method("alpha_k")
    ///     .graded([0.25, 0.5], Sensitivity::listed(levels), AlphaScope::Value)
    ///     .publish(Publish::Sensitive)
    ///     .apply(visits)?;
    /// // The one HIV row needs three others.
    /// assert_eq!(release.aggregate(vec![col("class_id")], vec![])?.count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn graded(
        mut self,
        alphas: impl IntoIterator<Item = f64>,
        sensitivity: Sensitivity,
        scope: AlphaScope,
    ) -> Self {
        let scope = match scope {
            AlphaScope::Value => "value",
            AlphaScope::Level => "level",
        };
        self.options.alpha = alphas.into_iter().collect();
        self.options.sensitivity = Some(sensitivity);
        self.options.alpha_scope = Some(scope.to_owned());
        self
    }

    /// Which of two tables is wanted, for `alpha_k`. [`super::write_two_tables`] writes both.
    pub fn publish(mut self, publish: Publish) -> Self {
        self.options.publish = Some(publish.to_string());
        self
    }

    /// Which version of the method runs: the best one, or the one that its paper prints.
    pub fn variant(mut self, variant: Variant) -> Self {
        let name = match variant {
            Variant::Best => "best",
            Variant::Paper => "paper",
        };
        self.options.variant = Some(name.to_owned());
        self
    }

    /// The hierarchy of a quasi-identifier.
    pub fn hierarchy(mut self, column: impl Into<String>, hierarchy: Hierarchy) -> Self {
        self.options.hierarchies.push((column.into(), hierarchy));
        self
    }

    /// How generalized numbers are published.
    pub fn ranges(mut self, ranges: Ranges) -> Self {
        let name = match ranges {
            Ranges::Label => "label",
            Ranges::Bounds => "bounds",
            Ranges::Mean => "mean",
        };
        self.options.ranges = Some(name.to_owned());
        self
    }

    /// Which quasi-identifier a group is cut on.
    pub fn split(mut self, split: Split) -> Self {
        let name = match split {
            Split::LeastLoss => "least_loss",
            Split::Widest => "widest",
        };
        self.options.split = Some(name.to_owned());
        self
    }

    /// Publishes the number of every row's class.
    pub fn class_id(mut self) -> Self {
        self.options.class_id = true;
        self
    }

    /// The secret that breaks ties, as `seed => …` in SQL. Without it one is drawn per session. A release that is
    /// written needs one of 16 characters or more, or `SET anonymize.allow_short_seeds = true`.
    // By value, so that numbers and texts can be written where the builder is called.
    #[allow(clippy::needless_pass_by_value)]
    pub fn seed(mut self, seed: impl ToString) -> Self {
        self.options.seed = Some(Secret::from_text(&seed.to_string()));
        self
    }

    /// The release of a data frame.
    pub fn apply(self, input: DataFrame) -> Result<DataFrame> {
        let (state, plan) = input.into_parts();
        let plan = plan_anonymize(self.options, plan, &state)?;
        Ok(DataFrame::new(state, plan))
    }
}

/// Checks the request and makes the node: the one way from SQL and from Rust.
pub(super) fn plan_anonymize(
    options: Options,
    input: LogicalPlan,
    state: &SessionState,
) -> Result<LogicalPlan> {
    let settings = AnonymizeConfig::of(state.config_options());
    let secret = SessionSecret::of(state.config())?;
    let (spec, tables) =
        options.resolve(input.schema(), &settings, secret).map_err(planning_error)?;
    let hierarchies = (tables.into_iter().enumerate())
        .map(|(number, table)| hierarchy_input(table, number))
        .collect::<Result<_>>()?;
    let node = AnonymizeNode::try_new(Arc::new(spec), input, hierarchies, Vec::new())?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}
