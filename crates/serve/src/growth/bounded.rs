//! Functions that ask for memory before they use it.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{Array, ArrayData, ArrayRef, make_array};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue, resources_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Documentation, Expr, ExpressionPlacement, LogicalPlan, Operator,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, StructFieldMapping,
    Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::utils::NamePreserver;

use super::budget::{Budget, LARGEST_CONSTANT};
use super::estimate;

/// Results below that are not counted: there are at most some hundred of them at a time.
const SMALL: usize = 64 << 10;

/// Functions that the engine recognises by their Rust type. They hand on what they are given.
const AS_THEY_ARE: [&str; 6] = ["get_field", "log", "named_struct", "power", "struct", "row"];

/// Makes all functions and `||` of a plan count what they return.
#[derive(Debug)]
pub struct BoundFunctions {
    /// What the query may use.
    pub budget: Budget,
}

impl AnalyzerRule for BoundFunctions {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let bound = plan.transform_up_with_subqueries(|plan| {
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(bound_all(expr, &self.budget)?.update_data(|expr| name.restore(expr)))
            })
        });
        Ok(bound?.data)
    }

    fn name(&self) -> &str {
        "bound_functions"
    }
}

/// The function in its wrapper.
pub fn bound(function: &Arc<ScalarUDF>, budget: &Budget) -> Arc<ScalarUDF> {
    if AS_THEY_ARE.contains(&function.name()) {
        return Arc::clone(function);
    }
    // One of the session has the budget of planning.
    let inner = function.inner().downcast_ref::<Bounded>().map_or(function, |bound| &bound.inner);
    let bounded = Bounded { inner: Arc::clone(inner), budget: budget.clone() };
    Arc::new(ScalarUDF::new_from_impl(bounded))
}

fn bound_all(expr: Expr, budget: &Budget) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if !func.inner().is::<Counted>() => {
            let func = bound(&func, budget);
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })))
        }
        Expr::BinaryExpr(BinaryExpr { op: Operator::StringConcat, .. }) => {
            let counted = ScalarUDF::new_from_impl(Counted::new(budget));
            Ok(Transformed::yes(counted.call(vec![expr])))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// A function that asks for memory before it is called.
#[derive(Debug)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    budget: Budget,
}

// All of a query have the same budget.
impl PartialEq for Bounded {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl Eq for Bounded {}

impl Hash for Bounded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl Bounded {
    /// Calls the function, on pieces of its arguments if it may return much.
    fn call(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let budget = &self.budget;
        let rows = args.number_rows;
        let most = estimate::output(self.inner.name(), &args.args, rows)?;
        let has_rows = args.args.iter().any(|arg| matches!(arg, ColumnarValue::Array(_)));
        if most <= budget.piece() || rows <= 1 || !has_rows {
            let reserved = if most > SMALL { budget.reserve(most)? } else { None };
            let inputs = args.args.clone();
            let output = self.inner.invoke_with_args(args)?;
            drop(reserved);
            return count(output, &inputs, budget);
        }
        let (head, tail) = (part(&args, 0, rows / 2), part(&args, rows / 2, rows - rows / 2));
        let head = self.call(head)?.into_array(rows / 2)?;
        let tail = self.call(tail)?.into_array(rows - rows / 2)?;
        let reserved =
            budget.reserve(head.get_array_memory_size() + tail.get_array_memory_size())?;
        let whole = concat(&[head.as_ref(), tail.as_ref()])?;
        drop((head, tail, reserved));
        count(ColumnarValue::Array(whole), &[], budget)
    }
}

/// Some of the rows of a call.
fn part(args: &ScalarFunctionArgs, from: usize, rows: usize) -> ScalarFunctionArgs {
    let slice = |arg: &ColumnarValue| match arg {
        ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(from, rows)),
        scalar @ ColumnarValue::Scalar(_) => scalar.clone(),
    };
    let parts = args.args.iter().map(slice).collect();
    ScalarFunctionArgs { args: parts, number_rows: rows, ..args.clone() }
}

/// Whether values of the type have one size, so that no function makes them grow.
fn is_fixed(data_type: &DataType) -> bool {
    data_type.is_primitive() || matches!(data_type, DataType::Boolean | DataType::Null)
}

/// What was returned, counted for as long as it lives.
fn count(
    output: ColumnarValue,
    inputs: &[ColumnarValue],
    budget: &Budget,
) -> Result<ColumnarValue> {
    match output {
        ColumnarValue::Scalar(value) if value.size() > LARGEST_CONSTANT => {
            let size = value.size();
            resources_err!(
                "an expression has a constant value of {size} bytes; at most {LARGEST_CONSTANT} are possible"
            )
        }
        ColumnarValue::Array(array) if array.get_array_memory_size() > SMALL => {
            Ok(ColumnarValue::Array(hold(&array, inputs, budget)?))
        }
        small => Ok(small),
    }
}

