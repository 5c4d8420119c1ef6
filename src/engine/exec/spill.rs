//! Temporary files of a release, through DataFusion's own disk manager and its limits.

use std::io::Write as _;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::SpillCompression;
use datafusion::common::{DataFusionError, Result, resources_datafusion_err};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::spill_file::SpillFile;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{SpillMetrics, Time};

use super::metrics::ReleaseMetrics;
use crate::model::{Cancel, ScratchFile};

/// Makes temporary files and counts them. Every file is deleted when its last holder lets go of it.
#[derive(Clone)]
pub(super) struct Spills {
    env: Arc<RuntimeEnv>,
    metrics: SpillMetrics,
    time: Time,
    compression: SpillCompression,
    cancel: Cancel,
}

/// Batches in a temporary file, in the order in which they were written.
#[derive(Clone)]
pub(super) struct SpilledBatches {
    manager: SpillManager,
    file: Arc<dyn SpillFile>,
}

impl SpilledBatches {
    pub(super) fn read(&self) -> Result<SendableRecordBatchStream> {
        self.manager.read_spill_as_stream_unbuffered(Arc::clone(&self.file), None)
    }
}

/// A temporary file that still takes batches.
pub(super) struct OpenSpill {
    manager: SpillManager,
    write: Write,
    cancel: Cancel,
}

/// Appends a batch, or without one finishes the file. DataFusion does not export the type behind it.
type Write = Box<dyn FnMut(Option<&RecordBatch>) -> Result<Option<Arc<dyn SpillFile>>> + Send>;

impl OpenSpill {
    pub(super) fn schema(&self) -> &SchemaRef {
        self.manager.schema()
    }

    pub(super) fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        // A thread that writes one batch after the other has no other point to stop at.
        self.cancel.check()?;
        (self.write)(Some(batch)).map(|_| ())
    }

    /// `None` if nothing was appended.
    pub(super) fn finish(mut self) -> Result<Option<SpilledBatches>> {
        let file = (self.write)(None)?;
        Ok(file.map(|file| SpilledBatches { manager: self.manager, file }))
    }
}

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

impl Spills {
    pub(super) fn new(context: &TaskContext, metrics: &ReleaseMetrics, cancel: &Cancel) -> Self {
        Self {
            env: context.runtime_env(),
            metrics: metrics.spills.clone(),
            time: metrics.spill_time.clone(),
            compression: context.session_config().spill_compression(),
            cancel: cancel.clone(),
        }
    }

    /// Time spent on writing temporary files and on reading them back.
    pub(super) fn time(&self) -> &Time {
        &self.time
    }

    /// A new file for batches of a schema.
    pub(super) fn open(&self, schema: SchemaRef, what: &str) -> Result<OpenSpill> {
        let manager = SpillManager::new(Arc::clone(&self.env), self.metrics.clone(), schema)
            .with_compression_type(self.compression);
        let what = format!("spilling AnonymizeExec[{what}]");
        let mut file = manager.create_in_progress_file(&what)?;
        let write = move |batch: Option<&RecordBatch>| match batch {
            Some(batch) => file.append_batch(batch).map(|_| None),
            None => file.finish(),
        };
        Ok(OpenSpill { manager, write: Box::new(write), cancel: self.cancel.clone() })
    }

    /// A new file of zeros, which methods read and write like memory.
    pub(super) fn scratch(&self, bytes: usize, what: &str) -> Result<ScratchFile> {
        let _timer = self.time.timer();
        let what = format!("spilling AnonymizeExec[{what}]");
        let spill = self.env.disk_manager.create_tmp_file(&what)?;
        // Written out instead of left sparse: a full disk must be an error here, not a fault later.
        let mut writer = spill.open_writer()?;
        let mut rest = bytes;
        while rest > 0 {
            self.cancel.check()?;
            let block = rest.min(ZEROS.len());
            writer.write_all(&ZEROS[..block])?;
            rest -= block;
        }
        writer.finish()?;
        let path = spill.path().ok_or_else(|| {
            resources_datafusion_err!(
                "Memory Exhausted while {what} (the temporary files of this session are not local)"
            )
        })?;
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path);
        self.metrics.spill_file_count.add(1);
        self.metrics.spilled_bytes.add(bytes);
        Ok(ScratchFile { file: file.map_err(DataFusionError::IoError)?, owner: Box::new(spill) })
    }
}
