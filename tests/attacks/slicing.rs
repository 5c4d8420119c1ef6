//! The attacker who looks for people in a sliced release: rows whose quasi-identifiers together are one real person's.
//!
//! Values stay exact in a sliced release, so a row that is put together from several persons can be a real one by
//! accident. That must happen no more often than if the groups were permuted independently, and seldom enough
//! that a real row cannot be told from the others.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use datafusion::prelude::{CsvReadOptions, SessionContext};

use crate::adult;
use crate::attacks::{rows, session};

const SENSITIVE: &str = "occupation";
const SEEDS: [&str; 3] = ["one secret of many", "a second secret", "the third of them"];
const K: usize = 10;
const L: usize = 3;

/// A table, its quasi-identifiers and its hierarchies, the sensitive column's among them.
struct Table {
    context: SessionContext,
    name: &'static str,
    columns: Vec<&'static str>,
    hierarchies: String,
}

/// What a release shows of people.
struct Shown {
    /// The share of the rows that are a unique real tuple of quasi-identifiers.
    unique: f64,
    /// The same if the groups of every bucket are permuted independently, without a thought for who was who.
    by_accident: f64,
    /// How many rows show two parts of one person that nobody else in the bucket has.
    together: usize,
    /// How many pairs of parts were looked at for that.
    pairs: usize,
    retention: f64,
    naming_chance: f64,
    suppressed: usize,
    undivided: f64,
}

type Tuple = Vec<Option<String>>;

impl Table {
    fn options(&self, sensitive: &str) -> String {
        let names: Vec<String> = self.columns.iter().map(|name| format!("'{name}'")).collect();
        format!("quasi_identifiers => [{}], sensitive => ['{sensitive}']", names.join(", "))
    }

    async fn originals(&self) -> Vec<Tuple> {
        let sql = format!("SELECT {} FROM {}", self.columns.join(", "), self.name);
        rows(&self.context, &sql).await.unwrap()
    }

