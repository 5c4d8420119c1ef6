//! Masked text: `prefixes(4, 3, 2)` keeps that many characters, then `*`.

use super::{Level, Levels};
use crate::error::{Error, Result};

/// Levels that keep the first characters of a text and mask the rest.
///
/// ```
/// use datafusion_anonymize::pure::hierarchy::prefixes;
/// let levels = prefixes(&["02138", "02139"], &[4, 2])?;
/// assert_eq!(levels.0[0].labels, ["0213*"]);
/// assert_eq!(levels.0[1].labels, ["02***"]);
/// # Ok::<(), datafusion_anonymize::Error>(())
/// ```
pub fn prefixes(values: &[&str], kept: &[usize]) -> Result<Levels> {
    if kept.is_empty() {
        return Err(Error::invalid(
            "prefixes() needs at least one length: write prefixes(4, 3, 2)",
        ));
    }
    if let Some(pair) = kept.windows(2).find(|pair| pair[0] <= pair[1]) {
        return Err(Error::invalid(format!(
            "prefixes(): {} does not keep fewer characters than {}: write the lengths in falling \
             order, as in prefixes(4, 3, 2)",
            pair[1], pair[0]
        )));
    }
    if kept.contains(&0) {
        return Err(Error::invalid(
            "prefixes(): keeping 0 characters is the top, which every hierarchy has: leave out the 0",
        ));
    }
    let level = |kept: &usize| {
        let keys = values.iter().map(|value| Ok(masked(value, *kept)));
        let mut level = Level::from_keys::<String, Error>(keys, |label| Ok((label.clone(), 0.0)))?;
        level.lose_by_values();
        Ok(level)
    };
    Ok(Levels(kept.iter().map(level).collect::<Result<_>>()?))
}

fn masked(value: &str, kept: usize) -> String {
    let mask = |(at, character)| if at < kept { character } else { '*' };
    value.chars().enumerate().map(mask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_kept_not_bytes() {
        assert_eq!(masked("žluť", 2), "žl**");
    }

    #[test]
    fn lengths_must_fall() {
        for kept in [&[][..], &[2, 3], &[2, 2], &[2, 0]] {
            assert!(prefixes(&["ab"], kept).is_err(), "{kept:?}");
        }
    }
}
