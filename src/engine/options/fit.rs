//! Which options go with which method.

use super::Options;
use crate::columnar::Ranges;
use crate::engine::method::{Approach, Method, SliceBy};
use crate::engine::spec::Suppress;
use crate::error::{Error, Result};
use crate::method::Variant;

impl Options {
    /// What a method cannot honour is an error, never dropped.
    pub(super) fn check_fit(&self, method: Method, variant: Variant, ranges: Ranges) -> Result<()> {
        let approach = method.approach();
        let freezes = approach.has_constraints();
        let two_tables = approach == Approach::TwoTables;
        let layers = approach == Approach::Layer;
        let cuts = layers || matches!(approach, Approach::Partition(_));
        let clusters = matches!(approach, Approach::Cluster(_));
        let slices = matches!(approach, Approach::Slice(_));
        let associates = approach == Approach::Slice(SliceBy::Associations);
        let clustering = "use 'kaim', 'k_member', 'bottom_up' or 'asg_ls'";
        let by_association = "it looks for no associations; use 'asg_ls'";
        let slicing = "it breaks no links between columns; use 'asg_ls' or 'slicing'";
        let only_l = "it keeps k and l; use 'rounded' or 'top_down'";
        let asked = self;
        let given = |option: &'static str, given: bool| given.then(|| format!("option '{option}'"));
        let constrained = "use 'classfly_complete', 'classfly_partial', 'classfly_naive', 'classfly' or \
                           'datafly'";
        let by_group =
            "its groups differ from constraint to constraint; use 'rounded' or 'mondrian'";
        let only_alpha = "it keeps k and alpha; use 'rounded' or 'top_down'";
        let one_table = "it publishes one table; use 'alpha_k'";
        let exact = "it publishes quasi-identifiers as they are; leave it out";
        let rules = [
            (!freezes, given("constraints", !self.constraints.is_empty()), constrained),
            (
                !freezes && !layers,
                given("suppress", self.suppress.is_some()),
                "use 'layered', 'classfly_complete', 'classfly_partial', 'classfly_naive', 'classfly' or \
                 'datafly'",
            ),
            (
                layers
                    && self
                        .suppress
                        .as_deref()
                        .is_some_and(|asked| asked.eq_ignore_ascii_case("cells")),
                Some("suppress => 'cells'".to_owned()),
                "it leaves out whole rows; write suppress => true",
            ),
            (
                layers && self.suppresses_rows(),
                given("t", self.t.is_some()),
                "with suppress, leaving out rows changes the distribution that t compares with; leave \
                 out suppress",
            ),
            (freezes, given("l", self.l.is_some()), by_group),
            (freezes, given("entropy_l", self.entropy_l.is_some()), by_group),
            (freezes, given("t", self.t.is_some()), by_group),
            (freezes, given("alpha", !self.alpha.is_empty()), by_group),
            (two_tables, given("l", self.l.is_some()), only_alpha),
            (two_tables, given("entropy_l", self.entropy_l.is_some()), only_alpha),
            (two_tables, given("t", self.t.is_some()), only_alpha),
            (slices, given("entropy_l", self.entropy_l.is_some()), only_l),
            (slices, given("t", self.t.is_some()), only_l),
            (slices, given("alpha", !self.alpha.is_empty()), only_l),
            (slices, given("sensitivity", self.sensitivity.is_some()), only_l),
            (
                freezes || two_tables || slices,
                given("privacy_unit", self.privacy_unit.is_some()),
                "it counts rows; use 'rounded' or 'mondrian', or aggregate to a row per person",
            ),
            (!cuts, given("split", self.split.is_some()), "it cuts no groups; leave it out"),
            (
                freezes,
                (ranges == Ranges::Mean).then(|| "ranges => 'mean'".to_owned()),
                "rows of one published value are not one class, and a mean could be a single row's \
                 value; use 'label' or 'bounds'",
            ),
            (!clusters && !associates, given("weights", !self.weights.is_empty()), clustering),
            (!clusters && !associates, given("block_rows", self.block_rows.is_some()), clustering),
            (!slices, given("max_columns", asked.max_columns.is_some()), slicing),
            (!associates, given("min_columns", asked.min_columns.is_some()), by_association),
            (
                variant != Variant::Paper,
                given("min_columns", asked.min_columns.is_some()),
                "its columns are groups of quasi-identifiers that go together, of any size; leave it out, or \
                 write variant => 'paper'",
            ),
            (!associates, given("min_support", asked.min_support.is_some()), by_association),
            (!associates, given("min_confidence", asked.min_confidence.is_some()), by_association),
            (
                !slices || associates,
                given("columns", asked.columns.is_some()),
                "its columns differ from bucket to bucket or there are none; use 'slicing'",
            ),
            (!slices, given("rare_below", asked.rare_below.is_some()), slicing),
            (!slices, given("column_groups", asked.column_groups.is_some()), slicing),
            (
                !slices,
                given("bucket_id", asked.bucket_id.is_some()),
                "it makes classes; use class_id",
            ),
            (
                method == Method::KMember,
                given("t", self.t.is_some()),
                "dropping the rows with missing values changes the distribution that t compares \
                 with; use 'kaim', 'bottom_up' or 'rounded'",
            ),
            (two_tables, given("ranges", self.ranges.is_some()), exact),
            (two_tables, given("hierarchies", !self.hierarchies.is_empty()), exact),
            (!two_tables, given("publish", self.publish.is_some()), one_table),
            (
                !two_tables && !slices && !freezes,
                (variant == Variant::Paper).then(|| "variant => 'paper'".to_owned()),
                "use 'alpha_k', 'asg_ls', 'slicing', 'datafly' or a method of the classfly family",
            ),
        ];
        let broken = rules
            .into_iter()
            .find_map(|(unfit, option, instead)| Some((option.filter(|_| unfit)?, instead)));
        if let Some((option, instead)) = broken {
            return Err(Error::invalid(format!(
                "{option} does not go with method '{method}': {instead}"
            )));
        }
        match approach {
            Approach::TwoTables => self.check_two_tables(),
            Approach::Slice(_) => self.check_sliced(&method.to_string()),
            _ => Ok(()),
        }
    }

    fn suppresses_rows(&self) -> bool {
        matches!(self.suppress.as_deref().map(str::parse), Some(Ok(Suppress::Rows)))
    }

    fn check_two_tables(&self) -> Result<()> {
        if self.alpha.is_empty() {
            return Err(Error::invalid(
                "method 'alpha_k' needs option 'alpha', the largest share of one sensitive value in a \
                 class: write alpha => 0.5, or one share per level and sensitivity => {…}",
            ));
        }
        if self.sensitive.len() != 1 {
            return Err(Error::invalid(format!(
                "method 'alpha_k' protects one sensitive column and {} are listed: write sensitive => \
                 ['…']",
                self.sensitive.len()
            )));
        }
        if self.publish.is_none() {
            return Err(Error::invalid(
                "method 'alpha_k' publishes two tables: write publish => 'quasi_identifiers' for one \
                 and publish => 'sensitive' for the other",
            ));
        }
        Ok(())
    }
}
