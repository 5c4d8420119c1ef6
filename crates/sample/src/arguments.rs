//! Named arguments of the functions, with the messages of `anonymize` for mistakes in them.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::utils::datafusion_strsim::levenshtein;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr as SqlExpr, FunctionArg, FunctionArgExpr,
};

/// What to write for an option.
#[derive(Clone, Copy)]
struct Wanted {
    value: &'static str,
    example: &'static str,
}

/// The arguments of one call.
pub(super) struct Arguments {
    function: &'static str,
    /// In order.
    pub(super) unnamed: Vec<SqlExpr>,
    named: Vec<(String, SqlExpr)>,
}

impl Arguments {
    /// Sorts the arguments of a call and refuses options that the function does not have.
    pub(super) fn new(
        function: &'static str,
        args: Vec<FunctionArg>,
        known: &[&str],
    ) -> Result<Self> {
        let mut arguments = Self { function, unnamed: Vec::new(), named: Vec::new() };
        for arg in args {
            let (name, value) = match arg {
                FunctionArg::Unnamed(value) => (None, value),
                FunctionArg::Named { name, arg, .. } => (Some(name.value.to_lowercase()), arg),
                FunctionArg::ExprNamed { name, arg, .. } => {
                    (Some(name.to_string().to_lowercase()), arg)
                }
            };
            match (name, value) {
                (None, FunctionArgExpr::Expr(value)) => arguments.add_unnamed(value)?,
                (Some(name), FunctionArgExpr::Expr(value)) => {
                    arguments.add_option(name, value, known)?;
                }
                (None, _) => {
                    return plan_err!(
                        "{function}: * is not an input; name a table or write (SELECT …)"
                    );
                }
                (Some(name), _) => return plan_err!("{function}: option '{name}' cannot be *"),
            }
        }
        Ok(arguments)
    }

    fn add_unnamed(&mut self, value: SqlExpr) -> Result<()> {
        let function = self.function;
        // `rows = 5` is a comparison to the parser.
        if let SqlExpr::BinaryOp { left, op: BinaryOperator::Eq, .. } = &value {
            // Only a name is repeated: a value could be a secret.
            let name = match left.as_ref() {
                SqlExpr::Identifier(name) => name.to_string(),
                _ => "name".to_owned(),
            };
            return plan_err!("{function}: write {name} => … instead of {name} = …");
        }
        if !self.named.is_empty() {
            return plan_err!(
                "{function}: an argument without a name follows a named one; options are written name => value"
            );
        }
        self.unnamed.push(value);
        Ok(())
    }

    fn add_option(&mut self, name: String, value: SqlExpr, known: &[&str]) -> Result<()> {
        let function = self.function;
        if !known.contains(&name.as_str()) {
            let near =
                |option: &&&str| levenshtein(&name, option) * 3 <= name.len().max(option.len());
            let best = known.iter().min_by_key(|option| levenshtein(&name, option)).filter(near);
            let hint = best.map(|best| format!("did you mean '{best}'? ")).unwrap_or_default();
            return plan_err!(
                "{function}: there is no option '{name}'; {hint}the options are {}",
                known.join(", ")
            );
        }
        if self.named.iter().any(|(given, _)| *given == name) {
            return plan_err!("{function}: option '{name}' is given twice");
        }
        self.named.push((name, value));
        Ok(())
    }

    pub(super) fn whole_number(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Option<i64>> {
        self.read(name, Wanted { value: "a whole number", example: "10" }, context, |value| {
            match value.cast_to(&DataType::Int64) {
                Ok(ScalarValue::Int64(number)) if value.data_type().is_integer() => number,
                _ => None,
            }
        })
    }

    pub(super) fn number(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Option<f64>> {
        self.read(name, Wanted { value: "a number", example: "0.2" }, context, |value| match value
            .cast_to(&DataType::Float64)
        {
            Ok(ScalarValue::Float64(number)) if value.data_type().is_numeric() => {
                number.filter(|number| number.is_finite())
            }
            _ => None,
        })
    }

    pub(super) fn text(
        &mut self,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Option<String>> {
        self.read(name, Wanted { value: "a text", example: "'…'" }, context, |value| {
            value.try_as_str().flatten().map(str::to_owned)
        })
    }

    /// The value of an option, `None` if it is left out.
    fn read<T>(
        &mut self,
        name: &str,
        wanted: Wanted,
        context: &mut dyn RelationPlannerContext,
        of: impl Fn(&ScalarValue) -> Option<T>,
    ) -> Result<Option<T>> {
        let function = self.function;
        let Some(at) = self.named.iter().position(|(given, _)| given == name) else {
            return Ok(None);
        };
        let (_, value) = self.named.swap_remove(at);
        let wanted = format!("{}, as in {name} => {}", wanted.value, wanted.example);
        let is_list = matches!(value, SqlExpr::Array(_) | SqlExpr::Dictionary(_) | SqlExpr::Map(_));
        match fold(value, context) {
            Some(value) if value.is_null() => {
                plan_err!("{function}: option '{name}' is NULL: leave it out, or write {wanted}")
            }
            None if !is_list => {
                plan_err!("{function}: option '{name}' must be a constant, {wanted}")
            }
            value => match value.as_ref().and_then(of) {
                Some(read) => Ok(Some(read)),
                None => plan_err!("{function}: option '{name}' must be {wanted}"),
            },
        }
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
