//! Named arguments of the SQL functions: from syntax to [`Value`]s, whatever the option.

use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{
    self, Expr as SqlExpr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    Value as SqlValue,
};

use crate::engine::options::{Kind, Name, Options, Place, Relation, Value, did_you_mean};
use crate::engine::planning_error;

/// The arguments of one call, sorted into relations and named options.
#[derive(Debug)]
pub(in crate::engine) struct Arguments {
    pub(in crate::engine) function: &'static str,
    /// Unnamed arguments, in order.
    pub(in crate::engine) relations: Vec<SqlExpr>,
    named: Vec<(String, SqlExpr)>,
}

impl Arguments {
    /// Sorts the arguments of a call and refuses options that the function does not have: those that it shares
    /// with `anonymize`, and its own.
    pub(in crate::engine) fn new(
        function: &'static str,
        args: Vec<FunctionArg>,
        own: &[&'static str],
    ) -> Result<Self> {
        let shared = Options::definitions(Place::Sql(function)).map(|definition| definition.name);
        let known: Vec<&str> = shared.chain(own.iter().copied()).collect();
        let mut arguments = Self { function, relations: Vec::new(), named: Vec::new() };
        for arg in args {
            match arg {
                FunctionArg::Unnamed(arg) => {
                    arguments.add_relation(expression(function, "", arg)?)?
                }
                FunctionArg::Named { name, arg, .. } => {
                    let name = name.value.to_lowercase();
                    let value = expression(function, &name, arg)?;
                    arguments.add_option(name, value, &known)?;
                }
                FunctionArg::ExprNamed { name, arg, .. } => {
                    let name = name.to_string().to_lowercase();
                    let value = expression(function, &name, arg)?;
                    arguments.add_option(name, value, &known)?;
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
            return plan_err!(
                "{}: there is no option '{name}'; {}the options are {}",
                self.function,
                did_you_mean(&name, known),
                known.join(", ")
            );
        }
        if self.named.iter().any(|(given, _)| *given == name) {
            return plan_err!("{}: option '{name}' is given twice", self.function);
        }
        self.named.push((name, value));
        Ok(())
    }

    pub(in crate::engine) fn take(&mut self, name: &str) -> Option<SqlExpr> {
        let position = self.named.iter().position(|(given, _)| given == name)?;
        Some(self.named.swap_remove(position).1)
    }

    /// The options that the function shares with `anonymize`. Relations among them are still to be looked up.
    pub(in crate::engine) fn options(
        &mut self,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Options> {
        let place = Place::Sql(self.function);
        let mut options = Options::default();
        for definition in Options::definitions(place) {
            if let Some(value) = self.take(definition.name) {
                let value = value_of(value, context);
                options.set(definition, value, place).map_err(planning_error)?;
            }
        }
        Ok(options)
    }

    /// An option of the function's own.
    pub(in crate::engine) fn read<K: Kind>(
        &mut self,
        name: &'static str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<K::Field> {
        let Some(value) = self.take(name) else { return Ok(K::Field::default()) };
        let place = Place::Sql(self.function);
        let read = K::read(value_of(value, context), place);
        read.map_err(|misread| planning_error(K::WANTED.mistake(name, misread, place)))
    }
}

/// The value of an expression, for options, which do not know SQL.
fn value_of(expr: SqlExpr, context: &mut dyn RelationPlannerContext) -> Value {
    if let Some(items) = list_items(&expr) {
        return Value::List(items.into_iter().map(|item| value_of(item, context)).collect());
    }
    match expr {
        SqlExpr::Dictionary(_) | SqlExpr::Map(_) => map(expr, context),
        SqlExpr::Function(call) if is_named(&call, "named_struct") => {
            map(SqlExpr::Function(call), context)
        }
        SqlExpr::Function(call) if HIERARCHY_FUNCTIONS.iter().any(|name| is_named(&call, name)) => {
            let name = call.name.to_string().to_lowercase();
            let arguments = match positional(call.args) {
                Some(arguments) => {
                    arguments.into_iter().map(|item| value_of(item, context)).collect()
                }
                None => vec![Value::Other],
            };
            Value::Call(name, arguments)
        }
        SqlExpr::Identifier(name) => Value::Name(named(vec![name], context)),
        SqlExpr::CompoundIdentifier(names) => Value::Name(named(names, context)),
        SqlExpr::Subquery(_) => Value::Relation(Relation::Syntax(Box::new(expr))),
        SqlExpr::Value(value) if text_value(&value.value).is_some() => {
            text_value(&value.value).as_deref().map_or(Value::Other, Value::from)
        }
        expr => match (fold(expr.clone(), context), expr) {
            (Some(constant), _) => Value::Constant(constant),
            (None, call @ SqlExpr::Function(_)) => {
                Value::Relation(Relation::Syntax(Box::new(call)))
            }
            (None, _) => Value::Other,
        },
    }
}

/// Calls that mean something to a hierarchy and nothing to SQL.
const HIERARCHY_FUNCTIONS: [&str; 3] = ["intervals", "prefixes", "date_steps"];

fn is_named(call: &Function, name: &str) -> bool {
    call.name.to_string().eq_ignore_ascii_case(name)
}

/// `{…}`, `MAP {…}` or `named_struct(…)`.
fn map(expr: SqlExpr, context: &mut dyn RelationPlannerContext) -> Value {
    let Some(entries) = entries(expr) else { return Value::Other };
    let mut read = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let key = match value_of(key, context) {
            Value::Name(name) => name,
            other => match other.text() {
                Some(text) => Name::from(text),
                None => return Value::Other,
            },
        };
        read.push((key, value_of(value, context)));
    }
    Value::Map(read)
}

/// Keys and values, `None` if they are not in pairs.
fn entries(expr: SqlExpr) -> Option<Vec<(SqlExpr, SqlExpr)>> {
    Some(match expr {
        SqlExpr::Dictionary(fields) => {
            fields.into_iter().map(|field| (SqlExpr::Identifier(field.key), *field.value)).collect()
        }
        SqlExpr::Map(map) => {
            map.entries.into_iter().map(|entry| (*entry.key, *entry.value)).collect()
        }
        SqlExpr::Function(call) => {
            let arguments = positional(call.args)?;
            let pairs = arguments.chunks_exact(2);
            if !pairs.remainder().is_empty() {
                return None;
            }
            pairs.map(|pair| (pair[0].clone(), pair[1].clone())).collect()
        }
        _ => return None,
    })
}

/// The items of `[…]` or `make_array(…)`, `None` for anything else.
fn list_items(expr: &SqlExpr) -> Option<Vec<SqlExpr>> {
    match expr {
        SqlExpr::Array(array) => Some(array.elem.clone()),
        SqlExpr::Function(call) if is_named(call, "make_array") => positional(call.args.clone()),
        _ => None,
    }
}

fn named(parts: Vec<Ident>, context: &dyn RelationPlannerContext) -> Name {
    let column = match parts.last() {
        Some(name) if name.quote_style == Some('\'') => name.value.clone(),
        Some(name) => context.normalize_ident(name.clone()),
        None => String::new(),
    };
    Name { parts, column }
}

/// The argument of a name, or an unnamed one.
fn expression(function: &str, name: &str, arg: FunctionArgExpr) -> Result<SqlExpr> {
    match arg {
        FunctionArgExpr::Expr(expr) => Ok(expr),
        _ if name.is_empty() => {
            plan_err!("{function}: * is not an input; name a table or write (SELECT …)")
        }
        _ => plan_err!("{function}: option '{name}' cannot be *"),
    }
}

/// The value of a constant expression, `None` if it is not constant.
fn fold(value: SqlExpr, context: &mut dyn RelationPlannerContext) -> Option<ScalarValue> {
    let empty = DFSchema::empty();
    let expr = context.sql_to_expr(value, &empty).ok()?;
    let simplifier = ExprSimplifier::new(SimplifyContext::default());
    let expr = simplifier.coerce(expr, &empty).ok()?;
    match simplifier.simplify(expr).ok()? {
        Expr::Literal(scalar, _) => Some(scalar),
        _ => None,
    }
}

pub(in crate::engine) fn text_value(value: &SqlValue) -> Option<String> {
    match value {
        SqlValue::SingleQuotedString(text)
        | SqlValue::DoubleQuotedString(text)
        | SqlValue::EscapedStringLiteral(text)
        | SqlValue::NationalStringLiteral(text) => Some(text.clone()),
        SqlValue::DollarQuotedString(text) => Some(text.value.clone()),
        _ => None,
    }
}

/// The unnamed arguments of a call, `None` if some are named or missing.
fn positional(args: FunctionArguments) -> Option<Vec<SqlExpr>> {
    let FunctionArguments::List(list) = args else { return None };
    let unnamed = |arg: FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    };
    list.args.into_iter().map(unnamed).collect()
}
