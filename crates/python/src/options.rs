//! Python's values as arguments of the SQL functions, so that every option is read, checked and refused in one place and in
//! the same words: by the planner of the SQL functions.

use datafusion::sql::sqlparser::ast::{
    Array, DictionaryField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, UnaryOperator, Value,
};
use datafusion_anonymize::{Options, Place};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyStringMethods, PyTuple,
};

use crate::call::Tables;
use crate::failure::Failure;
use crate::input::is_table;
use crate::rows::Rows;

/// The steps of a hierarchy: `intervals(5, 10)`, `prefixes(4, 3)` or `date_steps("month", "year")`.
#[pyclass(frozen, module = "datafusion_anonymize", eq)]
#[derive(PartialEq)]
pub struct Hierarchy {
    function: String,
    /// The steps as SQL writes them.
    steps: Vec<Expr>,
}

#[pymethods]
impl Hierarchy {
    /// The name of its function in SQL.
    #[getter]
    fn function(&self) -> &str {
        &self.function
    }

    /// The steps as they are written, texts in double quotes.
    #[getter]
    fn steps(&self) -> Vec<String> {
        self.steps.iter().map(|step| step.to_string().replace('\'', "\"")).collect()
    }

    fn __repr__(&self) -> String {
        let steps: Vec<String> = self.steps.iter().map(ToString::to_string).collect();
        format!("{}({})", self.function, steps.join(", "))
    }
}

/// A hierarchy by the name of its function in SQL.
#[pyfunction]
pub fn hierarchy(function: String, steps: &Bound<'_, PyTuple>) -> PyResult<Hierarchy> {
    let steps = steps.iter().map(|step| scalar(&step));
    let steps = steps.collect::<PyResult<Option<Vec<_>>>>()?.ok_or_else(|| {
        Failure::invalid(format!(
            "{function}() takes numbers or texts, as in intervals(5, 10), prefixes(4, 3) or \
             date_steps('month', 'year')"
        ))
    })?;
    Ok(Hierarchy { function, steps })
}

/// The options of a SQL function that it shares with `anonymize`: name, what its value is, what it does.
#[pyfunction]
pub fn definitions(function: &str) -> Vec<(&'static str, &'static str, String)> {
    let place = match function {
        "anonymize" => Place::Sql("anonymize"),
        "privacy_report" => Place::Sql("privacy_report"),
        "utility_report" => Place::Sql("utility_report"),
        "series_report" => Place::Sql("series_report"),
        _ => return Vec::new(),
    };
    let described = Options::definitions(place)
        .map(|definition| (definition.name, definition.value(), definition.description()));
    described.collect()
}

/// The named arguments of a call. `class_` is `class`, which Python keeps for itself.
pub fn named(
    tables: &mut Tables<'_>,
    options: &Bound<'_, PyDict>,
) -> Result<Vec<FunctionArg>, Failure> {
    let mut named = Vec::with_capacity(options.len());
    for (name, value) in options.iter() {
        let name: String = name.extract()?;
        let name = name.trim_end_matches('_');
        let value = match name {
            "hierarchies" => hierarchies(tables, &value)?,
            _ => expression(tables, name, &value)?,
        };
        named.push(FunctionArg::Named {
            name: Ident::new(name),
            arg: FunctionArgExpr::Expr(value),
            operator: datafusion::sql::sqlparser::ast::FunctionArgOperator::RightArrow,
        });
    }
    Ok(named)
}

