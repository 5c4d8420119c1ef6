//! Made-up tables of codes.

use datafusion_anonymize::pure::hierarchy::{Axis, LabelTable, Levels, Shape, Tree, intervals};
use datafusion_anonymize::pure::model::RowTable;

/// Sensitive values.
pub const VALUES: u32 = 12;

/// Codes column by column, and what they generalize to.
pub struct Table {
    pub kind: String,
    pub axes: Vec<Axis>,
    pub columns: Vec<Vec<u32>>,
    pub sensitive: Vec<u32>,
}

/// Cardinalities like those of a census: age, sex, race, marital status, education, country, work class, hours.
const CENSUS: [u32; 8] = [74, 2, 5, 7, 16, 41, 7, 99];

/// A table of one kind: `census` and `holes` (half of its cells missing) have few values, `dates` also zip codes and dates of
/// birth with hierarchies, `unique` a different value in every row and column, `skewed` one value in 90 % of the cells.
pub fn table(kind: &str, rows: usize, columns: usize) -> Table {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let line =
        |codes: u32, missing| Axis::line(&(0..codes).map(f64::from).collect::<Vec<_>>(), missing);
    let census = |random: &mut Random| -> Vec<Vec<u32>> {
        let mut table = vec![Vec::with_capacity(rows); columns];
        for _ in 0..rows {
            let shared = random.next();
            for (at, column) in table.iter_mut().enumerate() {
                let own = random.next();
                let draw = if own & 3 == 0 { shared.rotate_left(at as u32 * 8) } else { own };
                let codes = CENSUS[at % 8];
                // The smaller of two draws: low codes are frequent.
                column.push(((draw >> 8) as u32 % codes).min((draw >> 36) as u32 % codes));
            }
        }
        table
    };
    let (axes, table) = match kind {
        "adult" => return adult(),
        "census" => {
            ((0..columns).map(|at| line(CENSUS[at % 8], false)).collect(), census(&mut random))
        }
        "holes" => {
            let mut table = census(&mut random);
            for cell in table.iter_mut().flatten() {
                *cell = if random.next() & 1 == 0 { 0 } else { *cell + 1 };
            }
            ((0..columns).map(|at| line(CENSUS[at % 8], true)).collect(), table)
        }
        "dates" => {
            let mut table = census(&mut random);
            let zip: Vec<u32> = (0..rows).map(|_| zip(&mut random)).collect();
            let age = table[0].clone();
            let born = |age: &u32| 25_000 - (age + 17) * 365 - random.below(365);
            table[0] = age.iter().map(born).collect();
            table[columns - 1] = zip;
            let mut axes: Vec<Axis> = (0..columns).map(|at| line(CENSUS[at % 8], false)).collect();
            axes[0] = ranked(&mut table[0], &[31, 372, 3720]);
            axes[columns - 1] = ranked(&mut table[columns - 1], &[10, 100, 1000, 10_000]);
            (axes, table)
        }
        "unique" => {
            let mut shuffled = || {
                let mut codes: Vec<u32> = (0..rows as u32).collect();
                for at in (1..rows).rev() {
                    codes.swap(at, random.below(at as u32 + 1) as usize);
                }
                codes
            };
            (
                (0..columns).map(|_| line(rows as u32, false)).collect(),
                (0..columns).map(|_| shuffled()).collect(),
            )
        }
        "equal" => ((0..columns).map(|_| line(2, false)).collect(), vec![vec![1; rows]; columns]),
        "skewed" => {
            let mut cell = || if random.below(10) > 0 { 0 } else { random.below(100) };
            let table = (0..columns).map(|_| (0..rows).map(|_| cell()).collect()).collect();
            ((0..columns).map(|_| line(100, false)).collect(), table)
        }
        _ => panic!("tables are census, dates, unique, equal, skewed, holes and adult"),
    };
    let sensitive =
        (0..rows).map(|_| random.below(VALUES * 3 / 2).saturating_sub(VALUES / 2)).collect();
    Table { kind: kind.to_owned(), axes, columns: table, sensitive }
}

/// Zip codes: some prefixes are frequent.
fn zip(random: &mut Random) -> u32 {
    let region = random.below(90).min(random.below(90)) + 10;
    region * 1000 + random.below(300).min(random.below(1000))
}

/// Replaces values by ranks, and returns them.
fn rank(column: &mut [u32]) -> Vec<u32> {
    let mut values = column.to_vec();
    values.sort_unstable();
    values.dedup();
    for cell in column.iter_mut() {
        *cell = values.binary_search(cell).unwrap() as u32;
    }
    values
}

