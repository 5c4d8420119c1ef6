//! What a caller asks for, from SQL or from Rust, and the checks that turn it into a [`Spec`].

use std::collections::HashMap;
use std::str::FromStr;

use datafusion::common::{Column, DFSchema, ExprSchema};
use datafusion::logical_expr::LogicalPlan;

use super::config::AnonymizeConfig;
use super::spec::{Approach, HierarchySource, Method, Models, QuasiIdentifier, Spec};
use crate::columnar::{Automatic, Kind, Ranges};
use crate::error::{Error, Result};
use crate::hierarchy::{DateStep, date_steps, float_intervals, prefixes};
use crate::method::classfly::Constraint;
use crate::model::{MAX_QUASI_IDENTIFIERS, Seed};

/// A hierarchy as the caller gives it.
#[derive(Debug, Clone)]
pub enum Hierarchy {
    /// Aligned intervals of these widths, each a multiple of the one before.
    Intervals(Vec<String>),
    /// The first characters, the rest masked; lengths in falling order.
    Prefixes(Vec<usize>),
    /// Calendar units, from fine to coarse.
    Dates(Vec<DateStep>),
    /// A file of `leaf;level 1;…;top` lines, local or in an object store of the session.
    File(String),
    /// A relation whose columns are leaf, level 1, …, top.
    Table(Box<LogicalPlan>),
}

impl Hierarchy {
    /// Aligned intervals: `Hierarchy::intervals([5, 10, 20])`.
    pub fn intervals<T: ToString>(steps: impl IntoIterator<Item = T>) -> Self {
        Self::Intervals(steps.into_iter().map(|step| step.to_string()).collect())
    }

    /// Kept characters: `Hierarchy::prefixes([4, 3, 2])`.
    pub fn prefixes(kept: impl IntoIterator<Item = usize>) -> Self {
        Self::Prefixes(kept.into_iter().collect())
    }

    /// Calendar units: `Hierarchy::dates([DateStep::Month, DateStep::Year])`.
    pub fn dates(steps: impl IntoIterator<Item = DateStep>) -> Self {
        Self::Dates(steps.into_iter().collect())
    }

    /// A file of labels.
    pub fn file(path: impl Into<String>) -> Self {
        Self::File(path.into())
    }
}

/// A request, not yet checked against the input. Every field is an option of the SQL function.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub(super) k: Option<i64>,
    pub(super) quasi_identifiers: Vec<String>,
    pub(super) sensitive: Vec<String>,
    pub(super) identifiers: Vec<String>,
    pub(super) keep: Vec<String>,
    pub(super) privacy_unit: Option<String>,
    pub(super) method: Option<String>,
    pub(super) split: Option<String>,
    pub(super) ranges: Option<String>,
    pub(super) hierarchies: Vec<(String, Hierarchy)>,
    pub(super) l: Option<i64>,
    pub(super) entropy_l: Option<f64>,
    pub(super) t: Option<f64>,
    pub(super) alpha: Option<f64>,
    pub(super) constraints: Vec<(Vec<String>, i64)>,
    pub(super) suppress: Option<String>,
    pub(super) suppression_limit: Option<f64>,
    pub(super) weights: Vec<(String, f64)>,
    pub(super) block_rows: Option<i64>,
    pub(super) class_id: bool,
    pub(super) seed: Option<Seed>,
}

