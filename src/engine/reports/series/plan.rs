//! From the arguments of `series_report` to sorted inputs.

use std::collections::HashSet;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, Result, plan_datafusion_err, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast};

use super::{RegisterSpec, ReleaseSpec, SeriesReportSpec};
use crate::columnar::{PublishedForm, grouped_type};
use crate::engine::options::{Assignment, COHORT, HELD, Options, find_column};
use crate::engine::reports::grouping::{converted, keys_of};
use crate::engine::reports::plan::{
    add_tables, checked_k, mistake, original_input, report, type_of,
};
use crate::engine::reports::{PublishedSpec, Report};
use crate::error::Error;
use crate::measure::Targets;

const PLACE: &str = "series_report";
const REGISTER: &str = "series_report, the register";
const CLASS_ID: &str = "class_id";

/// Plans `series_report(first, second, …)`, with or without a register of the persons.
pub fn plan_series_report(
    options: Options,
    releases: Vec<LogicalPlan>,
    register: Option<LogicalPlan>,
) -> Result<LogicalPlan> {
    let targets = checked_targets(&options)?;
    let mut tables = Vec::new();
    let register = register.map(|table| Register::new(table, options.clone(), &mut tables));
    let register = register.transpose()?;
    if !options.hierarchies.is_empty() && !register.as_ref().is_some_and(Register::fits) {
        return plan_err!(
            "{PLACE}: option 'hierarchies' is for finding the class of a person by their quasi-identifiers: \
             write register => a table with person, release and the quasi-identifiers, or leave it out"
        );
    }
    let cohorts = have_cohorts(&releases)?;
    let wanted = Wanted::new(&options, &releases, cohorts, register.as_ref())?;
    let mut spec = SeriesReportSpec {
        targets,
        quasi_identifiers: options.quasi_identifiers,
        sensitive: options.sensitive,
        cohorts,
        releases: Vec::new(),
        register: None,
    };
    let mut inputs = Vec::new();
    for (number, release) in (1..).zip(releases) {
        let (release, input) = wanted.release(number, release, &spec)?;
        spec.releases.push(release);
        inputs.push(input);
    }
    if let Some(register) = register {
        spec.register = Some(register.spec.clone());
        inputs.extend(register.inputs()?);
    }
    add_tables(&mut inputs, tables)?;
    report(Report::Series(spec), inputs)
}

fn checked_targets(options: &Options) -> Result<Targets> {
    if options.alpha.len() > 1 {
        return plan_err!(
            "{PLACE}: option 'alpha' lists {} shares: write the largest share of any value, as in alpha => 0.5",
            options.alpha.len()
        );
    }
    let models = options.checked_models().map_err(mistake(PLACE))?;
    let k = checked_k(PLACE, options.k, 2)?;
    Ok(Targets { k, l: models.l, alpha: models.alpha, ..Targets::default() })
}

/// A mistake in one of the releases.
fn in_release(number: usize) -> impl Fn(Error) -> DataFusionError {
    move |error| plan_datafusion_err!("{PLACE}, release {number}: {error}")
}

fn named(schema: &DFSchema, name: &str) -> Option<Column> {
    schema.columns().into_iter().find(|column| column.name == name)
}

/// Whether all releases have cohorts; some is a mistake.
fn have_cohorts(releases: &[LogicalPlan]) -> Result<bool> {
    let has = |release: &LogicalPlan| named(release.schema(), COHORT).is_some();
    let without = releases.iter().position(|release| !has(release));
    match (without, releases.iter().position(has)) {
        (None, _) => Ok(true),
        (Some(_), None) => Ok(false),
        (Some(without), Some(with)) => plan_err!(
            "{PLACE}: release {} has a column '{COHORT}' and release {} has none: name the releases of one series, \
             or leave the column out of all of them, (SELECT * EXCEPT ({COHORT}) FROM …)",
            with + 1,
            without + 1
        ),
    }
}

/// What is read of every release.
struct Wanted<'a> {
    cohorts: bool,
    register: Option<&'a Register>,
    /// Types of the sensitive columns, those of the first release.
    sensitive: Vec<DataType>,
    /// Columns of all releases, which a repeated row repeats.
    others: Vec<String>,
}

/// The projection of a release while it is put together.
#[derive(Default)]
struct Projection {
    exprs: Vec<Expr>,
}

impl Projection {
    /// Adds columns and tells where they are.
    fn add(&mut self, exprs: impl IntoIterator<Item = Expr>) -> std::ops::Range<usize> {
        let start = self.exprs.len();
        self.exprs.extend(exprs);
        start..self.exprs.len()
    }

    fn apply(self, input: LogicalPlan, prefix: &str) -> Result<LogicalPlan> {
        let exprs = self.exprs.into_iter().enumerate();
        let aliased = exprs.map(|(at, expr)| expr.alias(format!("__{prefix}_{at}")));
        LogicalPlanBuilder::from(input).project(aliased)?.build()
    }
}