/// Replaces numbers by ranks, without a hierarchy.
fn numbered(column: &mut [u32]) -> Axis {
    Axis::line(&rank(column).iter().map(|value| f64::from(*value)).collect::<Vec<_>>(), false)
}

/// Replaces numbers by ranks; the axis has intervals of these widths.
fn ranked(column: &mut [u32], steps: &[i128]) -> Axis {
    let values = rank(column);
    let wide: Vec<i128> = values.iter().map(|value| i128::from(*value)).collect();
    let levels = intervals(&wide, steps, &|value| value.to_string()).unwrap();
    Axis::tree(Tree::new(&levels, values.len(), false).0, false)
}

/// The Adult census without missing values, from the directory `ADULT_DIR`.
fn adult() -> Table {
    let directory = std::env::var("ADULT_DIR").expect("set ADULT_DIR");
    let read = |file: &str| std::fs::read_to_string(format!("{directory}/{file}")).unwrap();
    let names = [
        "sex",
        "age",
        "race",
        "marital-status",
        "education",
        "native-country",
        "workclass",
        "salary-class",
    ];
    let rows = LabelTable::read_rows(&read("adult.csv")).unwrap();
    let header = &rows[0].1;
    let (mut axes, mut columns) = (Vec::new(), Vec::new());
    for name in names {
        let at = header.iter().position(|column| column == name).unwrap();
        if name == "age" {
            let mut ages: Vec<u32> =
                rows[1..].iter().map(|(_, row)| row[at].parse().unwrap()).collect();
            axes.push(numbered(&mut ages));
            columns.push(ages);
            continue;
        }
        let labels = LabelTable::parse(&read(&format!("hierarchies/{name}.csv"))).unwrap();
        let leaf = |value: &String| labels.leaves().iter().position(|leaf| leaf == value).unwrap();
        let leaves: Vec<usize> = rows[1..].iter().map(|(_, row)| leaf(&row[at])).collect();
        let mut observed = leaves.clone();
        observed.sort_unstable();
        observed.dedup();
        let levels: Levels = labels.levels_over(&observed);
        let (tree, order) = Tree::new(&levels, observed.len(), false);
        let mut rank = vec![0; observed.len()];
        order.iter().zip(0..).for_each(|(value, code)| rank[*value as usize] = code);
        columns
            .push(leaves.iter().map(|leaf| rank[observed.binary_search(leaf).unwrap()]).collect());
        axes.push(Axis::tree(tree, false));
    }
    let mut random = Random(1);
    let sensitive = rows[1..].iter().map(|_| random.below(VALUES)).collect();
    Table { kind: "adult".to_owned(), axes, columns, sensitive }
}

impl Table {
    /// The columns with a hierarchy each, of intervals where they have none.
    pub fn trees(&self) -> Vec<Axis> {
        let tree = |axis: &Axis| {
            if matches!(axis.shape, Shape::Tree(_)) {
                return axis.clone();
            }
            let values: Vec<i128> =
                (0..i128::from(axis.codes) - i128::from(axis.missing)).collect();
            let steps: Vec<i128> = (1..12)
                .map(|step| 1 << (2 * step))
                .take_while(|step| *step < i128::from(axis.codes).max(5))
                .collect();
            let levels = intervals(&values, &steps, &|value| value.to_string()).unwrap();
            Axis::tree(Tree::new(&levels, values.len(), axis.missing).0, axis.missing)
        };
        self.axes.iter().map(tree).collect()
    }

    /// The person of every row: ten rows each in the mean.
    pub fn persons(&self) -> Vec<u32> {
        let mut random = Random(7);
        let persons = (self.sensitive.len() as u32 / 10).max(1);
        self.sensitive.iter().map(|_| random.below(persons)).collect()
    }
}

/// The rows of these columns.
pub fn rows(columns: &[Vec<u32>]) -> RowTable {
    macro_rules! of_width {
        ($($width:literal)*) => {
            match columns.len() {
                $($width => {
                    let row = |at: usize| -> [u32; $width] { std::array::from_fn(|column| columns[column][at]) };
                    RowTable::from_codes(&(0..columns[0].len()).map(row).collect::<Vec<_>>()).unwrap()
                })*
                _ => panic!("columns are 2, 5, 8, 16 or 30"),
            }
        };
    }
    of_width!(2 3 5 6 8 9 16 17 30 31)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u32) -> u32 {
        (((self.next() >> 32) * u64::from(end)) >> 32) as u32
    }
}
