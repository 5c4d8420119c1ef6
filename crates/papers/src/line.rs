//! What was measured along an axis.

use datafusion::common::{DataFusionError, Result};

/// What one method gave at every place of an axis, or why the engine refused.
#[derive(Debug, Clone)]
pub struct Line<T = f64> {
    /// What tables and legends call it.
    pub name: String,
    /// In the order of the axis.
    pub points: Result<Vec<(f64, T)>, String>,
}

impl<T> Line<T> {
    pub async fn measure(
        name: String,
        places: &[f64],
        measure: impl AsyncFn(f64) -> Result<T>,
    ) -> Self {
        let mut points = Vec::with_capacity(places.len());
        for place in places {
            match measure(*place).await {
                Ok(found) => points.push((*place, found)),
                Err(error) => return Self { name, points: Err(reason(&error)) },
            }
        }
        Self { name, points: Ok(points) }
    }

    /// One number of all that was measured.
    pub fn map(&self, value: impl Fn(&T) -> f64) -> Line {
        let values = |points: &Vec<(f64, T)>| {
            points.iter().map(|(place, found)| (*place, value(found))).collect()
        };
        Line {
            name: self.name.clone(),
            points: self.points.as_ref().map(values).map_err(Clone::clone),
        }
    }
}

/// The first line of what the engine says.
pub fn reason(error: &DataFusionError) -> String {
    error.strip_backtrace().lines().next().unwrap_or_default().to_owned()
}

/// The same number of all lines.
pub fn map_all<T>(lines: &[Line<T>], value: impl Fn(&T) -> f64) -> Vec<Line> {
    lines.iter().map(|line| line.map(&value)).collect()
}

/// Times as multiples of the shortest of all lines: only ratios inside one run can be compared.
pub fn as_ratios(lines: &[Line]) -> Vec<Line> {
    let points = lines.iter().filter_map(|line| line.points.as_ref().ok()).flatten();
    let shortest = points.map(|point| point.1).fold(f64::INFINITY, f64::min);
    lines.iter().map(|line| line.map(|time| time / shortest)).collect()
}

pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) =
        values.into_iter().fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// The middle of these; 0 of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The median of several rounds at every place. Rounds one after the other let a busy moment of the machine meet all lines.
pub fn medians(rounds: &[Vec<Line>]) -> Vec<Line> {
    let Some(first) = rounds.first() else { return Vec::new() };
    let median_of = |(number, line): (usize, &Line)| {
        let of_rounds = rounds.iter().map(|round| round[number].points.as_ref());
        let points = of_rounds.collect::<Result<Vec<_>, _>>().map_err(Clone::clone);
        let points = points.map(|rounds| {
            let at = |index: usize| median(rounds.iter().map(|points| points[index].1).collect());
            rounds[0].iter().enumerate().map(|(index, point)| (point.0, at(index))).collect()
        });
        Line { name: line.name.clone(), points }
    };
    first.iter().enumerate().map(median_of).collect()
}
