//! What a release of a series publishes of its cohorts.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, FixedSizeBinaryArray, Int64Array, RecordBatch,
    UInt32Array, new_empty_array,
};
use arrow::buffer::Buffer;
use arrow::compute::{cast, concat, interleave, take};
use arrow::datatypes::{DataType, Int64Type};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::kernel_failed;
use crate::error::{Error, Result};
use crate::model::Store;
use crate::model::series::{Member, member};

/// The classes of a release that is one of a series, class by class.
#[derive(Debug, Default)]
pub struct Cohorts {
    /// Their ids.
    pub ids: Vec<u64>,
    /// Whether somebody is gone.
    pub held: Vec<bool>,
    /// Where in `tuples` the quasi-identifiers of a class are that repeats the last release.
    pub repeated: Vec<Option<u32>>,
    /// By quasi-identifier, what the last release published.
    pub tuples: Vec<ArrayRef>,
    /// Rows from this number on are rows of the last release.
    pub first_repeated: u32,
    /// Their keyed hashes.
    pub ties: Store<u64>,
}

impl Cohorts {
    /// The keyed hash of a row of the last release, `None` for tonight's rows.
    pub(super) fn tie(&self, row: u32) -> Option<u64> {
        let at = row.checked_sub(self.first_repeated)?;
        self.ties.get(at as usize).copied()
    }

    /// The ids of some classes.
    pub(super) fn ids(&self, classes: Range<usize>) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(self.ids[classes].iter().map(|id| *id as i64)))
    }

    /// Whether somebody is gone, by class.
    pub(super) fn held(&self, classes: Range<usize>) -> ArrayRef {
        Arc::new(BooleanArray::from(self.held[classes].to_vec()))
    }

    /// Whether a class publishes tonight's rows.
    pub(super) fn is_own(&self, class: &usize) -> bool {
        self.repeated[*class].is_none()
    }

    /// Published quasi-identifiers of some classes: `own` are those of the classes that do not repeat the last
    /// release, in their order. Dictionaries are made anew: their order must not tell one kind from the other.
    pub(super) fn mixed(
        &self,
        classes: Range<usize>,
        column: usize,
        own: &ArrayRef,
    ) -> Result<ArrayRef> {
        let failed = kernel_failed("quasi_identifiers");
        let plain = |array: &ArrayRef| cast(array, without_dictionary(array.data_type()));
        let own_values = plain(own).map_err(&failed)?;
        let tuples = match self.tuples.get(column) {
            Some(tuples) => plain(tuples).map_err(&failed)?,
            None => new_empty_array(own_values.data_type()),
        };
        let mut next = 0..own.len();
        let place = |class: usize| match self.repeated[class] {
            Some(tuple) => Some((1, tuple as usize)),
            None => next.next().map(|own| (0, own)),
        };
        let places: Option<Vec<(usize, usize)>> = classes.map(place).collect();
        let places = places.ok_or_else(|| Error::bug("a class has no published values"))?;
        let values = interleave(&[&own_values, &tuples], &places).map_err(&failed)?;
        cast(&values, own.data_type()).map_err(&failed)
    }
}

/// The type of a column's values.
pub(super) fn without_dictionary(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        plain => plain,
    }
}

/// Members as the state of a series has them: persons as 16 bytes, the first ones highest, and cohorts.
#[derive(Debug)]
pub struct MemberColumns {
    /// Persons.
    pub persons: ArrayRef,
    /// Ids of their cohorts.
    pub cohorts: ArrayRef,
}

impl MemberColumns {
    /// Whether columns of these types can be cast to those of members: pseudonyms to BINARY, cohorts to BIGINT.
    pub fn can_be(person: &DataType, cohort: &DataType) -> bool {
        use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
        matches!(person, Binary | LargeBinary | BinaryView | FixedSizeBinary(16))
            && cohort.is_integer()
    }

    /// The columns of some members.
    pub fn of(members: &[Member]) -> Result<Self> {
        let bytes = members.iter().flat_map(|member| {
            let [high, low, _] = member.map(u64::to_be_bytes);
            high.into_iter().chain(low)
        });
        let bytes: Vec<u8> = bytes.collect();
        let persons = FixedSizeBinaryArray::try_new(16, Buffer::from_vec(bytes), None);
        let cohorts = members.iter().map(|member| member[2] as i64);
        Ok(Self {
            persons: Arc::new(persons.map_err(kernel_failed("person"))?),
            cohorts: Arc::new(Int64Array::from_iter_values(cohorts)),
        })
    }

    /// Appends the members of a batch of persons (BINARY) and cohorts (BIGINT).
    pub fn read(batch: &RecordBatch, members: &mut Vec<Member>) -> Result<()> {
        let (persons, cohorts) = (batch.column(0), batch.column(1));
        let wrong = |what: &str| {
            Error::invalid(format!(
                "option 'series': {what} of 'members' is not one that anonymize has written: give it the rows of \
                 publish => 'members' as they were written, of every night"
            ))
        };
        if persons.null_count() > 0 || cohorts.null_count() > 0 {
            return Err(wrong("a NULL"));
        }
        let (Some(persons), Some(cohorts)) =
            (persons.as_binary_opt::<i32>(), cohorts.as_primitive_opt::<Int64Type>())
        else {
            return Err(Error::bug("members came in other types than were planned"));
        };
        for (person, cohort) in persons.iter().flatten().zip(cohorts.values()) {
            let person: [u8; 16] = person.try_into().map_err(|_| wrong("a person"))?;
            let cohort = u64::try_from(*cohort).map_err(|_| wrong("a cohort"))?;
            members.push(member(u128::from_be_bytes(person), cohort));
        }
        Ok(())
    }
}