/// A buffer and the memory that was set aside for it.
struct Held {
    buffer: Buffer,
    _reserved: MemoryReservation,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_slice()
    }
}

/// Ties a reservation to the largest buffer that the array does not share with what it was made from.
fn hold(array: &ArrayRef, inputs: &[ColumnarValue], budget: &Budget) -> Result<ArrayRef> {
    let mut known = HashSet::new();
    for input in inputs {
        if let ColumnarValue::Array(input) = input {
            each_buffer(&input.to_data(), &mut |buffer| {
                known.insert(buffer.data_ptr());
            });
        }
    }
    let data = array.to_data();
    let (mut fresh, mut largest) = (0usize, None::<(usize, _)>);
    each_buffer(&data, &mut |buffer| {
        if known.insert(buffer.data_ptr()) {
            fresh = fresh.saturating_add(buffer.capacity());
            if largest.is_none_or(|(size, _)| buffer.len() > size) && !buffer.is_empty() {
                largest = Some((buffer.len(), buffer.data_ptr()));
            }
        }
    });
    let (Some((_, place)), true) = (largest, fresh > SMALL) else { return Ok(Arc::clone(array)) };
    let Some(reserved) = budget.reserve(fresh)? else { return Ok(Arc::clone(array)) };
    let mut reserved = Some(reserved);
    let held = with_buffer(data, &mut |buffer| {
        if buffer.data_ptr() == place
            && let Some(reserved) = reserved.take()
        {
            return Buffer::from(Bytes::from_owner(Held { buffer, _reserved: reserved }));
        }
        buffer
    })?;
    Ok(make_array(held))
}

fn each_buffer(data: &ArrayData, seen: &mut impl FnMut(&Buffer)) {
    data.buffers().iter().for_each(&mut *seen);
    for child in data.child_data() {
        each_buffer(child, seen);
    }
}

fn with_buffer(data: ArrayData, replace: &mut impl FnMut(Buffer) -> Buffer) -> Result<ArrayData> {
    let buffers = data.buffers().iter().cloned().map(&mut *replace).collect();
    let mut children = Vec::with_capacity(data.child_data().len());
    for child in data.child_data() {
        children.push(with_buffer(child.clone(), replace)?);
    }
    Ok(data.into_builder().buffers(buffers).child_data(children).build()?)
}

impl ScalarUDFImpl for Bounded {
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if is_fixed(args.return_type()) {
            return self.inner.invoke_with_args(args);
        }
        self.call(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // What it becomes must not leave the wrapper.
        Ok(match self.inner.simplify(args, info)? {
            ExprSimplifyResult::Simplified(expr) => {
                ExprSimplifyResult::Simplified(bound_all(expr, &self.budget)?.data)
            }
            original => original,
        })
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = self.inner.inner().with_updated_config(config)?;
        Some(ScalarUDF::new_from_impl(Self { inner: Arc::new(inner), budget: self.budget.clone() }))
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn preimage(
        &self,
        args: &[Expr],
        literal: &Expr,
        info: &SimplifyContext,
    ) -> Result<PreimageResult> {
        self.inner.preimage(args, literal, info)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn conditional_arguments<'a>(
        &self,
        args: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn evaluate_bounds(&self, input: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(input)
    }

    fn propagate_constraints(
        &self,
        interval: &Interval,
        inputs: &[&Interval],
    ) -> Result<Option<Vec<Interval>>> {
        self.inner.propagate_constraints(interval, inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.inner().strictly_order_preserving(inputs)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn struct_field_mapping(
        &self,
        literal_args: &[Option<ScalarValue>],
    ) -> Option<StructFieldMapping> {
        self.inner.inner().struct_field_mapping(literal_args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.inner().placement(args)
    }
}

/// Counts what an operator made; `||` is not a function, so it cannot be wrapped. It makes no more of its
/// operands than there is of them, so afterwards is early enough.
#[derive(Debug)]
struct Counted {
    signature: Signature,
    budget: Budget,
}

impl Counted {
    fn new(budget: &Budget) -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable), budget: budget.clone() }
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        self.signature == other.signature
    }
}

impl Eq for Counted {}

impl Hash for Counted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.signature.hash(state);
    }
}

impl ScalarUDFImpl for Counted {
    fn name(&self) -> &str {
        "counted"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = args.args.pop().unwrap_or(ColumnarValue::Scalar(ScalarValue::Null));
        count(value, &[], &self.budget)
    }
}
