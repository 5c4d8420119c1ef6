//! Serde for types that do not implement it.

use datafusion::common::{Column, TableReference};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct WireColumn {
    /// Catalog, schema, table; the last ones that there are.
    relation: Vec<String>,
    name: String,
}

impl From<&Column> for WireColumn {
    fn from(column: &Column) -> Self {
        let relation =
            column.relation.iter().flat_map(|of| [of.catalog(), of.schema(), Some(of.table())]);
        Self {
            relation: relation.flatten().map(str::to_owned).collect(),
            name: column.name.clone(),
        }
    }
}

impl From<WireColumn> for Column {
    fn from(WireColumn { relation, name }: WireColumn) -> Self {
        let relation = match <[String; 3]>::try_from(relation) {
            Ok([catalog, schema, table]) => Some(TableReference::full(catalog, schema, table)),
            Err(shorter) => match <[String; 2]>::try_from(shorter) {
                Ok([schema, table]) => Some(TableReference::partial(schema, table)),
                Err(shorter) => shorter.into_iter().next().map(TableReference::bare),
            },
        };
        Column::new(relation, name)
    }
}

pub(crate) mod column {
    use super::*;

    pub(crate) fn serialize<S: serde::Serializer>(
        column: &Column,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        WireColumn::from(column).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Column, D::Error> {
        WireColumn::deserialize(deserializer).map(Column::from)
    }
}

pub(crate) mod columns {
    use super::*;

    pub(crate) fn serialize<S: serde::Serializer>(
        columns: &[Column],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(columns.iter().map(WireColumn::from))
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Column>, D::Error> {
        let columns = Vec::<WireColumn>::deserialize(deserializer)?;
        Ok(columns.into_iter().map(Column::from).collect())
    }
}

pub(crate) mod maybe_column {
    use super::*;

    pub(crate) fn serialize<S: serde::Serializer>(
        column: &Option<Column>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        column.as_ref().map(WireColumn::from).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Column>, D::Error> {
        Ok(Option::<WireColumn>::deserialize(deserializer)?.map(Column::from))
    }
}

/// A schema in Arrow's own format.
pub(crate) mod schema {
    use datafusion::arrow::array::RecordBatch;
    use datafusion::arrow::datatypes::SchemaRef;
    use serde::de::Error as _;
    use serde::ser::Error as _;

    use super::*;
    use crate::columnar::{of_bytes, to_bytes};

    pub(crate) fn serialize<S: serde::Serializer>(
        schema: &SchemaRef,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let empty = RecordBatch::new_empty(SchemaRef::clone(schema));
        to_bytes(&empty).map_err(S::Error::custom)?.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<SchemaRef, D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        Ok(of_bytes(&bytes).map_err(D::Error::custom)?.schema())
    }
}
