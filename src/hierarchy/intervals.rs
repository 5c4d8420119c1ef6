//! Aligned intervals over numbers: `intervals(5, 10, 20)`, then `*`.

use super::{Level, Levels};
use crate::error::{Error, Result};

/// Levels of aligned closed intervals over sorted integers: step 5 makes 20…24, 25…29, ….
///
/// `show` writes an integer as the column publishes it (a decimal is an integer of its smallest
/// unit, a date a number of days).
///
/// ```
/// use datafusion_anonymize::pure::hierarchy::intervals;
/// let levels = intervals(&[17, 23, 24], &[5, 10], &|value| value.to_string())?;
/// assert_eq!(levels.0[0].labels, ["[15-19]", "[20-24]"]);
/// assert_eq!(levels.0[1].labels, ["[10-19]", "[20-29]"]);
/// # Ok::<(), datafusion_anonymize::Error>(())
/// ```
pub fn intervals(values: &[i128], steps: &[i128], show: &dyn Fn(i128) -> String) -> Result<Levels> {
    let written: Vec<String> = steps.iter().map(i128::to_string).collect();
    check_steps(steps, &written)?;
    let width = match (values.first(), values.last()) {
        (Some(min), Some(max)) => max.saturating_sub(*min) as f64,
        _ => 0.0,
    };
    let level = |step: &i128| {
        let keys = values.iter().map(|value| Ok(value.div_euclid(*step)));
        let mut bounds = Vec::new();
        let level = Level::from_keys(keys, |bucket| {
            let low = bucket.checked_mul(*step).ok_or_else(too_far)?;
            let high = low.checked_add(step - 1).ok_or_else(too_far)?;
            bounds.push((show(low), show(high)));
            let label = if *step == 1 { show(low) } else { interval_label(bounds.last()) };
            Ok((label, relative_width((step - 1) as f64, width)))
        })?;
        Ok(Level { bounds, ..level })
    };
    Ok(Levels(steps.iter().map(level).collect::<Result<_>>()?))
}

/// Levels of aligned intervals over sorted floating-point numbers, labelled with both ends. The
/// upper end belongs to the next interval.
///
/// Steps are decimals, as they were written: the ends are exact multiples of them, and a value always
/// lies between the ends of its interval as they are read back.
pub fn float_intervals<S: AsRef<str>>(values: &[f64], steps: &[S]) -> Result<Levels> {
    let places = steps.iter().map(|step| decimal_places(step.as_ref())).max().unwrap_or(0);
    let unscaled = |step: &S| {
        scaled_decimal(step.as_ref(), places)
            .ok_or_else(|| Error::invalid(format!("intervals(): '{}' is no number", step.as_ref())))
    };
    let units = steps.iter().map(unscaled).collect::<Result<Vec<i128>>>()?;
    check_steps(&units, steps)?;
    let width = match (values.first(), values.last()) {
        (Some(min), Some(max)) => max - min,
        _ => 0.0,
    };
    // Every level counts in the finest step, so that a value near an edge cannot fall under one
    // node on one level and outside that node's parent on the next.
    let finest = Ends { unit: units[0], places };
    let buckets =
        values.iter().map(|value| finest.bucket(*value)).collect::<Result<Vec<i128>>>()?;
    let level = |unit: &i128| {
        let ends = Ends { unit: *unit, places };
        let keys = buckets.iter().map(|bucket| Ok(bucket.div_euclid(unit / finest.unit)));
        let mut bounds = Vec::new();
        let level = Level::from_keys(keys, |bucket| {
            let next = bucket.checked_add(1).ok_or_else(too_far)?;
            bounds.push((ends.written(*bucket)?, ends.written(next)?));
            let step = *unit as f64 / 10f64.powi(places as i32);
            Ok((interval_label(bounds.last()), relative_width(step, width)))
        })?;
        Ok(Level { bounds, ..level })
    };
    Ok(Levels(units.iter().map(level).collect::<Result<_>>()?))
}

/// Where intervals of a decimal width end.
struct Ends {
    unit: i128,
    places: usize,
}

impl Ends {
    /// The lower end of a bucket, as a decimal without trailing zeros.
    fn written(&self, bucket: i128) -> Result<String> {
        let end = bucket.checked_mul(self.unit).ok_or_else(too_far)?;
        let sign = if end < 0 { "-" } else { "" };
        let digits = format!("{:0>width$}", end.unsigned_abs(), width = self.places + 1);
        let (whole, fraction) = digits.split_at(digits.len() - self.places);
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        Ok(format!("{sign}{whole}{point}{fraction}"))
    }

    fn end(&self, bucket: i128) -> Result<f64> {
        self.written(bucket)?.parse().map_err(|_| too_far())
    }

