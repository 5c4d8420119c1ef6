//! CSV files: what they do not tell, and what must not be guessed.
//!
//! Cells are read by their position, so every file must have the columns of the first in the same order:
//! otherwise one column would be published as another. And a code such as 02139 is no number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::csv::reader::Format;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::listing::{ListingTable, ListingTableConfig};
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use crate::error::{Error, Result};
use crate::job::ColumnType;
use crate::sql::identifier;

/// How many files are asked for their first line at once.
const AT_ONCE: usize = 16;

/// Whether all files have the same columns in the same order. No cell is quoted: the first line of a file
/// without a header is somebody's.
pub(crate) async fn check_headers(
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
    delimiter: u8,
    what: &str,
) -> Result<()> {
    let mut files: Vec<&ObjectMeta> = files.iter().filter(|file| file.size > 0).collect();
    files.sort_by(|one, other| one.location.cmp(&other.location));
    let headers = stream::iter(files.iter().map(|file| header(store, file, delimiter, what)));
    let headers: Vec<Vec<String>> = headers.buffered(AT_ONCE).try_collect().await?;
    let Some((first, others)) = headers.split_first() else { return Ok(()) };
    match others.iter().position(|other| other != first) {
        None => Ok(()),
        Some(at) => Err(Error::Failed(format!(
            "{what}: file {} of {} in the order of their names does not have the columns of the first in the \
             same order, and CSV is read by position: write the same header line into every file, or make the \
             files inputs of their own and put them together in query with UNION ALL BY NAME",
            at + 2,
            headers.len()
        ))),
    }
}

async fn header(
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
    delimiter: u8,
    what: &str,
) -> Result<Vec<String>> {
    const AT_FIRST: u64 = 16 * 1024;
    let failed = || Error::Failed(format!("{what}: the header of a CSV file cannot be read"));
    let mut wanted = AT_FIRST;
    loop {
        let range = 0..wanted.min(file.size);
        let bytes = store.get_range(&file.location, range).await.map_err(|_| failed())?;
        if wanted < file.size && !holds_a_record(&bytes) {
            wanted *= 8;
            continue;
        }
        let format = Format::default().with_header(true).with_delimiter(delimiter);
        let (schema, _) = format.infer_schema(bytes.as_ref(), Some(0)).map_err(|_| failed())?;
        return Ok(schema.fields().iter().map(|field| field.name().clone()).collect());
    }
}

/// Whether a line ends here outside of quotes.
fn holds_a_record(bytes: &[u8]) -> bool {
    let mut quoted = false;
    bytes.iter().any(|byte| {
        quoted ^= *byte == b'"';
        !quoted && *byte == b'\n'
    })
}

/// The columns with the types that the job names, and as texts where numbers would lose leading zeros.
pub(crate) async fn columns(
    context: &SessionContext,
    config: &ListingTableConfig,
    types: &BTreeMap<String, ColumnType>,
    what: &str,
) -> Result<Option<SchemaRef>> {
    let Some(inferred) = &config.file_schema else { return Ok(None) };
    if let Some(name) = types.keys().find(|name| inferred.field_with_name(name).is_err()) {
        let names: Vec<&str> =
            inferred.fields().iter().map(|field| field.name().as_str()).collect();
        return Err(Error::job(format!(
            "{what}: types names '{name}', which is no column of the files; the columns are {}",
            names.join(", ")
        )));
    }
    let guessed = inferred.fields().iter();
    let guessed = guessed.filter(|field| field.data_type().is_numeric());
    let guessed: Vec<&str> = guessed
        .map(|field| field.name().as_str())
        .filter(|name| !types.contains_key(*name))
        .collect();
    let as_texts = retyped(inferred, |field| {
        guessed.contains(&field.name().as_str()).then_some(DataType::Utf8)
    });
    let codes = codes(context, config.clone().with_schema(as_texts), &guessed, what).await?;
    Ok(Some(retyped(inferred, |field| match types.get(field.name()) {
        Some(named) => Some(named.data_type()),
        None => codes.contains(field.name().as_str()).then_some(DataType::Utf8),
    })))
}

fn retyped(schema: &Schema, of: impl Fn(&Field) -> Option<DataType>) -> SchemaRef {
    let field = |field: &Arc<Field>| match of(field) {
        Some(data_type) => Field::new(field.name(), data_type, true),
        None => field.as_ref().clone(),
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// The columns that have a value such as 02139. All rows are asked: the first one may be far down.
async fn codes<'a>(
    context: &SessionContext,
    config: ListingTableConfig,
    columns: &[&'a str],
    what: &str,
) -> Result<BTreeSet<&'a str>> {
    const TEXTS: &str = "__texts";
    if columns.is_empty() {
        return Ok(BTreeSet::new());
    }
    let failed = |error| Error::query(what, error);
    let table = Arc::new(ListingTable::try_new(config).map_err(failed)?);
    context.register_table(TEXTS, table).map_err(failed)?;
    let asked: Vec<String> = (0..columns.len())
        .map(|at| format!("bool_or({} ~ '^-?0[0-9]') AS c{at}", identifier(columns[at])))
        .collect();
    let query = format!("SELECT {} FROM {}", asked.join(", "), identifier(TEXTS));
    let found = async { context.sql(&query).await?.collect().await }.await;
    context.deregister_table(TEXTS).map_err(failed)?;
    let mut codes = BTreeSet::new();
    for batch in found.map_err(failed)? {
        for (name, found) in columns.iter().zip(batch.columns()) {
            let found = found.as_boolean();
            if (0..found.len()).any(|row| found.is_valid(row) && found.value(row)) {
                codes.insert(*name);
            }
        }
    }
    Ok(codes)
}