    fn release(&self, method: &str, seed: &str) -> String {
        let hierarchies = &self.hierarchies;
        format!(
            "anonymize((SELECT {}, {SENSITIVE} FROM {}), method => '{method}', k => {K}, l => {L}, {},
               hierarchies => {{{hierarchies}}}, bucket_id => true, column_groups => true, seed => '{seed}')",
            self.columns.join(", "),
            self.name,
            self.options(SENSITIVE)
        )
    }

    async fn attack(&self, originals: &[Tuple], method: &str, seed: &str) -> Shown {
        let view = format!("CREATE TABLE sliced AS SELECT * FROM {}", self.release(method, seed));
        self.context.sql(&view).await.unwrap().collect().await.unwrap();
        let published =
            format!("SELECT {}, bucket_id, column_groups FROM sliced", self.columns.join(", "));
        let published = rows(&self.context, &published).await.unwrap();
        let suppressed = originals.len() - published.len();
        let times = times(originals);
        let real = |tuple: &[Option<String>]| times.get(tuple) == Some(&1);
        let width = self.columns.len();
        let mut buckets: BTreeMap<Option<String>, Vec<&Tuple>> = BTreeMap::new();
        published.iter().for_each(|row| buckets.entry(row[width].clone()).or_default().push(row));
        let (mut unique, mut by_accident) = (0, 0);
        for (number, bucket) in buckets.values().enumerate() {
            unique += bucket.iter().filter(|row| real(&row[..width])).count();
            let groups = self.groups(bucket[0][width + 1].as_deref().unwrap());
            let independent = independent(bucket, &groups, (seed, number));
            by_accident += independent.iter().filter(|row| real(row)).count();
        }
        let (together, pairs) = self.together(method, seed).await;
        let rows = published.len() as f64;
        let report = self.report().await;
        let shown = Shown {
            unique: unique as f64 / rows,
            by_accident: by_accident as f64 / rows,
            together,
            pairs,
            retention: self.retention().await,
            naming_chance: report["naming_chance"],
            suppressed,
            undivided: report["undivided_buckets"],
        };
        // The report says the same of the rows.
        let reported = report["unique_intact_tuples"];
        assert!((reported - shown.unique).abs() < 1e-9, "{reported} and {}", shown.unique);
        self.context.sql("DROP TABLE sliced").await.unwrap().collect().await.unwrap();
        println!(
            "{} {method}: {:.4} unique real tuples ({:.4} by accident), retention {:.4}, chance {:.4}, {} of {} buckets \
             undivided",
            self.name,
            shown.unique,
            shown.by_accident,
            shown.retention,
            shown.naming_chance,
            shown.undivided,
            buckets.len()
        );
        shown
    }

    /// The groups of quasi-identifiers of a bucket, by position; what stands beside the sensitive column is one.
    fn groups(&self, named: &str) -> Vec<Vec<usize>> {
        let group = |names: &str| {
            names
                .split(", ")
                .filter_map(|name| self.columns.iter().position(|c| *c == name))
                .collect()
        };
        named.split(" | ").map(group).collect()
    }

    /// Rows of a release that keeps a number of every row beside the quasi-identifiers: how many show two parts that in
    /// their bucket only one person has, the number being a part too; and how many pairs of parts that only one has.
    async fn together(&self, method: &str, seed: &str) -> (usize, usize) {
        let (columns, name) = (self.columns.join(", "), self.name);
        let some = format!("SELECT {columns}, id, {SENSITIVE} FROM {name} WHERE id <= 6000");
        let numbered = format!(
            "SELECT {columns}, id, bucket_id, column_groups FROM anonymize(({some}), method => '{method}', k => {K},
               l => {L}, {}, keep => ['id'], bucket_id => true, column_groups => true, seed => '{seed}')",
            self.options(SENSITIVE)
        );
        let published = rows(&self.context, &numbered).await.unwrap();
        let originals = rows(&self.context, &some).await.unwrap();
        let width = self.columns.len();
        let originals: HashMap<Option<String>, Tuple> =
            originals.into_iter().map(|row| (row[width].clone(), row)).collect();
        let mut buckets: BTreeMap<Option<String>, Vec<Tuple>> = BTreeMap::new();
        published
            .into_iter()
            .for_each(|row| buckets.entry(row[width + 1].clone()).or_default().push(row));
        let (mut together, mut pairs) = (0, 0);
        for bucket in buckets.values() {
            // The kept number is permuted within the bucket: together it names the bucket's people.
            let people: Vec<&Tuple> = bucket.iter().map(|row| &originals[&row[width]]).collect();
            let mut groups = self.groups(bucket[0][width + 2].as_deref().unwrap());
            groups.push(vec![width]);
            let part = |row: &Tuple, group: &[usize]| -> Tuple {
                group.iter().map(|at| row[*at].clone()).collect()
            };
            for row in bucket {
                let owner = |group: &Vec<usize>| {
                    let own = part(row, group);
                    let mut owners = (0..people.len()).filter(|at| part(people[*at], group) == own);
                    owners.next().filter(|_| owners.next().is_none())
                };
                let mut owners: Vec<usize> =
                    groups.iter().filter(|group| !group.is_empty()).filter_map(owner).collect();
                let parts = owners.len();
                owners.sort_unstable();
                owners.dedup();
                together += usize::from(owners.len() < parts);
                pairs += parts * parts.saturating_sub(1) / 2;
            }
        }
        (together, pairs)
    }

    /// Measures of the privacy report that there is one of.
    async fn report(&self) -> HashMap<String, f64> {
        let sql = format!(
            "SELECT measure, value FROM privacy_report(sliced, bucket => 'bucket_id', original => {}, k => {K}, l => {L}, {})
             WHERE measure IN ('naming_chance', 'undivided_buckets', 'unique_intact_tuples')",
            self.name,
            self.options(SENSITIVE)
        );
        let lines = rows(&self.context, &sql).await.unwrap();
        assert_eq!(lines.len(), 3);
        let measure = |line: &Tuple| (line[0].clone().unwrap(), parsed(&line[1]));
        lines.iter().map(measure).collect()
    }

    async fn retention(&self) -> f64 {
        let sql = format!(
            "SELECT value FROM utility_report({}, sliced, {}, hierarchies => {{{}}}, min_support => 0.2,
               min_confidence => 0.8, max_columns => 4) WHERE measure = 'association_retention'",
            self.name,
            self.options(SENSITIVE),
            self.hierarchies
        );
        let lines = rows(&self.context, &sql).await.unwrap();
        assert_eq!(lines.len(), 1);
        parsed(&lines[0][0])
    }

    /// The paper's buckets where it finds no associations: all quasi-identifiers in one column. Rows are whole then,
    /// in all buckets that the paper does not generalize.
    async fn control(&self, originals: &[Tuple], sensitive: &str) -> f64 {
        let sql = format!(
            "SELECT {columns} FROM anonymize((SELECT {columns}, {sensitive} FROM {}), method => 'asg_ls', variant => 'paper',
               min_support => 1.0, min_confidence => 1.0, k => {K}, l => {L}, {}, seed => 'of the control')",
            self.name,
            self.options(sensitive),
            columns = self.columns.join(", "),
        );
        let times = times(originals);
        let published = rows(&self.context, &sql).await.unwrap();
        let unique = published.iter().filter(|row| times.get(row.as_slice()) == Some(&1)).count();
        let all = times.values().filter(|times| **times == 1).count();
        let share = unique as f64 / published.len() as f64;
        println!(
            "{} as the paper slices it: {share:.4} unique real tuples, {:.4} in the original",
            self.name,
            all as f64 / originals.len() as f64
        );
        share
    }
}