    /// The bucket whose ends, as they are read back, enclose the value.
    fn bucket(&self, value: f64) -> Result<i128> {
        let step = self.unit as f64 / 10f64.powi(self.places as i32);
        let guess = (value / step).floor();
        if guess.is_nan() || guess.abs() > 1e15 {
            return Err(too_far());
        }
        let mut bucket = guess as i128;
        while value < self.end(bucket)? {
            bucket -= 1;
        }
        while value >= self.end(bucket + 1)? {
            bucket += 1;
        }
        Ok(bucket)
    }
}

fn decimal_places(text: &str) -> usize {
    text.split_once('.').map_or(0, |(_, fraction)| fraction.trim_end_matches('0').len())
}

/// A decimal as an integer of its smallest unit, `None` if it is none or has more places.
pub(crate) fn scaled_decimal(text: &str, places: usize) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    let zeros = places.checked_sub(fraction.len())?;
    format!("{whole}{fraction}{}", "0".repeat(zeros)).parse().ok()
}

fn interval_label(bounds: Option<&(String, String)>) -> String {
    bounds.map(|(low, high)| format!("[{low}-{high}]")).unwrap_or_default()
}

fn check_steps<S: AsRef<str>>(steps: &[i128], written: &[S]) -> Result<()> {
    if steps.is_empty() {
        return Err(Error::invalid(
            "intervals() needs at least one step: write intervals(5, 10, 20)",
        ));
    }
    let shown = |at: usize| written.get(at).map_or("", |step| step.as_ref());
    if let Some(at) = steps.iter().position(|step| *step <= 0) {
        return Err(Error::invalid(format!(
            "intervals(): the step {} is not above 0: write intervals(5, 10, 20)",
            shown(at)
        )));
    }
    let nests = |pair: &[i128]| pair[1] > pair[0] && pair[1] % pair[0] == 0;
    if let Some(at) = steps.windows(2).position(|pair| !nests(pair)) {
        return Err(Error::invalid(format!(
            "intervals(): the step {} is not a larger multiple of {}: every step must hold whole \
             intervals of the step before it, as in intervals(5, 10, 20)",
            shown(at + 1),
            shown(at)
        )));
    }
    Ok(())
}

fn relative_width(width: f64, domain: f64) -> f64 {
    if domain > 0.0 { (width / domain).min(1.0) } else { 0.0 }
}

fn too_far() -> Error {
    Error::invalid("intervals(): a value is too far from 0 for these steps: use larger steps")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[i128], steps: &[i128]) -> Vec<String> {
        let levels = intervals(values, steps, &|value| value.to_string());
        levels.map(|levels| levels.0[0].labels.clone()).unwrap_or_default()
    }

    #[test]
    fn negative_numbers_are_aligned_too() {
        assert_eq!(labels(&[-7, -1, 0], &[5]), ["[-10--6]", "[-5--1]", "[0-4]"]);
    }

    #[test]
    fn a_step_of_one_is_the_value() {
        assert_eq!(labels(&[3, 4], &[1]), ["3", "4"]);
    }

    #[test]
    fn steps_that_do_not_nest_are_refused() {
        for steps in [&[][..], &[0], &[-5], &[10, 5], &[5, 5], &[5, 12]] {
            assert!(intervals(&[1], steps, &|v| v.to_string()).is_err(), "{steps:?}");
        }
    }

    #[test]
    fn float_levels_nest_at_the_edges() {
        let values: Vec<f64> = (0..100).map(|i| f64::from(i) * 0.1).collect();
        let levels = float_intervals(&values, &["0.1", "0.3", "3"]).map(|levels| levels.0);
        let levels = levels.unwrap_or_default();
        for (fine, coarse) in [(0, 1), (1, 2)] {
            for a in 0..values.len() {
                for b in 0..values.len() {
                    if levels[fine].node_of[a] == levels[fine].node_of[b] {
                        assert_eq!(levels[coarse].node_of[a], levels[coarse].node_of[b]);
                    }
                }
            }
        }
    }

    #[test]
    fn float_intervals_enclose_their_values_as_they_are_written() {
        let values: Vec<f64> = (-400..400).map(|i| f64::from(i) * 0.05).collect();
        for steps in [&["0.1", "0.3"][..], &["0.7"], &["2.5", "5"], &["0.05"]] {
            let levels = float_intervals(&values, steps).unwrap_or_default();
            assert_eq!(levels.0.len(), steps.len());
            for level in levels.0 {
                for (value, node) in values.iter().zip(&level.node_of) {
                    let (low, high) = &level.bounds[*node as usize];
                    let end = |text: &String| text.parse::<f64>().unwrap_or(f64::NAN);
                    assert!(end(low) <= *value && *value <= end(high), "{value}: [{low}-{high}]");
                    assert!(low.len() < 8 && high.len() < 8, "[{low}-{high}]");
                }
            }
        }
    }

    #[test]
    fn the_loss_is_the_width_over_the_domain() {
        let levels = intervals(&[0, 100], &[11], &|v| v.to_string());
        assert_eq!(levels.map(|levels| levels.0[0].losses.clone()), Ok(vec![0.1, 0.1]));
    }
}
