//! Making a release through SQL and reading it back row by row.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, UInt64Type};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_anonymize::{Family, MethodOption, MethodRef};

use crate::invariants::covers::Cell;
use crate::invariants::people::{Person, QUASI_IDENTIFIERS};
use crate::invariants::wait;
use crate::texts;

/// Every method that makes classes under one requirement.
pub fn methods() -> impl Iterator<Item = &'static str> {
    methods_of(Family::Classes).map(|method| method.name())
}

pub fn methods_of(family: Family) -> impl Iterator<Item = MethodRef> {
    datafusion_anonymize::methods().filter(move |method| method.family() == family)
}

pub fn registered(method: &str) -> MethodRef {
    method.parse().unwrap()
}

pub fn takes(method: &str, option: MethodOption) -> bool {
    registered(method).takes(option)
}

pub const SPLITS: [&str; 2] = ["least_loss", "widest"];
/// As printed; nothing else is asked for then.
pub const PAPER: &str = ", variant => 'paper'";
pub const RANGES: [&str; 3] = ["label", "bounds", "mean"];

/// One of every kind. The values of a `grade` node do not lie side by side.
pub const HIERARCHIES: &str = "hierarchies => {
    age: intervals(5, 10, 20), weight: intervals(2.5, 5), price: intervals(1, 10),
    born: date_steps('month', 'year', 'decade'), seen: date_steps('day', 'month'), zip: prefixes(3, 2),
    grade: (SELECT value, 'mod ' || (value % 4), CASE WHEN value % 2 = 0 THEN 'even' ELSE 'odd' END, '*'
            FROM generate_series(0, 63))}";

/// What is asked of `anonymize`, apart from the roles.
#[derive(Debug, Clone)]
pub struct Request {
    pub k: usize,
    pub method: &'static str,
    pub split: &'static str,
    pub ranges: &'static str,
    pub hierarchies: bool,
    /// More options, as in `", l => 2"`.
    pub more: &'static str,
}

impl Request {
    pub fn new(k: usize) -> Self {
        let (method, split, ranges) = ("rounded", SPLITS[0], RANGES[0]);
        Self { k, method, split, ranges, hierarchies: false, more: "" }
    }

    /// The same request for every method, split and kind of range, and as printed for every method that a paper prints.
    pub fn all(k: usize, hierarchies: bool) -> Vec<Self> {
        let mut all = Vec::new();
        for method in methods() {
            let cuts = takes(method, MethodOption::Split);
            let splits = if cuts { &SPLITS[..] } else { &SPLITS[..1] };
            for split in splits {
                for ranges in RANGES {
                    all.push(Self { method, split, ranges, hierarchies, ..Self::new(k) });
                }
            }
            if takes(method, MethodOption::Paper) {
                all.push(Self { method, hierarchies, more: PAPER, ..Self::new(k) });
            }
        }
        all
    }

    /// Whether the method publishes this person: some leave out those with a missing cell.
    pub fn publishes(&self, person: &Person) -> bool {
        !registered(self.method).drops_incomplete_rows() || person.cells.iter().all(Option::is_some)
    }

    /// `anonymize(people, …)`
    pub fn call(&self) -> String {
        let quoted = QUASI_IDENTIFIERS.map(|name| format!("'{name}'")).join(", ");
        let hierarchies = if self.hierarchies { format!(", {HIERARCHIES}") } else { String::new() };
        let Self { k, method, split, ranges, more, .. } = self;
        let of_method = match takes(method, MethodOption::Split) {
            // Its own.
            true if *more == PAPER => String::new(),
            true => format!(", split => '{split}'"),
            false => {
                let drops = registered(method).drops_incomplete_rows();
                format!(", suppression_limit => {}", u8::from(drops))
            }
        };
        format!(
            "anonymize(people, k => {k}, quasi_identifiers => [{quoted}], sensitive => ['disease'],
               keep => ['note', 'id'], method => '{method}'{of_method}, ranges => '{ranges}',
               class_id => true, seed => 'a secret'{hierarchies}{more})"
        )
    }
}

