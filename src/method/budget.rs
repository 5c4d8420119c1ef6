//! How much refinement may look at.
//!
//! Classes are refined the worst first, because where much is lost much can be gained, and only as long as there is budget:
//! so the time grows with the cells of a table, whatever their values and however large classes are.

/// How many cells may still be looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget(f64);

impl Budget {
    /// So many looks at each cell of these rows.
    pub(super) fn of_cells(looks: f64, rows: usize, columns: usize) -> Self {
        Self(looks * rows as f64 * columns as f64)
    }

    /// A share of it.
    pub(super) fn share(self, share: f64) -> Self {
        Self(self.0 * share)
    }

    pub(super) fn spend(&mut self, cells: usize) {
        self.0 -= cells as f64;
    }

    pub(super) fn is_spent(self) -> bool {
        self.0 <= 0.0
    }
}