fn parsed(cell: &Option<String>) -> f64 {
    cell.as_deref().unwrap().parse().unwrap()
}

/// How often each tuple occurs.
fn times(rows: &[Tuple]) -> HashMap<&[Option<String>], usize> {
    let mut times = HashMap::new();
    rows.iter().for_each(|row| *times.entry(row.as_slice()).or_default() += 1);
    times
}

/// The rows of a bucket with every group permuted on its own.
fn independent(bucket: &[&Tuple], groups: &[Vec<usize>], number: (&str, usize)) -> Vec<Tuple> {
    let width = groups.iter().flatten().count();
    let mut rows: Vec<Tuple> = bucket.iter().map(|row| row[..width].to_vec()).collect();
    for (group, columns) in groups.iter().enumerate() {
        let mut order: Vec<usize> = (0..bucket.len()).collect();
        order.sort_by_cached_key(|row| {
            let mut hasher = DefaultHasher::new();
            (number, group, row).hash(&mut hasher);
            hasher.finish()
        });
        for (row, from) in rows.iter_mut().zip(order) {
            columns.iter().for_each(|at| row[*at].clone_from(&bucket[from][*at]));
        }
    }
    rows
}

/// What is asked of every release: unique real tuples at most this share. The control finds twice as many as any of them.
async fn hold(table: &Table, bounds: [(&str, f64); 2], least_retention: f64, control: &str) {
    let originals = table.originals().await;
    let mut largest = 0.0f64;
    for (method, most) in bounds {
        for seed in SEEDS {
            let shown = table.attack(&originals, method, seed).await;
            assert!(shown.unique <= most, "{method}: {} unique real tuples", shown.unique);
            let by_accident = shown.by_accident;
            assert!(shown.unique <= by_accident, "{method}: {by_accident} by accident");
            assert_eq!(shown.together, 0, "{method}: rows show two parts of one person");
            assert!(shown.pairs > 5_000, "{method}: {} pairs of parts", shown.pairs);
            assert!(shown.retention >= least_retention, "{method}: {}", shown.retention);
            assert!(shown.naming_chance <= 1.0 / L as f64 + 1e-9, "{method}");
            assert_eq!(shown.suppressed, 0, "{method}");
            largest = largest.max(shown.unique);
        }
    }
    let control = table.control(&originals, control).await;
    assert!(control > 2.0 * largest, "the attack finds {control} where rows are whole");
}

