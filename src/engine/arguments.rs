//! Named arguments of the SQL functions: from syntax to values, with messages that say what to write.

use datafusion::common::{
    DFSchema, DataFusionError, Result, ScalarValue, plan_datafusion_err, plan_err,
};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{
    self, Expr as SqlExpr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Value,
};

/// The arguments of one call, sorted into relations and named options.
#[derive(Debug)]
pub(super) struct Arguments {
    pub(super) function: &'static str,
    /// Unnamed arguments, in order.
    pub(super) relations: Vec<SqlExpr>,
    named: Vec<(String, SqlExpr)>,
}

/// Texts with whole numbers, or something else.
pub(super) enum Listing {
    Numbers(Vec<(String, i64)>),
    Other(Box<SqlExpr>),
}

impl Arguments {
    /// Sorts the arguments of a call and refuses options that the function does not have.
    pub(super) fn new(
        function: &'static str,
        args: Vec<FunctionArg>,
        known: &[&str],
    ) -> Result<Self> {
        let mut arguments = Self { function, relations: Vec::new(), named: Vec::new() };
        for arg in args {
            match arg {
                FunctionArg::Unnamed(arg) => {
                    arguments.add_relation(value_of(function, "", arg)?)?
                }
                FunctionArg::Named { name, arg, .. } => {
                    let name = name.value.to_lowercase();
                    let value = value_of(function, &name, arg)?;
                    arguments.add_option(name, value, known)?;
                }
                FunctionArg::ExprNamed { name, arg, .. } => {
                    let name = name.to_string().to_lowercase();
                    let value = value_of(function, &name, arg)?;
                    arguments.add_option(name, value, known)?;
                }
            }
        }
        Ok(arguments)
    }

    fn add_relation(&mut self, value: SqlExpr) -> Result<()> {
        // `k = 5` is a comparison to the parser.
        if let SqlExpr::BinaryOp { left, op: ast::BinaryOperator::Eq, .. } = &value {
            // Only a name is repeated: a value could be a secret.
            let name = match left.as_ref() {
                SqlExpr::Identifier(name) => name.to_string(),
                _ => "name".to_owned(),
            };
            return plan_err!("{}: write {name} => … instead of {name} = …", self.function);
        }
        if !self.named.is_empty() {
            return plan_err!(
                "{}: an argument without a name follows a named one; options are written name => value",
                self.function
            );
        }
        self.relations.push(value);
        Ok(())
    }

    fn add_option(&mut self, name: String, value: SqlExpr, known: &[&str]) -> Result<()> {
        if !known.contains(&name.as_str()) {
            let hint = match closest(&name, known) {
                Some(option) => format!("did you mean '{option}'? "),
                None => String::new(),
            };
            return plan_err!(
                "{}: there is no option '{name}'; {hint}the options are {}",
                self.function,
                known.join(", ")
            );
        }
        if self.named.iter().any(|(given, _)| *given == name) {
            return plan_err!("{}: option '{name}' is given twice", self.function);
        }
        self.named.push((name, value));
        Ok(())
    }

    pub(super) fn take(&mut self, name: &str) -> Option<SqlExpr> {
        let position = self.named.iter().position(|(given, _)| given == name)?;
        Some(self.named.swap_remove(position).1)
    }

    fn null(&self, name: &str, wanted: &str) -> DataFusionError {
        plan_datafusion_err!(
            "{}: option '{name}' is NULL: leave it out, or write {wanted}",
            self.function
        )
    }

    fn wrong(&self, name: &str, wanted: &str) -> DataFusionError {
        plan_datafusion_err!("{}: option '{name}' must be {wanted}", self.function)
    }

    /// A constant of any type. `NULL` is an error: a computed value that happens to be missing must not silently drop
    /// a requirement.
    fn constant(
        &mut self,
        name: &str,
        wanted: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Option<ScalarValue>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let scalar = fold(value, context)
            .ok_or_else(|| self.wrong(name, &format!("a constant, {wanted}")))?;
        match scalar.is_null() {
            true => Err(self.null(name, wanted)),
            false => Ok(Some(scalar)),
        }
    }

