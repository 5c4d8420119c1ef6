//! A box that grows.

use crate::method::bounds::{Bounds, Losses};
use crate::model::Code;

/// The box around rows, and what one of them loses: only the axes that have grown are looked up again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<C, const W: usize> {
    pub(super) bounds: Bounds<C, W>,
    cells: [f32; W],
    loss: f32,
    /// The axes that have grown since, a bit for each.
    grown: u64,
}

impl<C: Code, const W: usize> Around<C, W> {
    pub(super) fn new(bounds: Bounds<C, W>) -> Self {
        Self { bounds, cells: [0.0; W], loss: 0.0, grown: u64::MAX }
    }

    #[inline]
    pub(super) fn add(&mut self, codes: &[C; W]) {
        self.grown |= self.bounds.grow(codes);
    }

    pub(super) fn join(&mut self, other: &Self) {
        self.bounds = self.bounds.join(&other.bounds);
        self.grown = u64::MAX;
    }

    /// Loss of each row that misses no cell; there must be one.
    #[inline]
    pub(super) fn loss(&mut self, losses: &Losses) -> f32 {
        if self.grown != 0 {
            losses.update(&mut self.cells, &self.bounds, self.grown);
            self.loss = losses.sum(&self.cells);
            self.grown = 0;
        }
        self.loss
    }
}
