//! Levels of sensitivity for the values of a sensitive column.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray};
use arrow::compute::cast;

use super::values::write;
use crate::error::{Error, Result};

/// The distinct values of a column that models look at, in the order of their codes.
#[derive(Debug)]
pub struct ModelledValues {
    /// The column's name.
    pub name: String,
    /// The values without the missing one.
    pub values: ArrayRef,
    /// Whether code 0 means missing.
    pub missing: bool,
}

/// Values with their levels, as they were listed: `None` is the missing value. What is listed are
/// values of the data, so nothing of it shows in `Debug`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Default)]
#[cfg_attr(feature = "cluster", derive(serde::Serialize, serde::Deserialize))]
pub struct ListedLevels(pub Vec<(Option<String>, u32)>);

impl std::fmt::Debug for ListedLevels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ListedLevels({})", self.0.len())
    }
}

impl ListedLevels {
    /// The largest level.
    pub fn largest(&self) -> u32 {
        self.0.iter().map(|(_, level)| *level).max().unwrap_or(0)
    }

    /// The level of every code, 0 for values that are not listed. Values are compared by what they
    /// are in the column's type, not by how they are spelled.
    pub fn of(&self, column: &ModelledValues) -> Result<Vec<u32>> {
        let name = &column.name;
        let texts: StringArray = self.0.iter().map(|(value, _)| value.as_deref()).collect();
        let texts: ArrayRef = Arc::new(texts);
        let typed = cast(&texts, column.values.data_type()).map_err(|_| {
            Error::invalid(format!(
                "option 'sensitivity': values cannot be read as {}, the type of column '{name}'",
                column.values.data_type()
            ))
        })?;
        let written = write(&typed, name)?;
        let mut level_of: HashMap<Option<&str>, u32> = HashMap::new();
        for (at, (listed, level)) in self.0.iter().enumerate() {
            let value = written.is_valid(at).then(|| written.value(at));
            // A text that is no value of the column's type cannot occur in it.
            if value.is_none() && listed.is_some() {
                continue;
            }
            if level_of.insert(value, *level).is_some_and(|earlier| earlier != *level) {
                return Err(Error::invalid(format!(
                    "option 'sensitivity': a value of column '{name}' is listed with two levels; keep \
                     one"
                )));
            }
        }
        let values = write(&column.values, name)?;
        let missing = column.missing.then_some(None);
        let codes = missing.into_iter().chain(values.iter());
        Ok(codes.map(|value| level_of.get(&value).copied().unwrap_or(0)).collect())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int32Array;

    use super::*;

    fn listed(levels: &[(Option<&str>, u32)]) -> ListedLevels {
        ListedLevels(levels.iter().map(|(v, level)| (v.map(str::to_owned), *level)).collect())
    }

    #[test]
    fn numbers_are_compared_by_value_and_missing_is_a_value() {
        let column = ModelledValues {
            name: "n".to_owned(),
            values: Arc::new(Int32Array::from(vec![7, 8, 9])),
            missing: true,
        };
        let levels = listed(&[(Some("07"), 2), (Some("9"), 1), (None, 3), (Some("x"), 1)]);
        assert_eq!(levels.of(&column), Ok(vec![3, 2, 0, 1]));
        assert!(listed(&[(Some("7"), 2), (Some("07"), 1)]).of(&column).is_err());
        assert_eq!(format!("{levels:?}"), "ListedLevels(4)");
    }
}
