//! A call of a SQL function with tables of Python, as a plan.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, TableReference};
use datafusion::prelude::DataFrame;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, SetExpr, Statement as SqlStatement,
    TableFactor, TableFunctionArgs,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString, PyTuple};

use crate::failure::Failure;
use crate::input::{Counted, Once, in_memory, is_table, table_of};
use crate::options::named;
use crate::progress::Inputs;
use crate::rows::rows_of;
use crate::session::Session;

/// Names of tables in a session must differ while calls are planned at the same time.
static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// Tables that a call names. The session has them until the call is planned; the plan keeps them then.
pub struct Tables<'a> {
    session: &'a Session,
    names: Vec<String>,
    /// What the progress is told of.
    pub inputs: Inputs,
}

impl Drop for Tables<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            self.session.remove(name);
        }
    }
}

impl<'a> Tables<'a> {
    /// No tables yet.
    pub fn new(session: &'a Session) -> Self {
        Self { session, names: Vec::new(), inputs: Inputs::default() }
    }

    /// A table that Python holds, or a result of this package.
    pub fn add(&mut self, value: &Bound<'_, PyAny>) -> Result<Expr, Failure> {
        let partitions = self.session.partitions();
        let table = match rows_of(value)? {
            Some(rows) => rows.get().as_table(value.py(), self.session, partitions)?,
            None => in_memory(value, partitions)?,
        };
        self.register(table)
    }

    /// The input of a call: a table, the name of one, or a path.
    fn add_input(&mut self, value: &Bound<'_, PyAny>, is_read_once: bool) -> Result<Expr, Failure> {
        let py = value.py();
        if value.hasattr(intern!(py, "__fspath__"))? {
            let path = value.call_method0(intern!(py, "__fspath__"))?.extract::<String>()?;
            return rows_of_file(&path);
        }
        if let Ok(name) = value.cast::<PyString>() {
            let name: String = name.extract()?;
            return match self.session.has_table(&name)? {
                true => Ok(table_name(&TableReference::parse_str(&name))),
                false => rows_of_file(&name),
            };
        }
        if rows_of(value)?.is_some() {
            return self.add(value);
        }
        if !is_table(value)? {
            let kind = value.get_type().name()?;
            return Err(Failure::invalid(format!(
                "the input must be a table: anything with __arrow_c_stream__, as those of pyarrow, pandas 2.2, polars and \
                 DuckDB have it, the name of a table of the session, or a path; this is a {kind}"
            )));
        }
        // A table that knows its length is in memory and can be divided; others are read as they come.
        let partitions = self.session.partitions();
        if is_read_once && value.len().is_err() {
            let Once { table, rows_read } = Once::new(value, partitions)?;
            self.inputs.add(rows_read, None);
            return self.register(table);
        }
        let Counted { table, rows_read, rows } = Counted::new(value, partitions)?;
        self.inputs.add(rows_read, Some(rows));
        self.register(table)
    }

    /// `{leaf: [level 1, level 2, …]}` as a table.
    pub fn add_levels(
        &mut self,
        column: &str,
        levels: &Bound<'_, PyMapping>,
    ) -> Result<Expr, Failure> {
        let uneven = || {
            Failure::invalid(format!(
                "the hierarchy of column '{column}' must have as many levels for every leaf, as in {{'Bachelors': \
                 ['Degree', '*'], 'Masters': ['Degree', '*']}}"
            ))
        };
        let mut columns: Vec<Vec<String>> = Vec::new();
        for entry in levels.items()?.iter() {
            let (leaf, above): (Bound<'_, PyAny>, Bound<'_, PyAny>) = entry.extract()?;
            let mut line = vec![leaf.str()?.extract::<String>()?];
            match above.cast::<PyString>() {
                Ok(level) => line.push(level.extract()?),
                Err(_) => {
                    for level in above.try_iter()? {
                        line.push(level?.str()?.extract()?);
                    }
                }
            }
            columns
                .resize_with(if columns.is_empty() { line.len() } else { columns.len() }, Vec::new);
            if line.len() != columns.len() {
                return Err(uneven());
            }
            for (column, label) in columns.iter_mut().zip(line) {
                column.push(label);
            }
        }
        if columns.len() < 2 {
            return Err(uneven());
        }
        let fields = (0..columns.len())
            .map(|level| Field::new(format!("level_{level}"), DataType::Utf8, false));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let arrays =
            columns.into_iter().map(|labels| Arc::new(StringArray::from(labels)) as ArrayRef);
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays.collect());
        let batch = batch.map_err(DataFusionError::from)?;
        self.register(Arc::new(table_of(schema, &[batch], 1)?))
    }

    /// Gives a table a name of its own.
    pub fn register(&mut self, table: Arc<dyn TableProvider>) -> Result<Expr, Failure> {
        let name = format!("table_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let reference = self.session.add(&name, table)?;
        self.names.push(name);
        Ok(table_name(&reference))
    }
}

/// Plans `SELECT * FROM function(inputs, option => value, …)`.
pub fn plan(
    tables: &mut Tables<'_>,
    function: &str,
    inputs: &Bound<'_, PyTuple>,
    options: &Bound<'_, PyDict>,
) -> Result<DataFrame, Failure> {
    let is_read_once = function == "anonymize" && !tables.session.works_in_cells();
    let mut args = Vec::with_capacity(inputs.len() + options.len());
    for input in inputs.iter() {
        let input = tables.add_input(&input, is_read_once)?;
        args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(input)));
    }
    args.extend(named(tables, options)?);
    let statement = select_from(function, Some(args))?;
    tables.session.plan(inputs.py(), Statement::Statement(Box::new(statement)))
}

/// `(SELECT * FROM 'path')`
fn rows_of_file(path: &str) -> Result<Expr, Failure> {
    match select_from(path, None)? {
        SqlStatement::Query(query) => Ok(Expr::Subquery(query)),
        _ => Err(Failure::internal("a query is no query")),
    }
}

/// `SELECT * FROM name`, or `name(args)`. It is not put together as a text, so no text in it can be anything else.
fn select_from(name: &str, call: Option<Vec<FunctionArg>>) -> Result<SqlStatement, Failure> {
    let unexpected = || Failure::internal("a query is no query");
    let parsed = Parser::parse_sql(&GenericDialect {}, "SELECT * FROM name");
    let mut statement = parsed.ok().and_then(|mut all| all.pop()).ok_or_else(unexpected)?;
    let SqlStatement::Query(query) = &mut statement else { return Err(unexpected()) };
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(unexpected()) };
    let table = select.from.first_mut().map(|from| &mut from.relation);
    let Some(TableFactor::Table { name: table, args, .. }) = table else {
        return Err(unexpected());
    };
    *table = ObjectName::from(vec![match call {
        Some(_) => Ident::new(name),
        None => Ident::with_quote('"', name),
    }]);
    *args = call.map(|args| TableFunctionArgs { args, settings: None });
    Ok(statement)
}

fn table_name(reference: &TableReference) -> Expr {
    let mut parts: Vec<Ident> =
        reference.to_vec().into_iter().map(|part| Ident::with_quote('"', part)).collect();
    match parts.len() {
        1 => Expr::Identifier(parts.swap_remove(0)),
        _ => Expr::CompoundIdentifier(parts),
    }
}