impl Options {
    /// Checks the request against the input and the session's settings. Also returns the hierarchy
    /// tables, in the order the spec refers to them.
    pub(super) fn resolve(
        self,
        input: &DFSchema,
        settings: &AnonymizeConfig,
        session_seed: Seed,
    ) -> Result<(Spec, Vec<LogicalPlan>)> {
        let method = self.checked_method(settings)?;
        let models = self.checked_models()?;
        let split = choice(self.split.as_deref(), ("split", &settings.split))?;
        let ranges: Ranges = choice(self.ranges.as_deref(), ("ranges", &settings.ranges))?;
        let suppress = self.suppress.as_deref().map(str::parse).transpose()?.unwrap_or_default();
        let suppression_limit = in_range("suppression_limit", self.suppression_limit, 0.0..=1.0)?;
        let roles = self.roles(input)?;
        let (k, constraints) = match method.approach() {
            Approach::Partition(_) => (self.checked_k(settings)?, Vec::new()),
            Approach::Cluster(_) => {
                self.check_clustering(method, &models)?;
                (self.checked_k(settings)?, Vec::new())
            }
            Approach::Freeze(_) | Approach::FullDomain => {
                self.check_freezing(method, &models, ranges)?;
                let constraints =
                    self.checked_constraints(settings, input, &roles.quasi_identifiers)?;
                let largest = constraints.iter().map(|constraint| constraint.k).max();
                (largest.unwrap_or(0), constraints)
            }
        };
        let weights = self.checked_weights(input, &roles.quasi_identifiers)?;
        let block_rows = self.checked_block_rows()?;
        let (class_id, seed) = (self.class_id, self.seed.unwrap_or(session_seed));
        if class_id && input.fields().iter().any(|field| field.name() == "class_id") {
            return Err(Error::invalid(
                "option 'class_id': the input has a column 'class_id' already; rename it in the input query",
            ));
        }
        let mut tables = Vec::new();
        let mut quasi_identifiers =
            self.with_hierarchies(&roles.quasi_identifiers, input, &mut tables)?;
        if method.approach().has_constraints() {
            add_automatic_hierarchies(&mut quasi_identifiers, input)?;
        }
        let spec = Spec {
            method,
            split,
            k,
            models,
            quasi_identifiers,
            sensitive: roles.sensitive,
            keep: roles.keep,
            privacy_unit: roles.privacy_unit,
            ranges,
            class_id,
            constraints,
            suppress,
            suppression_limit,
            weights,
            block_rows,
            seed,
        };
        Ok((spec, tables))
    }

