//! Reading a release: its manifest and its tables.

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::prelude::SessionContext;

use crate::checksum;
use crate::error::{Error, Result};
use crate::manifest::{Manifest, Table};
use crate::place::Place;
use crate::verify::{Stored, register};

/// The current release of an output, if there is one: a directory or an object-store URL.
pub async fn current(host: &SessionContext, output: &str) -> Result<Option<Manifest>> {
    let place = Place::new(&host.runtime_env(), output)?;
    Ok(place.find().await?.manifest)
}

/// Reads all files of a release and compares them with its manifest: an error if one is missing, more than
/// there should be, or not the one that was verified.
pub async fn check_files(host: &SessionContext, output: &str, manifest: &Manifest) -> Result<()> {
    let place = Place::new(&host.runtime_env(), output)?;
    for table in &manifest.tables {
        let url = place.url(&table.location);
        let found = checksum::files(&host.runtime_env(), &url, &table.location).await?;
        if found != table.files {
            return Err(Error::Failed(format!(
                "the files of table '{}' are not those that were verified",
                table.name
            )));
        }
    }
    Ok(())
}

/// Makes a table of a release (`published`, or `quasi_identifiers` and `sensitive`) known to a session as
/// `name`, with the columns that the manifest tells.
///
/// The files are those of this release, also when a newer one is published meanwhile, for as long as it
/// is kept.
pub async fn register_release(
    context: &SessionContext,
    output: &str,
    table: &Table,
    name: &str,
) -> Result<()> {
    let place = Place::new(&context.runtime_env(), output)?;
    let mut fields = Vec::with_capacity(table.schema.len());
    for column in &table.schema {
        let data_type: DataType = column.r#type.parse().map_err(|_| {
            Error::Failed(format!("the manifest has a type that is not known: {}", column.r#type))
        })?;
        fields.push(Field::new(&column.name, data_type, column.nullable));
    }
    let stored = Stored {
        url: &place.url(&table.location),
        format: table.format,
        partitioned_by: &table.partitioned_by,
        schema: &Schema::new(fields),
    };
    register(context, name, &stored).await
}