    pub(super) fn integer(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Option<i64>> {
        let wanted = format!("a whole number, as in {name} => 10");
        let Some(scalar) = self.constant(name, &wanted, context)? else { return Ok(None) };
        let integer = whole_number(&scalar);
        integer.map(Some).ok_or_else(|| self.wrong(name, &wanted))
    }

    pub(super) fn number(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Option<f64>> {
        let wanted = format!("a number, as in {name} => 0.2");
        let Some(scalar) = self.constant(name, &wanted, context)? else { return Ok(None) };
        finite_number(&scalar).map(Some).ok_or_else(|| self.wrong(name, &wanted))
    }

    /// A number or a list of numbers; none if the option is left out.
    pub(super) fn numbers(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Vec<f64>> {
        let wanted = format!("a number or a list of numbers, as in {name} => [0.2, 0.5]");
        let Some(value) = self.take(name) else { return Ok(Vec::new()) };
        let items = match list_items(value.clone()) {
            Some(items) if items.is_empty() => return Err(self.wrong(name, &wanted)),
            Some(items) => items,
            None if fold(value.clone(), context).is_some_and(|scalar| scalar.is_null()) => {
                return Err(self.null(name, &wanted));
            }
            None => vec![value],
        };
        let number = |item: SqlExpr| {
            let scalar = fold(item, context);
            scalar.as_ref().and_then(finite_number).ok_or_else(|| self.wrong(name, &wanted))
        };
        items.into_iter().map(number).collect()
    }

    /// Texts with whole numbers: `{HIV: 1, Flu: 4}`. Unquoted names are taken as they are written.
    /// What is no such list is given back.
    pub(super) fn listed_numbers(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Option<Listing>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let Some(entries) = named_entries(value.clone(), &as_written) else {
            return Ok(Some(Listing::Other(Box::new(value))));
        };
        let wrong = || {
            self.wrong(
                name,
                &format!("values with whole numbers, as in {name} => {{HIV: 1, Flu: 4}}"),
            )
        };
        let mut listed = Vec::with_capacity(entries.len());
        for (text, value) in entries {
            let number = fold(value, context).as_ref().and_then(whole_number);
            listed.push((text, number.ok_or_else(wrong)?));
        }
        Ok(Some(Listing::Numbers(listed)))
    }

    /// `{name: number, …}`
    pub(super) fn column_numbers(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Vec<(String, f64)>> {
        let Some(value) = self.take(name) else { return Ok(Vec::new()) };
        let numbers = named_entries(value, &|name| ident(name, context)).and_then(|entries| {
            let number = |(column, value)| Some((column, any_number(&fold(value, context)?)?));
            entries.into_iter().map(number).collect::<Option<Vec<_>>>()
        });
        numbers.ok_or_else(|| {
            self.wrong(
                name,
                &format!("a list of columns and numbers, as in {name} => {{age: 2.0}}"),
            )
        })
    }

    pub(super) fn text(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Option<String>> {
        let wanted = format!("a text, as in {name} => '…'");
        let Some(scalar) = self.constant(name, &wanted, context)? else { return Ok(None) };
        let text = scalar.try_as_str().flatten().map(str::to_owned);
        text.map(Some).ok_or_else(|| self.wrong(name, &wanted))
    }

    /// A text, or `true` and `false` by how they are written.
    pub(super) fn text_or_boolean(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Option<String>> {
        let wanted = format!("a text, or true or false, as in {name} => true");
        match self.constant(name, &wanted, context)? {
            None => Ok(None),
            Some(ScalarValue::Boolean(Some(value))) => Ok(Some(value.to_string())),
            Some(scalar) => match scalar.try_as_str().flatten() {
                Some(text) => Ok(Some(text.to_owned())),
                None => Err(self.wrong(name, &wanted)),
            },
        }
    }

    pub(super) fn boolean(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<bool> {
        Ok(self.maybe_boolean(name, context)?.unwrap_or(false))
    }

    /// `None` if the option is left out.
    pub(super) fn maybe_boolean(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Option<bool>> {
        let wanted = format!("true or false, as in {name} => true");
        match self.constant(name, &wanted, context)? {
            None => Ok(None),
            Some(ScalarValue::Boolean(Some(value))) => Ok(Some(value)),
            Some(_) => Err(self.wrong(name, &wanted)),
        }
    }

    /// A secret: whole numbers and texts, by how they are written.
    pub(super) fn secret(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Option<String>> {
        let wanted = format!("a text or a whole number, as in {name} => '…'");
        let Some(scalar) = self.constant(name, &wanted, context)? else { return Ok(None) };
        let accepted = scalar.data_type().is_integer() || scalar.try_as_str().flatten().is_some();
        if accepted { Ok(Some(scalar.to_string())) } else { Err(self.wrong(name, &wanted)) }
    }

    /// Column names: `['age', 'zip']`, `[age, zip]` or a single one.
    pub(super) fn columns(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Vec<String>> {
        let Some(value) = self.take(name) else { return Ok(Vec::new()) };
        let wanted = format!("a list of columns, as in {name} => ['age', 'zip']");
        if fold(value.clone(), context).is_some_and(|scalar| scalar.is_null()) {
            return Err(self.null(name, &wanted));
        }
        column_names(value, context).ok_or_else(|| self.wrong(name, &wanted))
    }

    /// `[{columns: ['age', 'zip'], k: 3}, …]`
    pub(super) fn constraints(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Vec<(Vec<String>, i64)>> {
        let Some(value) = self.take(name) else { return Ok(Vec::new()) };
        let items = list_items(value).filter(|items| !items.is_empty());
        let constraints = items.and_then(|items| {
            items.into_iter().map(|item| constraint(item, context)).collect::<Option<Vec<_>>>()
        });
        constraints.ok_or_else(|| {
            self.wrong(
                name,
                &format!(
                    "a list of columns with their k, as in {name} => [{{columns: ['age', 'zip'], k: \
                     3}}, {{columns: ['sex'], k: 10}}]"
                ),
            )
        })
    }

    /// A single column name.
    pub(super) fn column(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Option<String>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let column = column_name(value, &|name| ident(name, context));
        column
            .map(Some)
            .ok_or_else(|| self.wrong(name, &format!("a column, as in {name} => 'age'")))
    }

    /// `{name: value, …}`, `MAP {'name': value, …}` or `named_struct('name', value, …)`.
    pub(super) fn entries(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Vec<(String, SqlExpr)>> {
        let Some(value) = self.take(name) else { return Ok(Vec::new()) };
        named_entries(value, &|name| ident(name, context)).ok_or_else(|| {
            self.wrong(name, &format!("a list of names and values, as in {name} => {{age: …}}"))
        })
    }
}

/// The entries of `{…}`, `MAP {…}` or `named_struct(…)`, `None` for anything else.
fn named_entries(
    value: SqlExpr,
    name_of: &dyn Fn(&Ident) -> String,
) -> Option<Vec<(String, SqlExpr)>> {
    let text = |expr: SqlExpr| column_name(expr, name_of);
    match value {
        SqlExpr::Dictionary(fields) => {
            let entry = |field: ast::DictionaryField| (name_of(&field.key), *field.value);
            Some(fields.into_iter().map(entry).collect())
        }
        SqlExpr::Map(map) => {
            let entry = |entry: ast::MapEntry| Some((text(*entry.key)?, *entry.value));
            map.entries.into_iter().map(entry).collect()
        }
        SqlExpr::Function(call) if call.name.to_string().eq_ignore_ascii_case("named_struct") => {
            let pair = |pair: &[SqlExpr]| match pair {
                [name, value] => Some((text(name.clone())?, value.clone())),
                _ => None,
            };
            positional(call.args)?.chunks(2).map(pair).collect()
        }
        _ => None,
    }
}

/// The items of `[…]` or `make_array(…)`, `None` for anything else.
fn list_items(value: SqlExpr) -> Option<Vec<SqlExpr>> {
    match value {
        SqlExpr::Array(array) => Some(array.elem),
        SqlExpr::Function(call) if call.name.to_string().eq_ignore_ascii_case("make_array") => {
            positional(call.args)
        }
        _ => None,
    }
}

/// A list of columns or a single one.
fn column_names(value: SqlExpr, context: &dyn RelationPlannerContext) -> Option<Vec<String>> {
    let name_of = |name: &Ident| ident(name, context);
    match list_items(value.clone()) {
        Some(items) => items.into_iter().map(|item| column_name(item, &name_of)).collect(),
        None => column_name(value, &name_of).map(|column| vec![column]),
    }
}

/// `{columns: […], k: n}`
fn constraint(
    value: SqlExpr,
    context: &mut dyn RelationPlannerContext,
) -> Option<(Vec<String>, i64)> {
    let (mut columns, mut k) = (None, None);
    for (name, value) in named_entries(value, &as_written)? {
        match name.to_lowercase().as_str() {
            "columns" if columns.is_none() => columns = Some(column_names(value, context)?),
            "k" if k.is_none() => k = Some(whole_number(&fold(value, context)?)?),
            _ => return None,
        }
    }
    Some((columns?, k?))
}

fn finite_number(scalar: &ScalarValue) -> Option<f64> {
    any_number(scalar).filter(|number| number.is_finite())
}

fn any_number(scalar: &ScalarValue) -> Option<f64> {
    let number = scalar.cast_to(&datafusion::arrow::datatypes::DataType::Float64).ok();
    match number {
        Some(ScalarValue::Float64(number)) if scalar.data_type().is_numeric() => number,
        _ => None,
    }
}

fn whole_number(scalar: &ScalarValue) -> Option<i64> {
    match scalar {
        ScalarValue::Int8(v) => v.map(i64::from),
        ScalarValue::Int16(v) => v.map(i64::from),
        ScalarValue::Int32(v) => v.map(i64::from),
        ScalarValue::Int64(v) => *v,
        ScalarValue::UInt8(v) => v.map(i64::from),
        ScalarValue::UInt16(v) => v.map(i64::from),
        ScalarValue::UInt32(v) => v.map(i64::from),
        ScalarValue::UInt64(v) => v.and_then(|v| i64::try_from(v).ok()),
        _ => None,
    }
}

fn value_of(function: &str, name: &str, arg: FunctionArgExpr) -> Result<SqlExpr> {
    match arg {
        FunctionArgExpr::Expr(expr) => Ok(expr),
        _ if name.is_empty() => {
            plan_err!("{function}: * is not an input; name a table or write (SELECT …)")
        }
        _ => plan_err!("{function}: option '{name}' cannot be *"),
    }
}

/// The value of a constant expression, `None` if it is not constant.
pub(super) fn fold(
    value: SqlExpr,
    context: &mut dyn RelationPlannerContext,
) -> Option<ScalarValue> {
    let empty = DFSchema::empty();
    let expr = context.sql_to_expr(value, &empty).ok()?;
    let simplifier = ExprSimplifier::new(SimplifyContext::default());
    let expr = simplifier.coerce(expr, &empty).ok()?;
    match simplifier.simplify(expr).ok()? {
        Expr::Literal(scalar, _) => Some(scalar),
        _ => None,
    }
}

/// A column named by a string or an identifier.
fn column_name(item: SqlExpr, name_of: &dyn Fn(&Ident) -> String) -> Option<String> {
    match item {
        SqlExpr::Value(value) => text_value(&value.value),
        SqlExpr::Identifier(name) => Some(name_of(&name)),
        SqlExpr::CompoundIdentifier(names) => names.last().map(name_of),
        _ => None,
    }
}

/// A name that is no column: a value, or a word of ours.
fn as_written(name: &Ident) -> String {
    name.value.clone()
}

fn ident(name: &Ident, context: &dyn RelationPlannerContext) -> String {
    match name.quote_style {
        Some('\'') => name.value.clone(),
        _ => context.normalize_ident(name.clone()),
    }
}

pub(super) fn text_value(value: &Value) -> Option<String> {
    match value {
        Value::SingleQuotedString(text)
        | Value::DoubleQuotedString(text)
        | Value::EscapedStringLiteral(text)
        | Value::NationalStringLiteral(text) => Some(text.clone()),
        Value::DollarQuotedString(text) => Some(text.value.clone()),
        _ => None,
    }
}

/// The unnamed arguments of a call, `None` if some are named or missing.
pub(super) fn positional(args: FunctionArguments) -> Option<Vec<SqlExpr>> {
    let FunctionArguments::List(list) = args else { return None };
    let unnamed = |arg: FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    };
    list.args.into_iter().map(unnamed).collect()
}

/// The known name that differs from a misspelt one in at most a third of its letters.
fn closest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance =
        |option: &str| datafusion::common::utils::datafusion_strsim::levenshtein(name, option);
    let best = known.iter().min_by_key(|option| distance(option))?;
    (distance(best) * 3 <= name.len().max(best.len())).then_some(*best)
}
