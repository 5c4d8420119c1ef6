//! How the rows of persons are spread over the classes.

use super::{Placement, SensitiveColumn};

/// Figures over all persons of a release.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Persons {
    /// The largest share of a class that one person holds.
    pub largest_share: f64,
    /// The share of the persons who have rows in more than one class.
    pub split: f64,
}

impl Persons {
    /// Counts the rows of every person in every class, given the privacy unit.
    pub fn of(placement: &Placement, unit: &SensitiveColumn) -> Self {
        let mut here = vec![0u32; unit.cardinality as usize];
        let mut classes_of = vec![0u8; unit.cardinality as usize];
        let mut largest_share = 0.0f64;
        for class in placement.classes.ranges() {
            let persons =
                || class.clone().map(|at| unit.codes[(placement.id_at)(at) as usize] as usize);
            let mut largest = 0;
            for person in persons() {
                here[person] += 1;
                largest = largest.max(here[person]);
            }
            for person in persons() {
                if std::mem::take(&mut here[person]) > 0 {
                    classes_of[person] = classes_of[person].saturating_add(1);
                }
            }
            largest_share = largest_share.max(f64::from(largest) / class.len().max(1) as f64);
        }
        let persons = classes_of.iter().filter(|classes| **classes > 0).count();
        let split = classes_of.iter().filter(|classes| **classes > 1).count();
        Self { largest_share, split: split as f64 / persons.max(1) as f64 }
    }

    /// Bytes that [`Persons::of`] allocates, for at most this many rows.
    pub fn work_bytes(rows: usize) -> usize {
        (size_of::<u32>() + size_of::<u8>()) * rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Classes;

    #[test]
    fn shares_and_split_persons_are_counted() {
        // Person 0 has three of four rows of the first class and one of the second; the last row is
        // suppressed.
        let column = SensitiveColumn::of_values(&[0, 0, 0, 1, 0, 2, 3, 4], false);
        let classes = Classes::from_sizes(&[4, 3]).unwrap_or_default();
        let id_at = |at: usize| at as u32;
        let placement = Placement { id_at: &id_at, rows: 8, classes: &classes, suppressed: 1 };
        let persons = Persons::of(&placement, &column);
        assert_eq!(persons, Persons { largest_share: 0.75, split: 0.25 });
    }
}