/// The quasi-identifiers of cohorts as the last release published them, one row for each.
#[derive(Debug, Default)]
pub struct Tuples {
    columns: Vec<Vec<ArrayRef>>,
    /// By cohort, its row. Readers know few cohorts each, and there are as many readers as partitions.
    row_of: HashMap<u32, u32, FixedState>,
    bytes: usize,
}

impl Tuples {
    /// Takes in rows of a batch of quasi-identifiers, given with their cohorts, unless they are known.
    pub fn add(&mut self, columns: &[ArrayRef], rows: &[(usize, u32)]) -> Result<()> {
        let mut fresh = Vec::new();
        for (row, cohort) in rows {
            let next = self.row_of.len() as u32;
            if let Entry::Vacant(place) = self.row_of.entry(*cohort) {
                place.insert(next);
                fresh.push(*row as u32);
            }
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let fresh = UInt32Array::from(fresh);
        self.columns.resize_with(columns.len(), Vec::new);
        for (all, column) in self.columns.iter_mut().zip(columns) {
            let values = take(column, &fresh, None).map_err(kernel_failed("last"))?;
            self.bytes += values.get_array_memory_size();
            all.push(values);
        }
        Ok(())
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes + self.row_of.allocation_size()
    }

    /// All tuples of several readers: by quasi-identifier the values, and by cohort the row.
    pub fn together(readers: Vec<Self>) -> Result<(Vec<ArrayRef>, Vec<Option<u32>>)> {
        let width = readers.iter().map(|of| of.columns.len()).max().unwrap_or(0);
        let mut columns: Vec<Vec<ArrayRef>> = vec![Vec::new(); width];
        let last = readers.iter().flat_map(|of| of.row_of.keys()).max();
        let mut row_of: Vec<Option<u32>> = vec![None; last.map_or(0, |last| *last as usize + 1)];
        let mut before = 0;
        for reader in readers {
            columns.iter_mut().zip(reader.columns).for_each(|(all, arrays)| all.extend(arrays));
            let rows = reader.row_of.len() as u32;
            for (cohort, row) in reader.row_of {
                row_of[cohort as usize].get_or_insert(row + before);
            }
            before += rows;
        }
        let concat = |arrays: Vec<ArrayRef>| {
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            concat(&arrays).map_err(kernel_failed("last"))
        };
        Ok((columns.into_iter().map(concat).collect::<Result<_>>()?, row_of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DictionaryArray, StringArray};
    use arrow::datatypes::{Field, Int32Type, Schema};

    #[test]
    fn members_come_back_as_they_were_written() -> Result<()> {
        let members: Vec<Member> = vec![[1, u64::MAX, 7], [u64::MAX - 3, 0, i64::MAX as u64]];
        let MemberColumns { persons, cohorts } = MemberColumns::of(&members)?;
        let persons = cast(&persons, &DataType::Binary).map_err(kernel_failed("t"))?;
        let fields = [("person", DataType::Binary), ("cohort", DataType::Int64)];
        let fields = fields.map(|(name, of)| Field::new(name, of, true)).to_vec();
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(schema, vec![persons, cohorts]);
        let mut back = Vec::new();
        MemberColumns::read(&batch.map_err(kernel_failed("t"))?, &mut back)?;
        assert_eq!(back, members);
        Ok(())
    }

    #[test]
    fn a_dictionary_does_not_tell_which_classes_repeat() -> Result<()> {
        let own = |values: Vec<&str>| -> ArrayRef {
            Arc::new(values.into_iter().collect::<DictionaryArray<Int32Type>>())
        };
        let tuples: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        let mixed = |repeated: Vec<Option<u32>>, values| {
            let cohorts =
                Cohorts { repeated, tuples: vec![Arc::clone(&tuples)], ..Cohorts::default() };
            cohorts.mixed(0..3, 0, &own(values))
        };
        let one = mixed(vec![Some(1), None, Some(0)], vec!["a"])?;
        let other = mixed(vec![None, Some(0), None], vec!["b", "a"])?;
        assert_eq!(one.to_data(), other.to_data());
        assert_eq!(one.as_any_dictionary().values().len(), 2);
        Ok(())
    }

    #[test]
    fn tuples_of_several_readers_are_put_together() -> Result<()> {
        let column =
            |values: Vec<&str>| -> Vec<ArrayRef> { vec![Arc::new(StringArray::from(values))] };
        let (mut one, mut other) = (Tuples::default(), Tuples::default());
        one.add(&column(vec!["x", "y", "y"]), &[(1, 2), (2, 2)])?;
        other.add(&column(vec!["z", "y"]), &[(0, 0), (1, 2)])?;
        let (columns, rows) = Tuples::together(vec![one, Tuples::default(), other])?;
        assert_eq!(rows, [Some(1), None, Some(0)]);
        assert_eq!(
            columns[0].as_string::<i32>().iter().flatten().collect::<Vec<_>>(),
            ["y", "z", "y"]
        );
        Ok(())
    }
}
