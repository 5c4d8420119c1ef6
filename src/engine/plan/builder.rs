//! `anonymize` for Rust programs: what the builder has beside a setter for every option.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion::prelude::DataFrame;

use super::node::AnonymizeNode;
use super::series::{check_key, table_input};
use crate::engine::options::{
    Anonymize, AnonymizeConfig, Hierarchy, Models, Options, Sensitivity, SessionSecret,
};
use crate::engine::planning_error;
use crate::model::AlphaScope;

impl From<Options> for Anonymize {
    fn from(options: Options) -> Self {
        Self { options }
    }
}

impl Anonymize {
    /// A release whose classes have at least `k` rows.
    pub fn new(k: u32) -> Self {
        Self::default().k(k)
    }

    /// A release for several recipients, each of whom can know some of the columns: every
    /// combination of published values in the columns of a constraint occurs at least k times.
    pub fn for_constraints<C: Into<String>>(
        constraints: impl IntoIterator<Item = (Vec<C>, u32)>,
    ) -> Self {
        Self::default().constraints(constraints)
    }

    /// Conditions on the sensitive columns.
    pub fn models(mut self, models: Models) -> Self {
        self.options.l = models.l.map(i64::from);
        self.options.entropy_l = models.entropy_l;
        self.options.t = models.t;
        self.options.alpha = models.alpha.into_iter().collect();
        self
    }

    /// The hierarchy of a quasi-identifier.
    pub fn hierarchy(mut self, column: impl Into<String>, hierarchy: Hierarchy) -> Self {
        self.options.hierarchies.push((column.into(), hierarchy));
        self
    }

    /// How much a quasi-identifier counts in the distances of a clustering, beside 1 for the others
    /// (`kaim`, `k_member`, `bottom_up`).
    ///
    /// ```
    /// # use datafusion::prelude::*;
    /// # use datafusion_anonymize::Anonymize;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::error::Result<()> {
    /// # let context = SessionContext::new();
    /// # datafusion_anonymize::register_all(&context)?;
    /// # anonymize_sample::register(&context)?;
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

    /// What `asg_ls` takes for an association: the share of all rows that have it, and how often
    /// its rule holds.
    ///
    /// ```
    /// # use datafusion::prelude::*;
    /// # use datafusion_anonymize::{Anonymize, Models};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::error::Result<()> {
    /// # let context = SessionContext::new();
    /// # datafusion_anonymize::register_all(&context)?;
    /// # anonymize_sample::register(&context)?;
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
        self.options.min_support = Some(min_support);
        self.options.min_confidence = Some(min_confidence);
        self
    }

    /// The largest share of a class that a sensitive value may hold, by its level of sensitivity:
    /// one share for each level from 1, the most sensitive, or one for all.
    ///
    /// ```
    /// # use datafusion::prelude::*;
    /// # use datafusion_anonymize::{Anonymize, Publish, Sensitivity};
    /// # use datafusion_anonymize::AlphaScope;
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
    ///     .alpha_by_level([0.25, 0.5], Sensitivity::listed(levels), AlphaScope::Value)
    ///     .publish(Publish::Sensitive)
    ///     .apply(visits)?;
    /// // The one HIV row needs three others.
    /// assert_eq!(release.aggregate(vec![col("class_id")], vec![])?.count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn alpha_by_level(
        self,
        alphas: impl IntoIterator<Item = f64>,
        sensitivity: Sensitivity,
        scope: AlphaScope,
    ) -> Self {
        self.alpha(alphas).sensitivity(sensitivity).alpha_scope(scope)
    }

    /// The release of a data frame.
    pub fn apply(self, input: DataFrame) -> Result<DataFrame> {
        let (state, plan) = input.into_parts();
        let plan = plan_anonymize(self.options, plan, &state)?;
        Ok(DataFrame::new(state, plan))
    }
}

/// Checks the request and makes the node: the one way from SQL and from Rust.
pub(in crate::engine) fn plan_anonymize(
    options: Options,
    input: LogicalPlan,
    state: &SessionState,
) -> Result<LogicalPlan> {
    let settings = AnonymizeConfig::of(state.config_options());
    let session = SessionSecret::of(state.config())?;
    let (mut spec, tables) =
        options.resolve(input.schema(), &settings, session).map_err(planning_error)?;
    check_key(&spec, input.schema())?;
    let tables = (tables.into_iter().enumerate())
        .map(|(number, table)| table_input(&mut spec, input.schema(), table, number))
        .collect::<Result<_>>()?;
    let node = AnonymizeNode::try_new(Arc::new(spec), input, tables, Vec::new())?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}
