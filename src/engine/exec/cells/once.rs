//! Results that all partitions of an operator share.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use tokio::sync::OnceCell;

/// A value that all partitions of an operator share. A failure is kept too: the operators below cannot run again.
#[derive(Debug)]
pub(super) struct Once<T>(OnceCell<std::result::Result<Arc<T>, Arc<DataFusionError>>>);

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self(OnceCell::new())
    }
}

impl<T> Once<T> {
    pub(super) async fn get(&self, find: impl Future<Output = Result<T>>) -> Result<Arc<T>> {
        let find = async { find.await.map(Arc::new).map_err(Arc::new) };
        match self.0.get_or_init(|| find).await {
            Ok(found) => Ok(Arc::clone(found)),
            Err(error) => Err(DataFusionError::Shared(Arc::clone(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::internal_err;

    use super::*;

    #[tokio::test]
    async fn what_could_not_be_found_out_is_not_asked_for_again() {
        let once = Once::<u32>::default();
        let failed = |found: Result<Arc<u32>>| {
            found.is_err_and(|error| error.to_string().contains("refused"))
        };
        assert!(failed(once.get(async { internal_err!("refused") }).await));
        assert!(failed(once.get(async { Ok(1) }).await));
    }
}
