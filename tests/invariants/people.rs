//! Generated tables: one quasi-identifier of every kind, missing values and many ties.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array,
    Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray,
};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::arrow::datatypes::{Int32Type, Schema};
use datafusion::arrow::{array::UInt32Array, util::display::ArrayFormatter};
use proptest::prelude::*;

/// The quasi-identifiers, in the order of the table.
pub const QUASI_IDENTIFIERS: [&str; 9] =
    ["age", "weight", "price", "born", "seen", "member", "town", "zip", "grade"];

/// Every value as a small number, `None` for missing; columns as in [`QUASI_IDENTIFIERS`].
#[derive(Debug, Clone)]
pub struct Person {
    pub cells: [Option<u16>; 9],
    pub disease: Option<u16>,
    pub note: u16,
}

/// People over domains of the given size: 1 makes all rows equal, 2 and 3 make heavy ties.
fn person(domain: u16, missing: f64) -> impl Strategy<Value = Person> {
    let cell = move || match missing > 0.0 {
        true => proptest::option::weighted(1.0 - missing, 0..domain).boxed(),
        false => (0..domain).prop_map(Some).boxed(),
    };
    (proptest::array::uniform9(cell()), proptest::option::weighted(0.9, 0u16..4), 0u16..5)
        .prop_map(|(cells, disease, note)| Person { cells, disease, note })
}

/// From tables without a missing cell to tables in which most rows miss most of them.
fn missing_shares() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(0.02), Just(0.1), 0.0..0.6]
}

/// Tables of 2 to 90 people.
pub fn people() -> impl Strategy<Value = Vec<Person>> {
    let domain = prop_oneof![Just(1u16), Just(3), Just(8), Just(60)];
    (domain, missing_shares()).prop_flat_map(|(domain, missing)| {
        proptest::collection::vec(person(domain, missing), 2..90)
    })
}

/// People, and another order of them.
pub fn people_and_order() -> impl Strategy<Value = (Vec<Person>, Vec<u32>)> {
    people().prop_flat_map(|people| {
        let order: Vec<u32> = (0..people.len() as u32).collect();
        (Just(people), Just(order).prop_shuffle())
    })
}

/// The table of some people; `id` is the number of the row.
pub fn batch(people: &[Person]) -> RecordBatch {
    let cells = |column: usize| people.iter().map(move |person| person.cells[column]);
    let number = |column: usize| cells(column).map(|cell| cell.map(i64::from));
    let text = |column: usize, letter: &'static str| {
        cells(column).map(move |cell| cell.map(|cell| format!("{letter}{cell:03}")))
    };
    let age: Int32Array = number(0).map(|cell| cell.map(|cell| cell as i32 - 5)).collect();
    let weight: Float64Array =
        number(1).map(|cell| cell.map(|cell| cell as f64 * 0.7 - 3.0)).collect();
    let price: Decimal128Array =
        number(2).map(|cell| cell.map(|cell| i128::from(cell) * 125)).collect();
    let born: Date32Array = number(3).map(|cell| cell.map(|cell| cell as i32 * 40 - 90)).collect();
    let seen: TimestampMicrosecondArray =
        number(4).map(|cell| cell.map(|cell| cell * 7_200_000_000)).collect();
    let member: BooleanArray = number(5).map(|cell| cell.map(|cell| cell % 2 == 1)).collect();
    let town: DictionaryArray<Int32Type> = {
        let names: Vec<Option<String>> = text(6, "t").collect();
        names.iter().map(Option::as_deref).collect()
    };
    let zip: StringViewArray = text(7, "0").collect();
    let grade: Int64Array = number(8).collect();
    let disease: StringArray =
        people.iter().map(|person| person.disease.map(|disease| format!("d{disease}"))).collect();
    let note: Int32Array = people.iter().map(|person| Some(i32::from(person.note))).collect();
    let id: Int64Array = (0..people.len() as i64).map(Some).collect();
    let columns: [(&str, ArrayRef); 12] = [
        ("age", Arc::new(age)),
        ("weight", Arc::new(weight)),
        ("price", Arc::new(price.with_precision_and_scale(8, 2).unwrap())),
        ("born", Arc::new(born)),
        ("seen", Arc::new(seen.with_timezone("UTC"))),
        ("member", Arc::new(member)),
        ("town", Arc::new(town)),
        ("zip", Arc::new(zip)),
        ("grade", Arc::new(grade)),
        ("disease", Arc::new(disease)),
        ("note", Arc::new(note)),
        ("id", Arc::new(id)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .unwrap()
}

/// The same rows in another order, cut into partitions and batches.
pub fn dealt(
    batch: &RecordBatch,
    order: &[u32],
    partitions: usize,
    rows: usize,
) -> Vec<Vec<RecordBatch>> {
    let shuffled = take_record_batch(batch, &UInt32Array::from(order.to_vec())).unwrap();
    let mut dealt = vec![Vec::new(); partitions];
    for (turn, start) in (0..shuffled.num_rows()).step_by(rows.max(1)).enumerate() {
        let length = rows.max(1).min(shuffled.num_rows() - start);
        // Copied, so that no batch shares a dictionary or a buffer with another.
        let part = shuffled.slice(start, length);
        let part = concat_batches(&part.schema(), [&part]).unwrap();
        dealt[turn % partitions].push(part);
    }
    dealt
}

/// An original cell: how it is written and where it stands on the line of its column.
#[derive(Debug, Clone, PartialEq)]
pub struct Original {
    pub written: Option<String>,
    pub number: Option<f64>,
}

/// All quasi-identifier cells of the table, by column and `id`.
pub fn originals(people: &[Person]) -> Vec<Vec<Original>> {
    let batch = batch(people);
    let schema: Arc<Schema> = batch.schema();
    let original = |column: &str, row: usize| {
        let array = batch.column(schema.index_of(column).unwrap());
        let formatter = ArrayFormatter::try_new(array, &Default::default()).unwrap();
        let written = (!array.is_null(row)).then(|| formatter.value(row).to_string());
        let cell =
            people[row].cells[QUASI_IDENTIFIERS.iter().position(|name| *name == column).unwrap()];
        let number = cell.map(|cell| match column {
            "age" => f64::from(cell) - 5.0,
            "weight" => f64::from(cell) * 0.7 - 3.0,
            "price" => f64::from(cell) * 1.25,
            "born" => f64::from(cell) * 40.0 - 90.0,
            "seen" => f64::from(cell) * 7200.0,
            _ => f64::from(cell),
        });
        Original { written, number }
    };
    let column = |column: &&str| (0..people.len()).map(|row| original(column, row)).collect();
    QUASI_IDENTIFIERS.iter().map(column).collect()
}
