//! Who is in which cohort, as tables of a session: verified before anything reads them.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::TableReference;
use datafusion::datasource::TableProvider;
use datafusion::datasource::empty::EmptyTable;
use datafusion::datasource::file_format::format_as_file_type;
use datafusion::datasource::file_format::parquet::{ParquetFormat, ParquetFormatFactory};
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::prelude::{DataFrame, SessionContext};
use futures::{StreamExt, TryStreamExt, stream};

use super::folder::Folder;
use super::state::Segment;
use crate::error::{Error, Result};

/// Segments whose checksums are computed at once.
const AT_ONCE: usize = 4;

/// A person by a keyed hash, and the cohort.
pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("person", DataType::FixedSizeBinary(16), true),
        Field::new("cohort", DataType::Int64, true),
    ]))
}

/// Whether all segments are there as they were written.
pub(super) async fn verify(folder: &Folder, segments: &[Segment]) -> Result<()> {
    let checks = stream::iter(segments.iter().map(|segment| verify_one(folder, segment)));
    checks.buffer_unordered(AT_ONCE).try_collect::<()>().await
}

async fn verify_one(folder: &Folder, segment: &Segment) -> Result<()> {
    let Segment { file, bytes, sha256, .. } = segment;
    let place = folder.shown();
    let broken = match folder.digest(file).await? {
        Some((found, sum)) if found == *bytes && sum == *sha256 => return Ok(()),
        Some(_) => "is not what was written",
        None => "is missing",
    };
    Err(Error::Failed(format!(
        "the state of the series at '{place}' is broken: '{file}' {broken}. Bring the folder back as it was after the \
         last run; without it people would be grouped anew, and releases could be compared"
    )))
}

/// Makes segments a table of the session.
pub(super) fn register(
    context: &SessionContext,
    name: &str,
    folder: &Folder,
    segments: &[Segment],
) -> Result<()> {
    let failed = |error| Error::query("the state of the series", error);
    let table: Arc<dyn TableProvider> = if segments.is_empty() {
        Arc::new(EmptyTable::new(schema()))
    } else {
        let urls = segments.iter().map(|segment| ListingTableUrl::parse(folder.url(&segment.file)));
        let urls: Vec<_> = urls.collect::<Result<_, _>>().map_err(failed)?;
        let format = Arc::new(ParquetFormat::default());
        let options = ListingOptions::new(format).with_file_extension(".parquet");
        let config = ListingTableConfig::new_with_multi_paths(urls)
            .with_listing_options(options)
            .with_schema(schema());
        Arc::new(ListingTable::try_new(config).map_err(failed)?)
    };
    context.register_table(TableReference::bare(name), table).map_err(failed)?;
    Ok(())
}

/// Writes rows as a segment. None if there are none.
pub(super) async fn write(folder: &Folder, file: &str, rows: DataFrame) -> Result<Option<Segment>> {
    let failed = |error| Error::query("writing the state of the series", error);
    let (state, input) = rows.into_parts();
    let plan = LogicalPlanBuilder::copy_to(
        input,
        folder.url(file),
        format_as_file_type(Arc::new(ParquetFormatFactory::new())),
        Default::default(),
        Vec::new(),
    );
    let plan = plan.and_then(LogicalPlanBuilder::build).map_err(failed)?;
    let counted = DataFrame::new(state, plan).collect().await.map_err(failed)?;
    let rows = crate::write::rows_in(&counted);
    if rows == 0 {
        folder.remove(file).await?;
        return Ok(None);
    }
    folder.settle(file)?;
    match folder.digest(file).await? {
        Some((bytes, sha256)) => Ok(Some(Segment { file: file.to_owned(), rows, bytes, sha256 })),
        None => Err(Error::Failed(format!(
            "the state of the series: '{file}' was written to '{}' and is not there",
            folder.shown()
        ))),
    }
}
