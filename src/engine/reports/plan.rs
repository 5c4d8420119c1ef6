//! From what a caller asks for to a checked report over grouped inputs.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, ExprSchema, Result, plan_datafusion_err, plan_err};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan};

use super::associations::{compared_rows, rule_limits};
use super::classes::{ClassesSpec, SensitiveSpec};
use super::constraints::{CheckedConstraint, ConstraintsSpec};
use super::grouping::{Keys, Set, converted, grouped, keys_of};
use super::node::ReportNode;
use super::slices::of_buckets;
use super::two_tables::{plan_two_table_utility, plan_two_tables};
use super::{AssociationsSpec, GradedSpec, PrivacySpec, PublishedSpec, Report, UtilitySpec};
use crate::columnar::{PublishedForm, grouped_type, is_ordered};
use crate::engine::options::{Assignment, Grading, Options, constraint_columns, find_column};
use crate::engine::plan::{hierarchy_input, with_unit};
use crate::error::Error;
use crate::measure::Targets;

/// A mistake in a report's arguments: which function, and in which of its inputs.
pub(super) fn mistake(place: &'static str) -> impl Fn(Error) -> datafusion::error::DataFusionError {
    move |error| plan_datafusion_err!("{place}: {error}")
}

/// What was published.
#[derive(Debug, Clone)]
pub enum Published {
    /// One table.
    Table(LogicalPlan),
    /// Two tables that share a class.
    TwoTables {
        /// Quasi-identifiers, as they are, with the class.
        quasi_identifiers: LogicalPlan,
        /// Sensitive values with the class.
        sensitive: LogicalPlan,
    },
}

/// Plans `privacy_report(published, …)`. Sliced tables name the column of their buckets, and can be compared
/// with the original.
pub fn plan_privacy_report(
    options: Options,
    published: Published,
    bucket: Option<&str>,
    original: Option<LogicalPlan>,
) -> Result<LogicalPlan> {
    match published {
        Published::Table(published) => plan_privacy(options, bucket, published, original),
        Published::TwoTables { .. } if bucket.is_some() || original.is_some() => {
            plan_err!("privacy_report: options 'bucket' and 'original' are for one table")
        }
        Published::TwoTables { quasi_identifiers, sensitive } => {
            plan_two_tables(options, quasi_identifiers, sensitive)
        }
    }
}

/// Plans `utility_report(original, published, …)`. `class` is the column whose majority a class should keep.
pub fn plan_utility_report(
    options: Options,
    original: LogicalPlan,
    published: Published,
    class: Option<&str>,
) -> Result<LogicalPlan> {
    match published {
        Published::Table(published) => plan_utility(options, class, original, published),
        Published::TwoTables { quasi_identifiers, sensitive } => {
            let unfit = class.is_some() || options.k.is_some() || options.asks_for_associations();
            if unfit || !options.hierarchies.is_empty() {
                return plan_err!(
                    "utility_report: two tables publish quasi-identifiers as they are; leave out class, k, \
                     hierarchies, min_support, min_confidence and max_columns"
                );
            }
            plan_two_table_utility(options, original, &quasi_identifiers, sensitive)
        }
    }
}