impl<'a> Wanted<'a> {
    fn new(
        options: &Options,
        releases: &[LogicalPlan],
        cohorts: bool,
        register: Option<&'a Register>,
    ) -> Result<Self> {
        let Some((first, rest)) = releases.split_first() else {
            return plan_err!("{PLACE} needs a release");
        };
        let mut sensitive = Vec::new();
        for name in &options.sensitive {
            let column = find_column(first.schema(), "sensitive", name).map_err(in_release(1))?;
            sensitive.push(grouped_type(type_of(first.schema(), &column)?));
        }
        let used: HashSet<&str> =
            [COHORT, HELD].into_iter().chain(names(&options.quasi_identifiers)).collect();
        let used: HashSet<&str> = used.into_iter().chain(names(&options.sensitive)).collect();
        let is_other = |column: &Column| {
            !used.contains(column.name.as_str())
                && rest.iter().all(|release| named(release.schema(), &column.name).is_some())
        };
        let others =
            first.schema().columns().into_iter().filter(|column| cohorts && is_other(column));
        let others = others.map(|column| column.name).collect();
        Ok(Self { cohorts, register, sensitive, others })
    }

    /// The columns of a release, and its projection to them.
    fn release(
        &self,
        number: usize,
        release: LogicalPlan,
        spec: &SeriesReportSpec,
    ) -> Result<(ReleaseSpec, LogicalPlan)> {
        let wrong = in_release(number);
        let schema = release.schema();
        let mut roles = Assignment::new(schema).map_err(&wrong)?;
        let quasi_identifiers =
            roles.assign("quasi_identifiers", &spec.quasi_identifiers).map_err(&wrong)?;
        let sensitive = roles.assign("sensitive", &spec.sensitive).map_err(&wrong)?;
        let class = self.class_column(number, schema)?;
        let mut projection = Projection::default();
        let class_keys =
            projection.add(class.clone().map(|class| cast(Expr::Column(class), DataType::Int64)));
        let mut cells = Vec::new();
        for column in &quasi_identifiers {
            let (form, exprs) = self.cell(schema, column)?;
            cells.push(PublishedSpec { form, keys: projection.add(exprs) });
        }
        let class_keys = if class.is_some() { class_keys.end } else { projection.exprs.len() };
        if class_keys == 0 {
            return plan_err!(
                "{PLACE}: release {number} has neither a column '{COHORT}' nor a column '{CLASS_ID}', so that its \
                 classes are the combinations of its published quasi-identifiers: name those, as in \
                 quasi_identifiers => ['age', 'zip']"
            );
        }
        let sensitive_start = projection.exprs.len();
        for (column, wanted) in sensitive.iter().zip(&self.sensitive) {
            projection.add([self.sensitive(number, schema, column, wanted)?]);
        }
        for name in &self.others {
            let column = find_column(schema, "others", name).map_err(&wrong)?;
            let data_type = type_of(schema, &column)?.clone();
            let plain = grouped_type(&data_type);
            projection.add([converted(Expr::Column(column), &data_type, plain)]);
        }
        let repeated_until = projection.exprs.len();
        let held = self.held_column(number, schema)?;
        let held = held.map(|held| projection.add([Expr::Column(held)]).start);
        let is_numbered = class.is_some();
        let read = ReleaseSpec {
            class_keys,
            is_numbered,
            cells,
            sensitive: sensitive_start,
            repeated_until,
            held,
        };
        Ok((read, projection.apply(release, &format!("release{number}"))?))
    }

    /// The number of the class, if it is published.
    fn class_column(&self, number: usize, schema: &DFSchema) -> Result<Option<Column>> {
        // Labels tell classes apart by their combinations alone.
        if !self.cohorts && self.register.is_some_and(Register::fits) {
            return Ok(None);
        }
        let name = if self.cohorts { COHORT } else { CLASS_ID };
        let Some(class) = named(schema, name) else {
            if self.register.is_some_and(|register| !register.fits()) {
                return plan_err!(
                    "{PLACE}: the register has a column 'class', and release {number} has neither '{COHORT}' nor \
                     '{CLASS_ID}' to compare it with: publish with class_id => true, or leave 'class' out of the \
                     register and name the quasi-identifiers"
                );
            }
            return Ok(None);
        };
        check_whole_number(&format!("release {number}"), schema, &class)?;
        Ok(Some(class))
    }

    fn held_column(&self, number: usize, schema: &DFSchema) -> Result<Option<Column>> {
        let Some(held) = named(schema, HELD).filter(|_| self.cohorts) else { return Ok(None) };
        match type_of(schema, &held)? {
            DataType::Boolean => Ok(Some(held)),
            other => plan_err!(
                "{PLACE}: column '{HELD}' of release {number} is of type {other} and is true or false in a series: \
                 rename it, or name the table as it was published"
            ),
        }
    }