/// `{column: hierarchy}`, where a hierarchy may be a dict too.
fn hierarchies(tables: &mut Tables<'_>, value: &Bound<'_, PyAny>) -> Result<Expr, Failure> {
    let Ok(mapping) = value.cast::<PyMapping>() else {
        return expression(tables, "hierarchies", value);
    };
    let mut fields = Vec::new();
    for entry in mapping.items()?.iter() {
        let (column, given): (String, Bound<'_, PyAny>) = entry.extract()?;
        let value = match given.cast::<PyMapping>() {
            Ok(levels) if !is_table(&given)? => tables.add_levels(&column, levels)?,
            _ => expression(tables, "hierarchies", &given)?,
        };
        fields.push(field(column, value));
    }
    Ok(Expr::Dictionary(fields))
}

/// A value of an option.
fn expression(
    tables: &mut Tables<'_>,
    option: &str,
    value: &Bound<'_, PyAny>,
) -> Result<Expr, Failure> {
    if let Some(listed) = listed(value)? {
        return expression(tables, option, &listed);
    }
    if let Ok(items) = value.cast::<PyList>() {
        let items = items.iter().map(|item| expression(tables, option, &item));
        return Ok(list(items.collect::<Result<_, _>>()?));
    }
    if let Ok(items) = value.cast::<PyTuple>() {
        let items = items.iter().map(|item| expression(tables, option, &item));
        return Ok(list(items.collect::<Result<_, _>>()?));
    }
    if let Ok(hierarchy) = value.cast::<Hierarchy>() {
        let Hierarchy { function, steps } = hierarchy.get();
        return Ok(call(function, steps.clone()));
    }
    if value.is_instance_of::<Rows>() || is_table(value)? {
        return tables.add(value);
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let mut fields = Vec::new();
        for entry in mapping.items()?.iter() {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = entry.extract()?;
            let key = key.str()?.to_cow()?.into_owned();
            fields.push(field(key, expression(tables, option, &value)?));
        }
        return Ok(Expr::Dictionary(fields));
    }
    scalar(value)?.ok_or_else(|| {
        let kind = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        Failure::invalid(format!(
            "option '{option}': a {kind} means nothing here; write a number, a text, True or False, a list, a dict or \
             a table"
        ))
    })
}

/// Arrays and series of numpy, pandas, polars and pyarrow as lists, and their single values as Python's.
fn listed<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = value.py();
    for name in [intern!(py, "tolist"), intern!(py, "to_list")] {
        if value.hasattr(name)? {
            return value.call_method0(name).map(Some);
        }
    }
    Ok(None)
}

/// A number, a text, a truth value, a path or None; nothing if it is none of these.
fn scalar(value: &Bound<'_, PyAny>) -> PyResult<Option<Expr>> {
    let py = value.py();
    if value.is_none() {
        return Ok(Some(Expr::value(Value::Null)));
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Some(Expr::value(Value::Boolean(flag.is_true()))));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Some(self::text(text.to_cow()?)));
    }
    if value.is_instance_of::<PyInt>() {
        return whole(value).map(Some);
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return number.extract().map(|number: f64| Some(float(number)));
    }
    if value.hasattr(intern!(py, "__fspath__"))? {
        let path = value.call_method0(intern!(py, "__fspath__"))?;
        return Ok(Some(text(path.str()?.to_cow()?)));
    }
    // Whole numbers and numbers of other libraries.
    if value.hasattr(intern!(py, "__index__"))? {
        return whole(&value.call_method0(intern!(py, "__index__"))?).map(Some);
    }
    if value.hasattr(intern!(py, "__float__"))? {
        let number: f64 = value.call_method0(intern!(py, "__float__"))?.extract()?;
        return Ok(Some(float(number)));
    }
    Ok(None)
}

/// A whole number of any size; one that SQL has no type for stays a text, which a seed may be.
fn whole(value: &Bound<'_, PyAny>) -> PyResult<Expr> {
    let digits = value.str()?.to_cow()?.into_owned();
    let fits = digits.parse::<i64>().is_ok() || digits.parse::<u64>().is_ok();
    Ok(if fits { number(&digits) } else { text(digits) })
}

fn float(value: f64) -> Expr {
    // What is no number in SQL is refused by the option, like any text.
    if value.is_finite() { number(&format!("{value:?}")) } else { text(value.to_string()) }
}

fn number(digits: &str) -> Expr {
    match digits.strip_prefix('-') {
        Some(digits) => Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(Expr::value(Value::Number(digits.to_owned(), false))),
        },
        None => Expr::value(Value::Number(digits.to_owned(), false)),
    }
}

/// A text as SQL writes it.
pub fn text(text: impl Into<String>) -> Expr {
    Expr::value(Value::SingleQuotedString(text.into()))
}

fn list(elem: Vec<Expr>) -> Expr {
    Expr::Array(Array { elem, named: false })
}

fn field(key: String, value: Expr) -> DictionaryField {
    DictionaryField { key: Ident::with_quote('"', key), value: Box::new(value) }
}

/// A call that means something to an option, as `intervals(5, 10)` does.
fn call(function: &str, arguments: Vec<Expr>) -> Expr {
    let args =
        arguments.into_iter().map(|value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value)));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(function)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
