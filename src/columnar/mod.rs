//! Between Arrow arrays and the coded rows of the methods.
//!
//! This is the only place where Arrow types are matched:
//!
//! 1. [`Reader`] takes batches as they come, turns the quasi-identifiers into provisional codes and
//!    keeps the published columns as they are;
//! 2. [`CodedTable`] merges the readers, orders every domain and writes the rows of final codes;
//! 3. [`Publisher`] turns classes back into batches;
//! 4. [`PublishedColumn`] reads a published column back and tells what its cells lost.

mod automatic;
#[cfg(feature = "cells")]
mod cell_plan;
#[cfg(feature = "cells")]
mod cells;
mod coded;
mod cohorts;
mod column_groups;
mod domain;
mod intern;
mod kind;
mod last;
#[cfg(feature = "cells")]
mod leaf_counts;
mod levels;
mod live;
mod lossless;
#[cfg(feature = "cells")]
mod pages;
mod payload;
mod payload_code;
mod person;
mod publish;
mod published;
mod qi_column;
mod ranks;
mod read;
mod row_hash;
mod runs;
#[cfg(feature = "cells")]
mod sketch;
mod table;
mod values;

pub use automatic::Automatic;
#[cfg(feature = "cells")]
pub(crate) use cell_plan::CellPlan;
#[cfg(feature = "cells")]
pub(crate) use cells::{GlobalCodes, Survey, TableHeader};
pub use coded::{ChunkParts, CodedChunk};
pub use cohorts::{Cohorts, MemberColumns};
pub use column_groups::ColumnGroups;
pub use domain::{Domain, ResolvedHierarchy};
pub use kind::Kind;
pub(crate) use last::LastFiles;
pub use last::{LastBuilder, LastLayout, LastReader, LastRows};
#[cfg(feature = "cells")]
pub(crate) use leaf_counts::{LeafCounter, LeafCounts, ModelledCounts};
pub use levels::{ListedLevels, ModelledValues};
pub(crate) use live::live_batch;
pub use lossless::casts_without_loss;
#[cfg(feature = "cluster")]
pub(crate) use pages::to_bytes;
#[cfg(feature = "cells")]
pub(crate) use pages::{
    Page, by_partition, mark, of_bytes, page_schema, pages_of_batch, pages_to_batch,
};
pub use payload::{Gathered, LoadedPayload, Payload, PayloadChunk, PayloadOf};
pub use payload_code::{PayloadArray, PayloadCoders};
pub use person::{can_be_key, pseudonym};
pub use publish::{Cells, OutputColumn, Publisher, ReleaseForm, ReleaseTable, TieKeys};
pub use published::{
    Cover, Covers, LabelledCells, LabelsAbove, OriginalCells, Originals, PublishedColumn,
    PublishedForm, ValueNumbers, grouped_type, is_bounds, is_ordered,
};
pub use qi_column::Ranges;
pub use ranks::Ranks;
pub use read::{Chunk, Layout, Reader, payload_bytes, waiting_type};
pub use runs::Runs;
#[cfg(feature = "cells")]
pub(crate) use sketch::{Sketch, Sketcher};
pub(crate) use table::TableFiles;
pub(crate) use table::changed_input;
pub use table::{CodedTable, Coding, TableBuilder};

use arrow::error::ArrowError;

use crate::error::Error;

/// An Arrow kernel failed where it should not. Its message is dropped: it may quote a value.
pub(crate) fn kernel_failed(column: &str) -> impl Fn(ArrowError) -> Error + '_ {
    move |_| Error::bug(format!("an Arrow kernel failed on column '{column}'"))
}
