//! Which rows a method put together.

use crate::error::{Error, Result};

/// Classes as consecutive runs of the rows, in the order the method left them.
///
/// ```
/// use datafusion_anonymize::pure::model::Classes;
/// let classes = Classes::from_sizes(&[3, 2])?;
/// assert_eq!(classes.len(), 2);
/// assert_eq!(classes.range(1), 3..5);
/// # Ok::<(), datafusion_anonymize::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Classes {
    ends: Vec<u32>,
}

impl Classes {
    /// Classes of these sizes, one after the other.
    pub fn from_sizes(sizes: &[u32]) -> Result<Self> {
        let mut end = 0u32;
        let mut ends = Vec::with_capacity(sizes.len());
        for size in sizes {
            end = end
                .checked_add(*size)
                .ok_or_else(|| Error::bug("class sizes exceed the row limit"))?;
            ends.push(end);
        }
        Ok(Self { ends })
    }

    /// Number of classes.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no class.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Rows in all classes.
    pub fn rows(&self) -> usize {
        self.ends.last().copied().unwrap_or(0) as usize
    }

    /// The positions of one class's rows.
    pub fn range(&self, class: usize) -> std::ops::Range<usize> {
        let start = if class == 0 { 0 } else { self.ends[class - 1] };
        start as usize..self.ends[class] as usize
    }

    /// The positions of every class's rows, in order.
    pub fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        (0..self.len()).map(|class| self.range(class))
    }

    /// Rows in the largest class, 0 without one.
    pub fn largest(&self) -> usize {
        self.ranges().map(|range| range.len()).max().unwrap_or(0)
    }
}
