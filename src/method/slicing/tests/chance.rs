//! How surely somebody who knows everything but the seed and the sensitive values names one of them: counted.
//!
//! Up to which sizes: every way back is counted one by one for buckets in which parts repeat, of two to four columns and up
//! to six rows, each way as likely as it is drawn, and of five columns and seven rows. Where no part repeats only the
//! pairing of persons and sensitive values is unknown, and buckets of up to five columns and ten rows are searched for the worst.

use std::sync::LazyLock;

use super::*;
use crate::method::slicing::permutation::permutations;
use crate::method::slicing::promise::needed_rows;

/// What the attacker sees of a bucket: the parts of every column in the order of the published rows, and
/// knows of its persons: the parts of every column, everything but the sensitive values.
struct Attack {
    /// By column beside the sensitive attribute's, by published row.
    seen: Vec<Vec<u32>>,
    /// By column, by person.
    known: Vec<Vec<u32>>,
    /// By published row.
    sensitive: Vec<u32>,
}

impl Attack {
    /// The largest chance of any sensitive value to be any person's own. Every bucket that could have been
    /// permuted into this one is counted, with every way to permute it.
    fn chance(&self) -> f64 {
        let rows = self.sensitive.len();
        let mut ways = vec![vec![0.0; rows]; rows];
        self.each_pairing(&mut Vec::new(), &mut ways);
        let of_person = |ways: &Vec<f64>| {
            let mut values: BTreeMap<u32, f64> = BTreeMap::new();
            for (row, ways) in ways.iter().enumerate() {
                *values.entry(self.sensitive[row]).or_default() += ways;
            }
            let all: f64 = values.values().sum();
            values.into_values().fold(0.0, f64::max) / all
        };
        ways.iter().map(of_person).fold(0.0, f64::max)
    }

    /// Gives every person one of the sensitive rows, in all ways.
    fn each_pairing(&self, pairing: &mut Vec<usize>, ways: &mut [Vec<f64>]) {
        let (person, rows) = (pairing.len(), self.sensitive.len());
        if person == rows {
            let weight = self.placings(&mut vec![pairing.clone()], &mut Vec::new());
            pairing.iter().enumerate().for_each(|(person, row)| ways[person][*row] += weight);
            return;
        }
        for row in (0..rows).filter(|row| !pairing.contains(row)).collect::<Vec<usize>>() {
            pairing.push(row);
            self.each_pairing(pairing, ways);
            pairing.pop();
        }
    }

    /// How likely the persons' parts of all columns come to stand where they are seen, none where the person's part
    /// of another column is. Columns are drawn one after the other, each evenly among those that are left.
    fn placings(&self, taken: &mut Vec<Vec<usize>>, placing: &mut Vec<usize>) -> f64 {
        let column = taken.len() - 1;
        let (person, rows) = (placing.len(), self.sensitive.len());
        if column == self.seen.len() {
            return 1.0;
        }
        if person == rows {
            taken.push(std::mem::take(placing));
            // How many are left for the next column hardly differs, and costs too much to count in larger buckets.
            let is_counted = rows <= 6 && taken.len() <= self.seen.len();
            let left = if is_counted { possible(taken) } else { 1.0 };
            let weight = self.placings(taken, &mut Vec::new()) / left;
            *placing = taken.pop().unwrap_or_default();
            return weight;
        }
        let mut weight = 0.0;
        for row in 0..rows {
            let is_free = !placing.contains(&row) && taken.iter().all(|other| other[person] != row);
            if is_free && self.seen[column][row] == self.known[column][person] {
                placing.push(row);
                weight += self.placings(taken, placing);
                placing.pop();
            }
        }
        weight
    }
}

/// How many permutations differ from all of these at every place.
fn possible(taken: &[Vec<usize>]) -> f64 {
    let may = |row: usize, value: usize| taken.iter().all(|other| other[row] != value);
    let rows = taken[0].len();
    *ways(rows, &may).last().unwrap_or(&0.0)
}

/// By set of values, in how many ways the first rows have just these.
fn ways(rows: usize, may: &dyn Fn(usize, usize) -> bool) -> Vec<f64> {
    let mut ways = vec![0.0; 1 << rows];
    ways[0] = 1.0;
    for set in 0..ways.len() - 1 {
        let row = set.count_ones() as usize;
        for value in (0..rows).filter(|value| set >> value & 1 == 0 && may(row, *value)) {
            ways[set | 1 << value] += ways[set];
        }
    }
    ways
}

/// The largest chance that `most` rows hold a person's value where no part repeats: every pairing that keeps everybody
/// off the places where a part is seen is as likely as any other.
fn chance_apart(columns: &[Vec<u32>], most: usize) -> f64 {
    let rows = columns[0].len();
    let may = |row: usize, value: usize| columns.iter().all(|c| c[row] as usize != value);
    let before = ways(rows, &may);
    let after = ways(rows, &|row, value| may(rows - 1 - row, value));
    let all = before[before.len() - 1];
    let mut worst = 0.0f64;
    for person in 0..rows {
        let mut shares: Vec<f64> = vec![0.0; rows];
        for set in (0..before.len()).filter(|set| set >> person & 1 == 0) {
            let row = set.count_ones() as usize;
            if may(row, person) {
                let rest = !(set | 1 << person) & (before.len() - 1);
                shares[row] += before[set] * after[rest] / all;
            }
        }
        shares.sort_by(|a, b| b.total_cmp(a));
        worst = worst.max(shares[..most].iter().sum());
    }
    worst
}