/// `privacy_report` over a published table.
fn plan_privacy(
    mut options: Options,
    bucket: Option<&str>,
    published: LogicalPlan,
    original: Option<LogicalPlan>,
) -> Result<LogicalPlan> {
    const PLACE: &str = "privacy_report";
    if !options.constraints.is_empty() {
        if bucket.is_some() {
            return plan_err!(
                "privacy_report: options 'constraints' and 'bucket' exclude each other"
            );
        }
        return plan_constraints(&options, published);
    }
    if original.is_some() && (bucket.is_none() || options.quasi_identifiers.is_empty()) {
        return plan_err!(
            "privacy_report: option 'original' compares the rows of a sliced table with the original; write \
             bucket => 'bucket_id' and quasi_identifiers => ['age', 'zip'] too"
        );
    }
    let wrong = mistake(PLACE);
    let targets = targets(&options)?;
    let mut tables = Vec::new();
    let grading = options.checked_grading(&mut tables).map_err(&wrong)?;
    let schema = published.schema();
    let mut roles = Assignment::new(schema).map_err(&wrong)?;
    let mut columns = |role, names| roles.assign(role, names).map_err(&wrong);
    let quasi_identifiers = columns("quasi_identifiers", &options.quasi_identifiers)?;
    let sensitive = columns("sensitive", &options.sensitive)?;
    let bucket: Vec<String> = bucket.into_iter().map(Into::into).collect();
    let bucket = roles.assign("bucket", &bucket).map_err(&wrong)?;
    let unit_share = options.checked_unit_share().map_err(&wrong)?;
    let units = roles.assign("privacy_unit", options.privacy_unit.as_slice()).map_err(&wrong)?;
    // The rows of a bucket are published together, whatever their quasi-identifiers.
    let (buckets, bucket_inputs) = match bucket.first() {
        Some(bucket) => {
            let (spec, inputs) = of_buckets(&published, bucket, &quasi_identifiers, original)?;
            (Some(spec), inputs)
        }
        None => (None, Vec::new()),
    };
    let quasi_identifiers = if buckets.is_some() { bucket } else { quasi_identifiers };
    check_named(PLACE, &quasi_identifiers)?;
    let modelled = with_unit(sensitive, units.first().cloned());
    let (classes, input) = by_class(&quasi_identifiers, &modelled, published, "published")?;
    let spec = PrivacySpec {
        quasi_identifiers: quasi_identifiers.into_iter().map(|column| column.name).collect(),
        classes,
        targets,
        grading,
        two_tables: false,
        buckets,
        counts_persons: !units.is_empty(),
        unit_share,
    };
    let mut inputs = vec![input];
    inputs.extend(bucket_inputs);
    add_tables(&mut inputs, tables)?;
    report(Report::Privacy(spec), inputs)
}

pub(super) fn targets(options: &Options) -> Result<Targets> {
    let models = options.checked_models().map_err(mistake("privacy_report"))?;
    Ok(Targets {
        k: checked_k("privacy_report", options.k, 2)?,
        l: models.l,
        entropy_l: models.entropy_l,
        t: models.t,
        alpha: models.alpha,
    })
}

/// A table grouped by class and by the sensitive values in it.
pub(super) fn by_class(
    classes: &[Column],
    sensitive: &[Column],
    table: LogicalPlan,
    prefix: &str,
) -> Result<(ClassesSpec, LogicalPlan)> {
    let schema = table.schema();
    let mut keys = Vec::new();
    for column in classes {
        keys.extend(keys_of(column, type_of(schema, column)?));
    }
    let mut spec = ClassesSpec { class_keys: keys.len(), sensitive: Vec::new() };
    for column in sensitive {
        let data_type = type_of(schema, column)?;
        let plain = grouped_type(data_type);
        let is_ordered = is_ordered(&plain);
        spec.sensitive.push(SensitiveSpec { name: column.name.clone(), is_ordered });
        keys.push(converted(Expr::Column(column.clone()), data_type, plain));
    }
    let input = grouped(
        table,
        prefix,
        Keys { exprs: keys, set_before: spec.class_keys },
        &spec.sets(),
        false,
    )?;
    Ok((spec, input))
}

/// Tables of hierarchies and levels, behind the other inputs.
pub(super) fn add_tables(inputs: &mut Vec<LogicalPlan>, tables: Vec<LogicalPlan>) -> Result<()> {
    for (number, table) in tables.into_iter().enumerate() {
        inputs.push(hierarchy_input(table, number)?);
    }
    Ok(())
}