    /// The method that was named, or the one that fits the other options.
    fn checked_method(&self, settings: &AnonymizeConfig) -> Result<Method> {
        let method = match &self.method {
            None if !self.constraints.is_empty() => Method::ClassflyComplete,
            method => choice(method.as_deref(), ("default_method", &settings.default_method))?,
        };
        let of_clusterings =
            [("weights", !self.weights.is_empty()), ("block_rows", self.block_rows.is_some())];
        let unfit = of_clusterings.iter().find(|(_, given)| *given);
        if let (Some((option, _)), false) =
            (unfit, matches!(method.approach(), Approach::Cluster(_)))
        {
            return Err(Error::invalid(format!(
                "option '{option}' does not go with method '{method}': use 'kaim', 'k_member' or \
                 'bottom_up'"
            )));
        }
        if method.approach().has_constraints() {
            if method == Method::Classfly && self.constraints.len() > 1 {
                return Err(Error::invalid(format!(
                    "method 'classfly' takes one constraint and these are {}: use \
                     'classfly_complete'",
                    self.constraints.len()
                )));
            }
            return Ok(method);
        }
        let unfit =
            [("constraints", !self.constraints.is_empty()), ("suppress", self.suppress.is_some())];
        match unfit.iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Error::invalid(format!(
                "option '{option}' does not go with method '{method}': use 'classfly_complete', \
                 'classfly_partial', 'classfly_naive', 'classfly' or 'datafly'"
            ))),
            None => Ok(method),
        }
    }

    /// What the clusterings cannot honour is an error, never dropped.
    fn check_clustering(&self, method: Method, models: &Models) -> Result<()> {
        let unfit = |option: &str, instead: &str| {
            Err(Error::invalid(format!(
                "option '{option}' does not go with method '{method}': {instead}"
            )))
        };
        if self.split.is_some() {
            return unfit("split", "it cuts no groups; leave it out");
        }
        if method == Method::KMember && models.t.is_some() {
            return unfit(
                "t",
                "dropping the rows with missing values changes the distribution that t compares \
                 with; use 'kaim', 'bottom_up' or 'rounded'",
            );
        }
        Ok(())
    }

    /// A weight for every quasi-identifier, 1 where none was given; nothing if none was given at all.
    fn checked_weights(&self, input: &DFSchema, quasi_identifiers: &[Column]) -> Result<Vec<f64>> {
        let mut given: Vec<Option<f64>> = vec![None; quasi_identifiers.len()];
        for (name, weight) in &self.weights {
            let column = find_column(input, "weights", name)?;
            let place = quasi_identifiers.iter().position(|qi| *qi == column);
            let place = place.ok_or_else(|| {
                Error::invalid(format!(
                    "option 'weights': column '{name}' is not a quasi-identifier; only those are \
                     compared"
                ))
            })?;
            if !(weight.is_finite() && *weight > 0.0) {
                return Err(Error::invalid(format!(
                    "option 'weights': {weight} of column '{name}' is not a finite number above 0; \
                     write 1 for a column that counts like any other"
                )));
            }
            if given[place].replace(*weight).is_some() {
                return Err(Error::invalid(format!(
                    "option 'weights': column '{name}' has two weights; keep one"
                )));
            }
        }
        match self.weights.is_empty() {
            true => Ok(Vec::new()),
            false => Ok(given.into_iter().map(|weight| weight.unwrap_or(1.0)).collect()),
        }
    }

    fn checked_block_rows(&self) -> Result<Option<usize>> {
        match self.block_rows.map(usize::try_from) {
            None => Ok(None),
            Some(Ok(rows)) if rows > 0 => Ok(Some(rows)),
            Some(_) => Err(Error::invalid(format!(
                "option 'block_rows': {} rows are no block; write block_rows => 65536",
                self.block_rows.unwrap_or(0)
            ))),
        }
    }

    /// What the methods that work from constraints cannot honour is an error, never dropped.
    fn check_freezing(&self, method: Method, models: &Models, ranges: Ranges) -> Result<()> {
        let unfit = |what: &str, instead: &str| {
            Err(Error::invalid(format!("{what} does not go with method '{method}': {instead}")))
        };
        if let Some((model, _)) = models.entries().first() {
            return unfit(
                &format!("option '{model}'"),
                "its groups differ from constraint to constraint; use 'rounded' or 'mondrian'",
            );
        }
        if self.privacy_unit.is_some() {
            return unfit(
                "option 'privacy_unit'",
                "it counts rows; use 'rounded' or 'mondrian', or aggregate to a row per person",
            );
        }
        if self.split.is_some() {
            return unfit("option 'split'", "it cuts no groups; leave it out");
        }
        if ranges == Ranges::Mean {
            return unfit(
                "ranges => 'mean'",
                "rows of one published value are not one class, and a mean could be a single row's \
                 value; use 'label' or 'bounds'",
            );
        }
        Ok(())
    }

    /// The constraints over the quasi-identifiers; without any, all of them with the one k.
    fn checked_constraints(
        &self,
        settings: &AnonymizeConfig,
        input: &DFSchema,
        quasi_identifiers: &[Column],
    ) -> Result<Vec<Constraint>> {
        if self.constraints.is_empty() {
            let columns = (0..quasi_identifiers.len()).collect();
            return Ok(vec![Constraint { columns, k: self.checked_k(settings)? }]);
        }
        if self.k.is_some() {
            return Err(Error::invalid(
                "options 'k' and 'constraints' exclude each other: every constraint has its own k",
            ));
        }
        let mut constraints: Vec<Constraint> = Vec::with_capacity(self.constraints.len());
        for (number, (names, k)) in (1..).zip(&self.constraints) {
            let found = constraint_columns(number, names, *k, input)?;
            let mut columns = Vec::with_capacity(found.len());
            for column in found {
                let place = quasi_identifiers.iter().position(|qi| *qi == column);
                columns.push(place.ok_or_else(|| {
                    Error::invalid(format!(
                        "option 'constraints': column '{}' of constraint {number} is not in \
                         quasi_identifiers; add it there, or leave quasi_identifiers out",
                        column.name
                    ))
                })?);
            }
            columns.sort_unstable();
            let k = u32::try_from(*k).map_err(|_| {
                Error::invalid(format!(
                    "option 'constraints': k = {k} of constraint {number} is more than a table can \
                     hold"
                ))
            })?;
            let constraint = Constraint { columns, k };
            if let Some(earlier) = constraints.iter().position(|other| *other == constraint) {
                return Err(Error::invalid(format!(
                    "option 'constraints': constraints {} and {number} are identical; remove one of \
                     them",
                    earlier + 1
                )));
            }
            constraints.push(constraint);
        }
        let is_free = |index: &usize| !constraints.iter().any(|c| c.columns.contains(index));
        if let Some(index) = (0..quasi_identifiers.len()).find(is_free) {
            return Err(Error::invalid(format!(
                "option 'quasi_identifiers': column '{}' is in no constraint and would be published \
                 as it is; add it to a constraint, or list it in keep or identifiers",
                quasi_identifiers[index].name
            )));
        }
        Ok(constraints)
    }

    fn checked_k(&self, settings: &AnonymizeConfig) -> Result<u32> {
        let default = (settings.default_k > 0).then(|| i64::from(settings.default_k));
        match self.k.or(default) {
            None => Err(Error::invalid(
                "option 'k' is missing: write k => 10, or SET anonymize.default_k = 10",
            )),
            Some(k) if k < 2 => Err(Error::invalid(format!(
                "option 'k': {k} hides nobody; the smallest class has at least 2 rows, write k => 10"
            ))),
            Some(k) => u32::try_from(k).map_err(|_| {
                Error::invalid(format!("option 'k': {k} is more than a table can hold"))
            }),
        }
    }

    pub(super) fn checked_models(&self) -> Result<Models> {
        let l = match self.l {
            Some(l) if l < 2 => {
                return Err(Error::invalid(format!(
                    "option 'l': {l} asks for nothing; write l => 3"
                )));
            }
            Some(l) => Some(u32::try_from(l).map_err(|_| {
                Error::invalid(format!("option 'l': {l} is more than a table can hold"))
            })?),
            None => None,
        };
        let models = Models {
            l,
            entropy_l: in_range("entropy_l", self.entropy_l, 1.0..=1e9)?,
            t: in_range("t", self.t, 0.0..=1.0)?,
            alpha: in_range("alpha", self.alpha, f64::MIN_POSITIVE..=1.0)?,
        };
        if !models.is_empty() && self.sensitive.is_empty() {
            return Err(Error::invalid(format!(
                "{models} needs a column to protect: write sensitive => ['…']"
            )));
        }
        Ok(models)
    }

    fn roles(&self, input: &DFSchema) -> Result<Roles> {
        let mut assignment = Assignment::new(input)?;
        let listed = match self.quasi_identifiers.is_empty() {
            true => self.columns_of_constraints(input)?,
            false => self.quasi_identifiers.clone(),
        };
        let quasi_identifiers = assignment.assign("quasi_identifiers", &listed)?;
        let sensitive = assignment.assign("sensitive", &self.sensitive)?;
        assignment.assign("identifiers", &self.identifiers)?;
        let keep = assignment.assign("keep", &self.keep)?;
        let privacy_unit = assignment.assign("privacy_unit", self.privacy_unit.as_slice())?.pop();
        if quasi_identifiers.is_empty() {
            return Err(Error::invalid(
                "option 'quasi_identifiers' is missing: list the columns somebody could know about \
                 a person, as in quasi_identifiers => ['age', 'zip']",
            ));
        }
        if quasi_identifiers.len() > MAX_QUASI_IDENTIFIERS {
            return Err(Error::invalid(format!(
                "option 'quasi_identifiers': {} columns are more than the {MAX_QUASI_IDENTIFIERS} one \
                 release can have",
                quasi_identifiers.len()
            )));
        }
        assignment.check_complete()?;
        Ok(Roles { quasi_identifiers, sensitive, keep, privacy_unit })
    }

    /// The columns of all constraints, each once, in the order in which they are named.
    fn columns_of_constraints(&self, input: &DFSchema) -> Result<Vec<String>> {
        let mut columns: Vec<String> = Vec::new();
        for (number, (names, k)) in (1..).zip(&self.constraints) {
            for column in constraint_columns(number, names, *k, input)? {
                if !columns.contains(&column.name) {
                    columns.push(column.name);
                }
            }
        }
        Ok(columns)
    }

    pub(super) fn with_hierarchies(
        self,
        quasi_identifiers: &[Column],
        input: &DFSchema,
        tables: &mut Vec<LogicalPlan>,
    ) -> Result<Vec<QuasiIdentifier>> {
        let mut given: HashMap<Column, HierarchySource> = HashMap::new();
        for (name, hierarchy) in self.hierarchies {
            let column = find_column(input, "hierarchies", &name)?;
            if !quasi_identifiers.contains(&column) {
                return Err(Error::invalid(format!(
                    "option 'hierarchies': column '{name}' is not a quasi-identifier; only those are \
                     generalized"
                )));
            }
            let source = source(hierarchy, tables);
            check_source(&source, &column, input)?;
            if given.insert(column, source).is_some() {
                return Err(Error::invalid(format!(
                    "option 'hierarchies': column '{name}' has two hierarchies; keep one"
                )));
            }
        }
        let with_hierarchy = |column: &Column| {
            let field =
                input.field_from_column(column).map_err(|_| Error::bug("a column vanished"))?;
            Kind::of(field.data_type(), &column.name)?;
            Ok(QuasiIdentifier { column: column.clone(), hierarchy: given.remove(column) })
        };
        quasi_identifiers.iter().map(with_hierarchy).collect()
    }
}