fn draws(mut state: u64) -> impl FnMut(u32) -> u32 {
    move |end: u32| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(end)) as u32
    }
}

/// A bucket that was attacked.
struct Attacked {
    columns: usize,
    rows: usize,
    /// Rows of the most frequent sensitive value.
    most: usize,
    chance: f64,
}

/// Many buckets of two to five columns whose parts repeat. Counting takes long, so every bucket is attacked once.
static ATTACKED: LazyLock<Vec<Attacked>> =
    LazyLock::new(|| attacked().unwrap_or_else(|error| panic!("{error}")));

fn attacked() -> Result<Vec<Attacked>> {
    let mut draw = draws(42);
    let seed = Seed::from_bytes(b"attack");
    let mut attacked = Vec::new();
    for number in 0..400 {
        let columns = if number % 20 == 0 { 5 } else { 2 + draw(3) as usize };
        let rows = if columns == 5 { 7 } else { 3 + draw(4) as usize };
        let different = if draw(2) == 0 { rows } else { 1 + draw(rows as u32) as usize };
        let sensitive: Vec<u32> = (0..rows as u32).map(|at| at % different as u32).collect();
        // Where all have one value, it is everybody's.
        if columns > rows || different == 1 {
            continue;
        }
        // Counting costs the product of all ways to place equal parts.
        let parts = if columns < 4 { 2 + draw(3) } else { rows as u32 + 1 + draw(3) };
        let known: Vec<Vec<u32>> =
            (1..columns).map(|_| (0..rows).map(|_| draw(parts)).collect()).collect();
        let placed = permutations(&seed, number, rows, columns - 1)?;
        let seen = known.iter().zip(&placed);
        let seen =
            seen.map(|(known, placed)| placed.iter().map(|at| known[*at as usize]).collect());
        let attack = Attack { seen: seen.collect(), known, sensitive };
        let most = rows.div_ceil(different);
        attacked.push(Attacked { columns, rows, most, chance: attack.chance() });
    }
    Ok(attacked)
}

/// The largest chances by columns, each with the number of buckets that are allowed.
fn worst(is_allowed: impl Fn(&Attacked) -> bool) -> BTreeMap<usize, (f64, usize)> {
    let mut found: BTreeMap<usize, (f64, usize)> = BTreeMap::new();
    for bucket in ATTACKED.iter().filter(|bucket| is_allowed(bucket)) {
        let (worst, buckets) = found.entry(bucket.columns).or_default();
        *worst = worst.max(bucket.chance);
        *buckets += 1;
    }
    found
}

#[test]
fn nobody_names_a_sensitive_value_with_more_than_the_chance_asked_for() {
    for l in 2..=3 {
        let found = worst(|bucket| needed_rows(l * bucket.most, bucket.columns) <= bucket.rows);
        for (columns, (worst, buckets)) in &found {
            println!("l = {l}, {columns} columns: {worst:.3} at worst in {buckets} buckets");
            assert!(*worst <= 1.0 / l as f64 + 1e-9, "{worst} where l = {l}, {columns} columns");
            assert!(*buckets > 4, "{buckets} buckets of {columns} columns where l = {l}");
        }
        let reached: Vec<usize> = found.into_keys().collect();
        assert_eq!(reached, if l == 2 { vec![2, 3, 4, 5] } else { vec![2, 3] });
    }
}

#[test]
fn different_values_alone_give_more_away() {
    let found = worst(|_| true);
    assert_eq!(found.len(), 4);
    assert!(found.values().all(|(worst, buckets)| *worst > 0.5 && *buckets > 4), "{found:?}");
}

/// Looks for columns that give as much away as possible by changing places of parts that may be changed.
fn worst_apart(rows: usize, columns: usize, most: usize, steps: usize) -> Result<f64> {
    let mut draw = draws((rows * 64 + columns * 8 + most) as u64);
    let seed = Seed::from_bytes(b"search");
    let mut chosen = permutations(&seed, (rows * columns) as u64, rows, columns - 1)?;
    let mut worst = chance_apart(&chosen, most);
    for _ in 0..steps {
        let mut other = chosen.clone();
        let column = draw(columns as u32 - 1) as usize;
        other[column].swap(draw(rows as u32) as usize, draw(rows as u32) as usize);
        let differs = |row: usize| {
            let at: Vec<u32> = other.iter().map(|column| column[row]).collect();
            (0..at.len()).all(|one| !at[..one].contains(&at[one]))
        };
        let found = if (0..rows).all(differs) { chance_apart(&other, most) } else { 0.0 };
        if found >= worst {
            (chosen, worst) = (other, found);
        }
    }
    Ok(worst)
}

#[test]
fn no_columns_give_more_away_where_no_part_repeats() -> Result<()> {
    let mut searched = 0;
    for columns in 2..=5 {
        for rows in columns + 2..=10 {
            for most in 1..=(rows - columns) / 2 {
                let l = (rows - needed_rows(0, columns)) / most;
                let worst = worst_apart(rows, columns, most, 60)?;
                assert!(
                    worst <= 1.0 / l as f64 + 1e-9,
                    "{worst}: {rows} rows, {columns} columns, l = {l}"
                );
                searched += 1;
            }
        }
    }
    assert_eq!(searched, 43);
    Ok(())
}