/// `privacy_report` of several constraints.
fn plan_constraints(options: &Options, published: LogicalPlan) -> Result<LogicalPlan> {
    let wrong = mistake("privacy_report");
    let alone = options.k.is_none()
        && options.quasi_identifiers.is_empty()
        && options.sensitive.is_empty()
        && options.privacy_unit.is_none()
        && options.unit_share.is_none()
        && options.checked_models().is_ok_and(|models| models.is_empty());
    if !alone {
        return plan_err!(
            "privacy_report: option 'constraints' goes alone; every constraint has its own columns and \
             k, and sensitive columns take a report of their own"
        );
    }
    let schema = published.schema();
    let mut spec = ConstraintsSpec { constraints: vec![], columns: vec![], sets: vec![] };
    let mut known: Vec<Column> = Vec::new();
    let mut keys = Vec::new();
    for (number, (names, k)) in (1..).zip(&options.constraints) {
        let found = constraint_columns(number, names, *k, schema).map_err(&wrong)?;
        let mut set = Vec::with_capacity(found.len());
        for column in &found {
            let position = known.iter().position(|other| other == column);
            set.push(position.unwrap_or(known.len()));
            if position.is_none() {
                let start = keys.len();
                keys.extend(keys_of(column, type_of(schema, column)?));
                spec.columns.push(start..keys.len());
                known.push(column.clone());
            }
        }
        set.sort_unstable();
        let position = spec.sets.iter().position(|other| *other == set);
        let names: Vec<&str> = found.iter().map(|column| column.name.as_str()).collect();
        spec.constraints.push(CheckedConstraint {
            columns: names.join(", "),
            k: checked_k("privacy_report", Some(*k), 2)?.unwrap_or(2),
            set: position.unwrap_or(spec.sets.len()),
        });
        if position.is_none() {
            spec.sets.push(set);
        }
    }
    let of_set = |set: &Vec<usize>| Set {
        phase: 0,
        keys: set.iter().flat_map(|column| spec.columns[*column].clone()).collect(),
    };
    let sets: Vec<Set> = spec.sets.iter().map(of_set).collect();
    let keys = Keys { set_before: keys.len(), exprs: keys };
    let input = grouped(published, "published", keys, &sets, false)?;
    report(Report::Constraints(spec), vec![input])
}

/// `utility_report` over an original and its publication.
fn plan_utility(
    mut options: Options,
    class: Option<&str>,
    original: LogicalPlan,
    published: LogicalPlan,
) -> Result<LogicalPlan> {
    const PLACE: &str = "utility_report";
    const ORIGINAL: &str = "utility_report, the original";
    let k = checked_k(PLACE, options.k, 1)?;
    let mut roles = Assignment::new(original.schema()).map_err(mistake(ORIGINAL))?;
    let columns = roles.assign("quasi_identifiers", &options.quasi_identifiers);
    let columns = columns.map_err(mistake(ORIGINAL))?;
    check_named(PLACE, &columns)?;
    let mut tables = Vec::new();
    let (graded, by_class) = graded_input(&mut options, &columns, &published, &mut tables)?.unzip();
    let limits = rule_limits(&options).map_err(mistake(PLACE))?;
    let sensitive = match limits {
        Some(_) => roles.assign("sensitive", &options.sensitive).map_err(mistake(ORIGINAL))?,
        None => Vec::new(),
    };
    let compared: Vec<Column> = columns.iter().chain(&sensitive).cloned().collect();
    let compared = options
        .with_hierarchies(&compared, original.schema(), &mut tables)
        .map_err(mistake(ORIGINAL))?;
    let quasi_identifiers = compared[..columns.len()].to_vec();
    let class = class.map(Into::into);
    let associations = limits.map(|limits| AssociationsSpec { columns: compared, limits });
    let rows = match &associations {
        Some(associations) => compared_rows(associations, &original, &published)?,
        None => Vec::new(),
    };
    let published_columns = Vec::new();
    let mut spec = UtilitySpec {
        quasi_identifiers,
        published: published_columns,
        class,
        k,
        graded,
        associations,
    };
    let published = published_input(&mut spec, &columns, original.schema(), published)?;
    let mut inputs = vec![original_input(&columns, original)?, published];
    inputs.extend(by_class);
    inputs.extend(rows);
    add_tables(&mut inputs, tables)?;
    report(Report::Utility(spec), inputs)
}

/// Levels of sensitivity without shares to keep.
pub(super) fn unbounded_grading(
    options: &mut Options,
    tables: &mut Vec<LogicalPlan>,
) -> Result<Option<Grading>> {
    options.alpha = vec![1.0];
    options.checked_grading(tables).map_err(mistake("utility_report"))
}

/// The sensitive values of the published table by class, if they have levels.
fn graded_input(
    options: &mut Options,
    columns: &[Column],
    published: &LogicalPlan,
    tables: &mut Vec<LogicalPlan>,
) -> Result<Option<(GradedSpec, LogicalPlan)>> {
    let wrong = mistake("utility_report, the published table");
    let Some(grading) = unbounded_grading(options, tables)? else {
        return match options.sensitive.is_empty() || options.asks_for_associations() {
            true => Ok(None),
            false => plan_err!(
                "utility_report: option 'sensitive' needs option 'sensitivity', the level of every \
                 value, as in sensitivity => {{HIV: 1, Flu: 4}}"
            ),
        };
    };
    let schema = published.schema();
    let mut roles = Assignment::new(schema).map_err(&wrong)?;
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let classes = roles.assign("quasi_identifiers", &names).map_err(&wrong)?;
    let sensitive = roles.assign("sensitive", &options.sensitive).map_err(&wrong)?;
    let (classes, input) = by_class(&classes, &sensitive, published.clone(), "by_class")?;
    Ok(Some((GradedSpec { classes, grading }, input)))
}