/// The input columns that a constraint names, each once.
pub(super) fn constraint_columns(
    number: usize,
    names: &[String],
    k: i64,
    input: &DFSchema,
) -> Result<Vec<Column>> {
    if k < 2 {
        return Err(Error::invalid(format!(
            "option 'constraints': k = {k} of constraint {number} hides nobody; write 2 or more"
        )));
    }
    if names.is_empty() {
        return Err(Error::invalid(format!(
            "option 'constraints': constraint {number} has no columns; list those that one recipient \
             could know, as in {{columns: ['age', 'zip'], k: 3}}"
        )));
    }
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let column = find_column(input, "constraints", name)?;
        if columns.contains(&column) {
            return Err(Error::invalid(format!(
                "option 'constraints': constraint {number} names column '{}' twice; keep one",
                column.name
            )));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// A hierarchy by type for every quasi-identifier that has none.
fn add_automatic_hierarchies(
    quasi_identifiers: &mut [QuasiIdentifier],
    input: &DFSchema,
) -> Result<()> {
    for qi in quasi_identifiers.iter_mut().filter(|qi| qi.hierarchy.is_none()) {
        let field =
            input.field_from_column(&qi.column).map_err(|_| Error::bug("a column vanished"))?;
        let kind = Kind::of(field.data_type(), &qi.column.name)?;
        let automatic = Automatic::of(field.data_type(), kind);
        qi.hierarchy = Some(HierarchySource::Automatic(automatic));
    }
    Ok(())
}

fn source(hierarchy: Hierarchy, tables: &mut Vec<LogicalPlan>) -> HierarchySource {
    match hierarchy {
        Hierarchy::Intervals(steps) => HierarchySource::Intervals(steps),
        Hierarchy::Prefixes(kept) => HierarchySource::Prefixes(kept),
        Hierarchy::Dates(steps) => HierarchySource::Dates(steps),
        Hierarchy::File(path) => HierarchySource::File(path),
        Hierarchy::Table(plan) => {
            tables.push(*plan);
            HierarchySource::Table(tables.len() - 1)
        }
    }
}

/// Finds mistakes in a hierarchy that do not depend on the data.
fn check_source(source: &HierarchySource, column: &Column, input: &DFSchema) -> Result<()> {
    let name = &column.name;
    let field = input.field_from_column(column).map_err(|_| Error::bug("a column vanished"))?;
    let kind = Kind::of(field.data_type(), name)?;
    let unfit = |function: &str, needs: &str, instead: &str| {
        Err(Error::invalid(format!(
            "option 'hierarchies': {function} needs {needs} and column '{name}' is of type {}; use \
             {instead}",
            field.data_type()
        )))
    };
    let in_column = |error: Error| Error::invalid(format!("hierarchy of column '{name}': {error}"));
    match source {
        HierarchySource::Intervals(steps) => {
            if matches!(kind, Kind::Text | Kind::Boolean | Kind::Span) {
                return unfit("intervals()", "numbers", "prefixes(…) or a table");
            }
            float_intervals(&[], steps).map(|_| ()).map_err(in_column)
        }
        HierarchySource::Prefixes(kept) => {
            if !matches!(kind, Kind::Text | Kind::Integer) {
                return unfit("prefixes()", "text", "intervals(…), date_steps(…) or a table");
            }
            prefixes(&[], kept).map(|_| ()).map_err(in_column)
        }
        HierarchySource::Dates(steps) => {
            if kind != Kind::Instant {
                return unfit(
                    "date_steps()",
                    "dates or timestamps",
                    "intervals(…), prefixes(…) or a table",
                );
            }
            date_steps(&[], steps).map(|_| ()).map_err(in_column)
        }
        HierarchySource::File(_) | HierarchySource::Table(_) | HierarchySource::Automatic(_) => {
            Ok(())
        }
    }
}

/// The choice that the option or, without it, the setting of the session names.
fn choice<T: FromStr<Err = Error>>(option: Option<&str>, setting: (&str, &str)) -> Result<T> {
    let (name, value) = setting;
    let in_setting = |error: Error| Error::invalid(format!("setting 'anonymize.{name}', {error}"));
    option.map_or_else(|| value.parse().map_err(in_setting), str::parse)
}

fn in_range(
    option: &str,
    value: Option<f64>,
    range: std::ops::RangeInclusive<f64>,
) -> Result<Option<f64>> {
    match value {
        Some(value) if !range.contains(&value) => {
            let (start, end) = (range.start(), range.end());
            let wanted = match *start == f64::MIN_POSITIVE {
                true => format!("above 0 and at most {end}"),
                false => format!("between {start} and {end}"),
            };
            Err(Error::invalid(format!("option '{option}': {value} is not {wanted}")))
        }
        other => Ok(other),
    }
}

struct Roles {
    quasi_identifiers: Vec<Column>,
    sensitive: Vec<Column>,
    keep: Vec<Column>,
    privacy_unit: Option<Column>,
}

/// Which role every input column has been given so far.
pub(super) struct Assignment<'a> {
    input: &'a DFSchema,
    roles: HashMap<Column, &'static str>,
}

impl<'a> Assignment<'a> {
    pub(super) fn new(input: &'a DFSchema) -> Result<Self> {
        let mut seen = std::collections::HashSet::new();
        match input.fields().iter().find(|field| !seen.insert(field.name())) {
            Some(field) => Err(Error::invalid(format!(
                "the input has two columns named '{}': rename one of them in the input query",
                field.name()
            ))),
            None => Ok(Self { input, roles: HashMap::new() }),
        }
    }

    pub(super) fn assign(&mut self, role: &'static str, names: &[String]) -> Result<Vec<Column>> {
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let column = find_column(self.input, role, name)?;
            match self.roles.insert(column.clone(), role) {
                Some(earlier) if earlier == role => {
                    return Err(Error::invalid(format!(
                        "option '{role}': column '{}' is listed twice",
                        column.name
                    )));
                }
                Some(earlier) => {
                    return Err(Error::invalid(format!(
                        "column '{}' has two roles, {earlier} and {role}: keep one",
                        column.name
                    )));
                }
                None => columns.push(column),
            }
        }
        Ok(columns)
    }

    /// A lake that grows a column overnight must stop the job, not publish it.
    fn check_complete(&self) -> Result<()> {
        let without: Vec<String> = (self.input.columns().into_iter())
            .filter(|column| !self.roles.contains_key(column))
            .map(|column| format!("'{}'", column.name))
            .collect();
        if without.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "columns without a role: {}; add each of them to quasi_identifiers, sensitive, \
             identifiers (dropped) or keep (published as it is)",
            without.join(", ")
        )))
    }
}

/// The input column a name means: exactly, or as an unquoted SQL identifier does.
pub(super) fn find_column(input: &DFSchema, option: &str, name: &str) -> Result<Column> {
    let columns = input.columns();
    let lower = name.to_lowercase();
    let found = (columns.iter().find(|column| column.name == name))
        .or_else(|| columns.iter().find(|column| column.name == lower))
        .or_else(|| columns.iter().find(|column| column.flat_name() == name));
    found.cloned().ok_or_else(|| {
        let known: Vec<String> =
            columns.iter().map(|column| format!("'{}'", column.name)).collect();
        Error::invalid(format!(
            "option '{option}': the input has no column '{name}'; it has {}",
            known.join(", ")
        ))
    })
}
