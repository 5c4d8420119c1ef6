//! A reader who uses the ordinary correlation of the two tables (deFinetti's attack): learns by expectation
//! maximization how each column depends on the sensitive value, starting from nothing but the classes.

use std::collections::HashMap;

use crate::attacks::equal_tuples::TwoTables;

const ROUNDS: usize = 10;

/// The chance of every sensitive value for every row.
pub fn learn<const D: usize>(tables: &TwoTables, columns: &[[u32; D]]) -> Vec<Vec<f64>> {
    let values = tables.values.iter().flatten().max().map_or(0, |value| *value as usize + 1);
    let mut counts = vec![vec![0.0; values]; tables.values.len()];
    for (counts, class) in counts.iter_mut().zip(&tables.values) {
        class.iter().for_each(|value| counts[*value as usize] += 1.0);
    }
    let mut rows = vec![Vec::new(); tables.values.len()];
    for (row, class) in tables.class_of.iter().enumerate() {
        rows[*class].push(row);
    }
    // Before anything is learned every row of a class has the shares of its class.
    let mut chances: Vec<Vec<f64>> = (tables.class_of.iter())
        .map(|class| counts[*class].iter().map(|count| count / rows[*class].len() as f64).collect())
        .collect();
    for _ in 0..ROUNDS {
        let dependence = Dependence::of(columns, &chances, values);
        for (rows, counts) in rows.iter().zip(&counts) {
            for row in rows {
                chances[*row] = dependence.likelihoods(&columns[*row]);
            }
            share_out(rows, counts, &mut chances);
        }
    }
    chances
}

/// How often every value of a column goes with every sensitive value.
struct Dependence<const D: usize> {
    together: [HashMap<u32, Vec<f64>>; D],
    totals: Vec<f64>,
}

impl<const D: usize> Dependence<D> {
    fn of(columns: &[[u32; D]], chances: &[Vec<f64>], values: usize) -> Self {
        let mut together: [HashMap<u32, Vec<f64>>; D] = std::array::from_fn(|_| HashMap::new());
        let mut totals = vec![0.0; values];
        for (cells, chances) in columns.iter().zip(chances) {
            for (together, cell) in together.iter_mut().zip(cells) {
                let sums = together.entry(*cell).or_insert_with(|| vec![0.0; values]);
                sums.iter_mut().zip(chances).for_each(|(sum, chance)| *sum += chance);
            }
            totals.iter_mut().zip(chances).for_each(|(total, chance)| *total += chance);
        }
        Self { together, totals }
    }

    /// How likely a row's cells are for each sensitive value, columns being taken for independent.
    fn likelihoods(&self, cells: &[u32; D]) -> Vec<f64> {
        let of_value = |value: usize| {
            let of_column = |(together, cell): (&HashMap<u32, Vec<f64>>, &u32)| {
                (together[cell][value] + 1.0) / (self.totals[value] + together.len() as f64)
            };
            self.together.iter().zip(cells).map(of_column).product()
        };
        (0..self.totals.len()).map(of_value).collect()
    }
}

/// Scales likelihoods until every row has one value and every value as many rows as the class shows.
fn share_out(rows: &[usize], counts: &[f64], chances: &mut [Vec<f64>]) {
    for _ in 0..5 {
        for (value, count) in counts.iter().enumerate() {
            let sum: f64 = rows.iter().map(|row| chances[*row][value]).sum();
            rows.iter().for_each(|row| chances[*row][value] *= count / sum.max(1e-300));
        }
        for row in rows {
            let sum: f64 = chances[*row].iter().sum();
            chances[*row].iter_mut().for_each(|chance| *chance /= sum.max(1e-300));
        }
    }
}
