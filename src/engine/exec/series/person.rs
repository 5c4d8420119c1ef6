//! A person by the key, for those who look after the state of a series.

use datafusion::common::{Result, ScalarValue, plan_err};

use crate::columnar::pseudonym;
use crate::model::{Purpose, Secret};

/// How the state of a series calls the person with this key: the column `person` of `publish => 'members'`.
///
/// The key is that of the privacy unit, in the type of its column.
pub fn person_in_series(secret: &Secret, key: &ScalarValue) -> Result<[u8; 16]> {
    match pseudonym(&key.to_array()?, secret.seed(Purpose::SeriesPersons))? {
        Some(person) => Ok(person),
        None => plan_err!("nobody has NULL for a key: write the key of a person"),
    }
}
