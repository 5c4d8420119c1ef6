//! Aligned intervals over numbers: `intervals(5, 10, 20)`, then `*`.

use super::{Level, Levels};
use crate::error::{Error, Result};

/// Levels of aligned closed intervals over sorted integers: step 5 makes 20…24, 25…29, ….
///
/// `show` writes an integer as the column publishes it (a decimal is an integer of its smallest
/// unit, a date a number of days).
///
/// ```
/// use datafusion_anonymize::hierarchy::intervals;
/// let levels = intervals(&[17, 23, 24], &[5, 10], &|value| value.to_string())?;
/// assert_eq!(levels.0[0].labels, ["[15-19]", "[20-24]"]);
/// assert_eq!(levels.0[1].labels, ["[10-19]", "[20-29]"]);
/// # Ok::<(), datafusion_anonymize::Error>(())
/// ```
pub fn intervals(values: &[i128], steps: &[i128], show: &dyn Fn(i128) -> String) -> Result<Levels> {
    check_steps(steps, |step| *step > 0, |step, finer| step > finer && step % finer == 0)?;
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
pub fn float_intervals(values: &[f64], steps: &[f64]) -> Result<Levels> {
    let nests = |step: &f64, finer: &f64| {
        let ratio = step / finer;
        step > finer && (ratio - ratio.round()).abs() < 1e-9
    };
    check_steps(steps, |step| step.is_finite() && *step > 0.0, nests)?;
    let width = match (values.first(), values.last()) {
        (Some(min), Some(max)) => max - min,
        _ => 0.0,
    };
    // Every level counts in the finest step, so that a value near an edge cannot fall under one
    // node on one level and outside that node's parent on the next.
    let finest = steps[0];
    let level = |step: &f64| {
        let fold = (step / finest).round() as i128;
        let keys = values.iter().map(|value| {
            let bucket = (value / finest).floor();
            if bucket.abs() > 1e15 {
                return Err(too_far());
            }
            Ok((bucket as i128).div_euclid(fold))
        });
        let mut bounds = Vec::new();
        let level = Level::from_keys(keys, |bucket| {
            let low = *bucket as f64 * step;
            bounds.push((low.to_string(), (low + step).to_string()));
            Ok((interval_label(bounds.last()), relative_width(*step, width)))
        })?;
        Ok(Level { bounds, ..level })
    };
    Ok(Levels(steps.iter().map(level).collect::<Result<_>>()?))
}

fn interval_label(bounds: Option<&(String, String)>) -> String {
    bounds.map(|(low, high)| format!("[{low}-{high}]")).unwrap_or_default()
}

fn check_steps<T: std::fmt::Display>(
    steps: &[T],
    valid: impl Fn(&T) -> bool,
    nests: impl Fn(&T, &T) -> bool,
) -> Result<()> {
    if steps.is_empty() {
        return Err(Error::invalid(
            "intervals() needs at least one step: write intervals(5, 10, 20)",
        ));
    }
    if let Some(step) = steps.iter().find(|step| !valid(step)) {
        let message =
            format!("intervals(): the step {step} is not above 0: write intervals(5, 10, 20)");
        return Err(Error::invalid(message));
    }
    if let Some(pair) = steps.windows(2).find(|pair| !nests(&pair[1], &pair[0])) {
        return Err(Error::invalid(format!(
            "intervals(): the step {} is not a larger multiple of {}: every step must hold whole \
             intervals of the step before it, as in intervals(5, 10, 20)",
            pair[1], pair[0]
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
        let levels = float_intervals(&values, &[0.1, 0.3, 3.0]).map(|levels| levels.0);
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
    fn the_loss_is_the_width_over_the_domain() {
        let levels = intervals(&[0, 100], &[11], &|v| v.to_string());
        assert_eq!(levels.map(|levels| levels.0[0].losses.clone()), Ok(vec![0.1, 0.1]));
    }
}
