//! The step that makes files visible.

use std::sync::Arc;

use datafusion::common::exec_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::object_store::path::Path as Location;
use datafusion::object_store::{
    Error as StoreError, MultipartUpload, ObjectStore, ObjectStoreExt, Result as StoreResult,
};
use futures::future::join_all;

use super::area::Area;
use super::moves::Moves;
use crate::engine::mark_redacted;

/// Requests to an object store under way at once.
const AT_ONCE: usize = 8;

/// Files of one target that are complete.
#[derive(Debug)]
pub(super) struct Part {
    /// Those on a disk.
    pub(super) moves: Option<Moves>,
    /// Those in an object store.
    pub(super) held: Vec<Held>,
}

/// An object that is not visible before its upload is completed.
#[derive(Debug)]
pub(super) struct Held {
    store: Arc<dyn ObjectStore>,
    location: Location,
    upload: Box<dyn MultipartUpload>,
    state: Visible,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visible {
    No,
    /// The store was asked to show it, and may have done so whatever it answered.
    Perhaps,
}

/// Makes the files of all areas visible, or none of them. An existing file is replaced if `may_replace` and there is
/// only one file to publish; otherwise it is an error.
pub(super) async fn publish(areas: &[Arc<Area>], may_replace: bool) -> Result<()> {
    let mut parts = Vec::with_capacity(areas.len());
    for area in areas {
        parts.push((area, area.prepare()?));
    }
    let files: usize = parts.iter().map(|(_, part)| part.files()).sum();
    let may_replace = may_replace && files == 1;
    let mut outcome = Ok(());
    for (area, part) in &mut parts {
        outcome = part.reveal(area, may_replace).await;
        if outcome.is_err() {
            break;
        }
    }
    let Err(error) = outcome else {
        parts.iter().filter_map(|(_, part)| part.moves.as_ref()).for_each(Moves::settle);
        return Ok(());
    };
    let mut left = Vec::new();
    // The last one first: it may be in directories that an earlier one made.
    for (_, part) in parts.iter_mut().rev() {
        left.extend(part.take_back(may_replace).await);
    }
    Err(match left.is_empty() {
        true => error,
        false => mark_redacted(exec_datafusion_err!(
            "{}; and these could not be removed again, remove them by hand: {}",
            error.strip_backtrace(),
            left.join(", ")
        )),
    })
}

impl Part {
    fn files(&self) -> usize {
        self.held.len() + self.moves.as_ref().map_or(0, Moves::files)
    }

    async fn reveal(&mut self, area: &Area, may_replace: bool) -> Result<()> {
        if let Some(moves) = &mut self.moves {
            moves.reveal(may_replace).map_err(|error| area.failed_to_move(&error))?;
        }
        if !may_replace {
            for some in self.held.chunks_mut(AT_ONCE) {
                all(some.iter_mut().map(Held::check_new), area).await?;
            }
        }
        for some in self.held.chunks_mut(AT_ONCE) {
            all(some.iter_mut().map(Held::complete), area).await?;
        }
        Ok(())
    }

    /// Removes what has become visible. Returns the names of files that could not be removed.
    async fn take_back(&mut self, may_replace: bool) -> Vec<String> {
        let mut left = self.moves.as_mut().map(Moves::take_back).unwrap_or_default();
        for held in &mut self.held {
            match held.state {
                Visible::No => drop(held.upload.abort().await),
                // It was the only one: the old object is there, or the whole new one.
                Visible::Perhaps if may_replace => {}
                Visible::Perhaps => match held.store.delete(&held.location).await {
                    Ok(()) | Err(StoreError::NotFound { .. }) => {}
                    Err(_) => left.push(held.location.to_string()),
                },
            }
        }
        left
    }
}

/// Waits for all requests even if one fails: none may still take effect after the others were taken back.
async fn all(
    requests: impl Iterator<Item = impl Future<Output = StoreResult<()>>>,
    area: &Area,
) -> Result<()> {
    let outcomes = join_all(requests).await;
    outcomes.into_iter().collect::<StoreResult<()>>().map_err(|error| {
        let error = DataFusionError::from(error);
        error
            .context(format!("COPY TO '{}': the files are complete and cannot be shown", area.name))
    })
}

impl Held {
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        location: Location,
        upload: Box<dyn MultipartUpload>,
    ) -> Self {
        Self { store, location, upload, state: Visible::No }
    }

    /// An error if there is such an object already: it would be overwritten, and deleted if another request fails.
    async fn check_new(&mut self) -> StoreResult<()> {
        match self.store.head(&self.location).await {
            Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(StoreError::AlreadyExists {
                path: self.location.to_string(),
                source: "it is there already".into(),
            }),
        }
    }

    async fn complete(&mut self) -> StoreResult<()> {
        self.state = Visible::Perhaps;
        self.upload.complete().await.map(drop)
    }
}