    fn cell(&self, schema: &DFSchema, column: &Column) -> Result<(PublishedForm, Vec<Expr>)> {
        let published = type_of(schema, column)?;
        let keys = keys_of(column, published);
        let Some(original) = self.register.and_then(|register| register.type_of(&column.name))
        else {
            let form = if keys.len() == 1 { PublishedForm::Labels } else { PublishedForm::Bounds };
            return Ok((form, keys));
        };
        let form = PublishedForm::of(original, published, &column.name).map_err(mistake(PLACE))?;
        if form == PublishedForm::Means {
            return plan_err!(
                "{PLACE}: column '{}' was published as means, which tell no range that a person fits: add the class of \
                 every person to the register, as a column 'class'",
                column.name
            );
        }
        let wanted = form.compared_type(original, published);
        Ok((form, keys.into_iter().map(|key| cast(key, wanted.clone())).collect()))
    }

    /// The values of all releases have the type that they have in the first one.
    fn sensitive(
        &self,
        number: usize,
        schema: &DFSchema,
        column: &Column,
        wanted: &DataType,
    ) -> Result<Expr> {
        let data_type = type_of(schema, column)?;
        let plain = grouped_type(data_type);
        if plain != *wanted {
            return plan_err!(
                "{PLACE}: column '{}' is of type {plain} in release {number} and of type {wanted} in release 1: cast it \
                 in one of them, as in (SELECT CAST({} AS …) …)",
                column.name,
                column.name
            );
        }
        Ok(converted(Expr::Column(column.clone()), data_type, plain))
    }
}

fn names(columns: &[String]) -> impl Iterator<Item = &str> {
    columns.iter().map(String::as_str)
}

fn check_whole_number(place: &str, schema: &DFSchema, column: &Column) -> Result<()> {
    let data_type = type_of(schema, column)?;
    if data_type.is_integer() {
        return Ok(());
    }
    plan_err!(
        "{PLACE}: column '{}' of {place} is of type {data_type} and must be a whole number: cast it to BIGINT",
        column.name
    )
}

/// A register of persons: one row for every person and release.
struct Register {
    spec: RegisterSpec,
    table: LogicalPlan,
    person: Column,
    release: Column,
    /// The class, if it is known.
    class: Option<Column>,
    quasi_identifiers: Vec<Column>,
}

impl Register {
    fn new(table: LogicalPlan, options: Options, tables: &mut Vec<LogicalPlan>) -> Result<Self> {
        let wrong = mistake(REGISTER);
        let schema = table.schema();
        Assignment::new(schema).map_err(&wrong)?;
        let column = |name: &str| {
            named(schema, name).ok_or_else(|| {
                plan_datafusion_err!(
                    "{REGISTER}, has no column '{name}': it needs person, release (1 for the first release that is \
                     named, 2 for the next) and the quasi-identifiers, or class, the class of the person"
                )
            })
        };
        let (person, release) = (column("person")?, column("release")?);
        check_whole_number("the register", schema, &release)?;
        let class = named(schema, "class");
        if let Some(class) = &class {
            check_whole_number("the register", schema, class)?;
        }
        let mut quasi_identifiers = Vec::new();
        let mut spec = RegisterSpec::Classes;
        if class.is_none() {
            let mut roles = Assignment::new(schema).map_err(&wrong)?;
            quasi_identifiers =
                roles.assign("quasi_identifiers", &options.quasi_identifiers).map_err(&wrong)?;
            if quasi_identifiers.is_empty() {
                return plan_err!(
                    "{REGISTER}, has no column 'class', so that classes are found by quasi-identifiers: name those that \
                     were published, as in quasi_identifiers => ['age', 'zip']"
                );
            }
            let fits = options.with_hierarchies(&quasi_identifiers, schema, tables);
            spec = RegisterSpec::Fits(fits.map_err(&wrong)?);
        }
        Ok(Self { spec, person, release, class, quasi_identifiers, table })
    }

    /// Whether classes are found by quasi-identifiers.
    fn fits(&self) -> bool {
        self.class.is_none()
    }

    /// The type of a quasi-identifier, `None` if the register need not know it.
    fn type_of(&self, name: &str) -> Option<&DataType> {
        let lower = name.to_lowercase();
        let column = self.quasi_identifiers.iter().find(|c| c.name.to_lowercase() == lower)?;
        type_of(self.table.schema(), column).ok()
    }

    /// The distinct values of every quasi-identifier, if classes are found by them; and the rows.
    fn inputs(self) -> Result<Vec<LogicalPlan>> {
        let mut inputs = Vec::new();
        if self.fits() {
            inputs.push(original_input(&self.quasi_identifiers, self.table.clone())?);
        }
        let schema = self.table.schema();
        let mut projection = Projection::default();
        let plain = |column: &Column| -> Result<Expr> {
            let data_type = type_of(schema, column)?;
            Ok(converted(Expr::Column(column.clone()), data_type, grouped_type(data_type)))
        };
        projection.add([plain(&self.person)?]);
        let numbers = [Some(&self.release), self.class.as_ref()].into_iter().flatten();
        projection.add(numbers.map(|number| cast(Expr::Column(number.clone()), DataType::Int64)));
        for column in &self.quasi_identifiers {
            projection.add([plain(column)?]);
        }
        inputs.push(projection.apply(self.table.clone(), "register")?);
        Ok(inputs)
    }
}