/// A session in which `people` has these partitions.
pub fn session(
    partitions: Vec<Vec<RecordBatch>>,
    threads: usize,
    batch_size: usize,
) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(threads).with_batch_size(batch_size);
    let context = crate::session(config);
    let schema = partitions.iter().flatten().next().unwrap().schema();
    let table = MemTable::try_new(schema, partitions).unwrap();
    context.register_table("people", Arc::new(table)).unwrap();
    context
}

/// The rows of a query, every one written out.
pub async fn rows(context: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let batches = context.sql(sql).await?.collect().await?;
    Ok(texts(&batches, "NULL").into_iter().map(|cells| cells.join(" | ")).collect())
}

/// Both sessions give the same rows, or refuse in the same words.
pub fn check_same(one: &SessionContext, other: &SessionContext, sql: &str) {
    match (wait(rows(one, sql)), wait(rows(other, sql))) {
        (Ok(one), Ok(other)) => assert_eq!(one, other),
        (one, other) => {
            let (one, other) = (one.unwrap_err(), other.unwrap_err());
            assert_eq!(one.strip_backtrace(), other.strip_backtrace());
        }
    }
}

/// A published row: the cells of the quasi-identifiers, and what is published as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    pub class: u64,
    pub id: usize,
    pub disease: Option<String>,
    pub note: i64,
    pub cells: Vec<Cell>,
}

/// The whole release, in the order in which it leaves.
pub async fn published(context: &SessionContext, request: &Request) -> Result<Vec<Published>> {
    published_by(context, &request.call()).await
}

/// The whole release of a call.
pub async fn published_by(context: &SessionContext, call: &str) -> Result<Vec<Published>> {
    let batches = context.sql(&format!("SELECT * FROM {call}")).await?.collect().await?;
    Ok(batches.iter().flat_map(published_batch).collect())
}

fn published_batch(batch: &RecordBatch) -> Vec<Published> {
    let column = |name: &str| batch.column_by_name(name).unwrap();
    let (class, id) = (column("class_id").as_primitive::<UInt64Type>(), column("id"));
    let id = id.as_primitive::<Int64Type>();
    let note = cast(column("note"), &DataType::Int64).unwrap();
    let note = note.as_primitive::<Int64Type>();
    let disease = column("disease").as_string::<i32>();
    let cells: Vec<Vec<Cell>> =
        QUASI_IDENTIFIERS.iter().map(|name| column_cells(column(name))).collect();
    let row = |row: usize| Published {
        class: class.value(row),
        id: id.value(row) as usize,
        disease: (!disease.is_null(row)).then(|| disease.value(row).to_owned()),
        note: note.value(row),
        cells: cells.iter().map(|column| column[row].clone()).collect(),
    };
    (0..batch.num_rows()).map(row).collect()
}

fn column_cells(column: &ArrayRef) -> Vec<Cell> {
    let cells: Vec<Option<Cell>> = match column.data_type() {
        DataType::Dictionary(..) => {
            let texts = cast(column, &DataType::Utf8).unwrap();
            let label = |text: Option<&str>| text.map(|text| Cell::Label(text.to_owned()));
            texts.as_string::<i32>().iter().map(label).collect()
        }
        DataType::Struct(_) => {
            let ends = |name| numbers(column.as_struct().column_by_name(name).unwrap());
            let bounds = ends("lower").into_iter().zip(ends("upper"));
            bounds.map(|(lower, upper)| Some(Cell::Bounds(lower?, upper?))).collect()
        }
        _ => numbers(column).into_iter().map(|number| number.map(Cell::Mean)).collect(),
    };
    let cell = |(row, cell): (usize, Option<Cell>)| match column.is_null(row) {
        true => Cell::Missing,
        false => cell.unwrap(),
    };
    cells.into_iter().enumerate().map(cell).collect()
}

/// Numbers, days or seconds.
fn numbers(column: &ArrayRef) -> Vec<Option<f64>> {
    let integers = match column.data_type() {
        DataType::Date32 => cast(column, &DataType::Int32).unwrap(),
        DataType::Timestamp(..) => cast(column, &DataType::Int64).unwrap(),
        _ => Arc::clone(column),
    };
    let unit = if matches!(column.data_type(), DataType::Timestamp(..)) { 1e6 } else { 1.0 };
    let numbers = cast(&integers, &DataType::Float64).unwrap();
    numbers.as_primitive::<Float64Type>().iter().map(|number| Some(number? / unit)).collect()
}
