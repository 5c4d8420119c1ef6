//! Taking changes back.

use super::Class;
use crate::model::Code;

/// Classes as they were before a change.
pub(super) struct Undo<C, const W: usize>(Vec<(usize, Class<C, W>)>);

impl<C, const W: usize> Default for Undo<C, W> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<C: Code, const W: usize> Undo<C, W> {
    pub(super) fn save(&mut self, classes: &[Class<C, W>], at: usize) {
        if self.0.iter().all(|(saved, _)| *saved != at) {
            self.0.push((at, classes[at].clone()));
        }
    }

    pub(super) fn touched(&self) -> Vec<usize> {
        self.0.iter().map(|(at, _)| *at).collect()
    }

    pub(super) fn roll_back(self, classes: &mut [Class<C, W>]) {
        self.0.into_iter().for_each(|(at, class)| classes[at] = class);
    }
}