/// The distinct values of every quasi-identifier, and how many rows miss one.
pub(super) fn original_input(columns: &[Column], original: LogicalPlan) -> Result<LogicalPlan> {
    let schema = original.schema();
    let key = |column: &Column| {
        let data_type = type_of(schema, column)?;
        Ok(converted(Expr::Column(column.clone()), data_type, grouped_type(data_type)))
    };
    let keys: Vec<Expr> = columns.iter().map(key).collect::<Result<_>>()?;
    let sets: Vec<Set> = (0..keys.len()).map(|key| Set { phase: 0, keys: vec![key] }).collect();
    let keys = Keys { set_before: keys.len(), exprs: keys };
    grouped(original, "original", keys, &sets, true)
}

/// The classes, and the distinct published values of every quasi-identifier.
fn published_input(
    spec: &mut UtilitySpec,
    columns: &[Column],
    original: &DFSchema,
    published: LogicalPlan,
) -> Result<LogicalPlan> {
    let wrong = mistake("utility_report, the published table");
    let schema = published.schema();
    Assignment::new(schema).map_err(&wrong)?;
    let mut keys = Vec::new();
    for column in columns {
        let found = find_column(schema, "quasi_identifiers", &column.name).map_err(&wrong)?;
        let (original, published) = (type_of(original, column)?, type_of(schema, &found)?);
        let form = PublishedForm::of(original, published, &column.name);
        let form = form.map_err(mistake("utility_report"))?;
        let wanted = form.compared_type(original, published);
        let start = keys.len();
        keys.extend(keys_of(&found, published).into_iter().map(|key| match key {
            key if form == PublishedForm::Means => key,
            key => datafusion::logical_expr::cast(key, wanted.clone()),
        }));
        spec.published.push(PublishedSpec { form, keys: start..keys.len() });
    }
    let class_keys = keys.len();
    let mut by_class: Vec<usize> = (0..class_keys).collect();
    if let Some(class) = &spec.class {
        let class = find_column(schema, "class", class).map_err(&wrong)?;
        if columns.iter().any(|column| column.name == class.name) {
            return plan_err!(
                "utility_report: option 'class': column '{}' is a quasi-identifier, which a release \
                 changes; name a column that is published as it is",
                class.name
            );
        }
        let data_type = type_of(schema, &class)?;
        keys.push(converted(Expr::Column(class), data_type, grouped_type(data_type)));
        by_class.push(class_keys);
    }
    // The classes are set 0. A single quasi-identifier is its own class, and needs no second set.
    let mut sets = vec![Set { phase: 1, keys: by_class }];
    for published in &spec.published {
        let keys: Vec<usize> = published.keys.clone().collect();
        if sets[0].keys != keys {
            sets.push(Set { phase: 0, keys });
        }
    }
    grouped(published, "published", Keys { exprs: keys, set_before: class_keys }, &sets, false)
}

pub(super) fn report(report: Report, inputs: Vec<LogicalPlan>) -> Result<LogicalPlan> {
    let node = ReportNode::try_new(Arc::new(report), inputs, Vec::new())?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

pub(super) fn type_of<'a>(schema: &'a DFSchema, column: &Column) -> Result<&'a DataType> {
    Ok(schema.field_from_column(column)?.data_type())
}

pub(super) fn checked_k(function: &str, k: Option<i64>, least: i64) -> Result<Option<u32>> {
    let Some(k) = k else { return Ok(None) };
    match u32::try_from(k) {
        Ok(size) if k >= least => Ok(Some(size)),
        _ => plan_err!(
            "{function}: option 'k': {k} is not between {least} and {}; write the k of the release, \
             as in k => 10",
            u32::MAX
        ),
    }
}

fn check_named(function: &str, quasi_identifiers: &[Column]) -> Result<()> {
    if quasi_identifiers.is_empty() {
        return plan_err!(
            "{function}: option 'quasi_identifiers' is missing: list the columns that were \
             generalized, as in quasi_identifiers => ['age', 'zip']"
        );
    }
    Ok(())
}
