//! The groups of one level, the one with the highest priority first.

/// A binary heap of group numbers whose order is asked from outside: priorities live in the groups
/// and rows. A group must not change while it is queued.
#[derive(Debug, Default)]
pub(super) struct Queue {
    heap: Vec<u32>,
}

impl Queue {
    /// Whether no group is queued.
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The queued groups, in no order.
    pub(super) fn groups(&self) -> &[u32] {
        &self.heap
    }

    /// Takes all groups out, in no order.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.heap.drain(..)
    }

    /// Queues a group.
    pub(super) fn push(&mut self, group: u32, before: impl Fn(u32, u32) -> bool) {
        self.heap.push(group);
        let mut at = self.heap.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            if !before(self.heap[at], self.heap[parent]) {
                return;
            }
            self.heap.swap(at, parent);
            at = parent;
        }
    }

    /// Takes the first group out.
    pub(super) fn pop(&mut self, before: impl Fn(u32, u32) -> bool) -> Option<u32> {
        if self.heap.is_empty() {
            return None;
        }
        let first = self.heap.swap_remove(0);
        let mut at = 0;
        loop {
            let children = [2 * at + 1, 2 * at + 2];
            let mut best = at;
            for child in children.into_iter().filter(|child| *child < self.heap.len()) {
                if before(self.heap[child], self.heap[best]) {
                    best = child;
                }
            }
            if best == at {
                return Some(first);
            }
            self.heap.swap(at, best);
            at = best;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_leave_by_priority() {
        let mut queue = Queue::default();
        for group in [5, 1, 4, 1, 3, 9, 2, 6] {
            queue.push(group, |a, b| a < b);
        }
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop(|a, b| a < b)).collect();
        assert_eq!(order, [1, 1, 2, 3, 4, 5, 6, 9]);
    }
}