#[tokio::test]
async fn adult_rows_are_nobodys() {
    let Some(directory) = adult("adult_rows_are_nobodys") else { return };
    let table = load_adult(&directory).await;
    assert_eq!(table.originals().await.len(), 45_222);
    hold(&table, [("asg_ls", 0.15), ("slicing", 0.25)], 0.96, "fnlwgt").await;
}

#[tokio::test]
async fn census_rows_are_nobodys() {
    let context = session();
    let sql = "CREATE TABLE census AS SELECT age, sex, race, marital_status, education,
        native_country, workclass, hours_per_week, salary_class, occupation, row_number() OVER () AS id
        FROM sample_census(rows => 6000, seed => 11)";
    context.sql(sql).await.unwrap().collect().await.unwrap();
    let columns = vec![
        "age",
        "sex",
        "race",
        "marital_status",
        "education",
        "native_country",
        "workclass",
        "hours_per_week",
        "salary_class",
    ];
    let of = |name: &&str| format!("{name}: sample_hierarchy(column => '{name}')");
    let with =
        ["sex", "race", "marital_status", "education", "native_country", "workclass", SENSITIVE];
    let hierarchies = with.iter().map(of).collect::<Vec<String>>().join(", ");
    let table = Table { context, name: "census", columns, hierarchies };
    hold(&table, [("asg_ls", 0.15), ("slicing", 0.2)], 0.92, "id").await;
}

/// The complete rows of Adult under names without dashes, and its hierarchies as tables.
async fn load_adult(directory: &Path) -> Table {
    const COLUMNS: [&str; 13] = [
        "age",
        "education",
        "marital_status",
        "sex",
        "workclass",
        "race",
        "native_country",
        "relationship",
        "hours_per_week",
        "education_num",
        "capital_gain",
        "capital_loss",
        "salary_class",
    ];
    const WITH_HIERARCHY: [&str; 7] =
        ["education", "marital_status", "sex", "workclass", "race", "native_country", SENSITIVE];
    let context = session();
    let path = |name: &str| directory.join(name).display().to_string();
    let csv = CsvReadOptions::new();
    context.register_csv("adult_file", path("adult_full.csv"), csv).await.unwrap();
    let names: Vec<&str> = COLUMNS.into_iter().chain([SENSITIVE, "fnlwgt"]).collect();
    let quoted = |name: &&str| format!("\"{}\"", name.replace('_', "-"));
    let columns: Vec<String> =
        names.iter().map(|name| format!("{} AS {name}", quoted(name))).collect();
    let complete: Vec<String> =
        names.iter().map(|name| format!("{} IS NOT NULL", quoted(name))).collect();
    let sql = format!(
        "CREATE TABLE adult AS SELECT {}, row_number() OVER () AS id FROM adult_file WHERE {}",
        columns.join(", "),
        complete.join(" AND ")
    );
    context.sql(&sql).await.unwrap().collect().await.unwrap();
    for name in WITH_HIERARCHY {
        let file = path(&format!("hierarchies/{}.csv", name.replace('_', "-")));
        let options = CsvReadOptions::new().has_header(false).delimiter(b';');
        context.register_csv(format!("{name}_file"), file, options).await.unwrap();
        let sql = format!("CREATE TABLE {name}_levels AS SELECT * FROM {name}_file");
        context.sql(&sql).await.unwrap().collect().await.unwrap();
    }
    let of = |name: &str| format!("{name}: {name}_levels");
    let hierarchies = WITH_HIERARCHY.map(of).join(", ");
    Table { context, name: "adult", columns: COLUMNS.to_vec(), hierarchies }
}
