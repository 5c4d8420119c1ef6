//! The people of the experiments, their hierarchies, and how sensitive their occupations are.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::common::{Result, exec_err};
use datafusion::datasource::MemTable;
use datafusion::prelude::{CsvReadOptions, SessionContext};

pub const ROWS: usize = 10_000;

/// Quasi-identifiers in the order of the paper. All but age have a hierarchy.
const ADULT: [&str; 9] = [
    "age",
    "workclass",
    "education",
    "marital_status",
    "relationship",
    "race",
    "sex",
    "native_country",
    "salary_class",
];

/// The same without the one that `sample_census` does not have.
const CENSUS: [&str; 8] = [
    "age",
    "workclass",
    "education",
    "marital_status",
    "race",
    "sex",
    "native_country",
    "salary_class",
];

/// The occupations of every level of sensitivity, as the paper grades them.
pub const LEVELS: [&[&str]; 5] = [
    &["Protective-serv", "Armed-Forces"],
    &["Exec-managerial", "Prof-specialty", "Adm-clerical"],
    &["Tech-support", "Craft-repair", "Machine-op-inspct", "Transport-moving"],
    &["Priv-house-serv", "Farming-fishing", "Handlers-cleaners", "Sales"],
    &["Other-service"],
];

const RELATIONSHIP_LEVELS: &str = "SELECT * FROM (VALUES
    ('Husband', 'Spouse', '*'), ('Wife', 'Spouse', '*'),
    ('Own-child', 'Relative', '*'), ('Other-relative', 'Relative', '*'),
    ('Not-in-family', 'Alone', '*'), ('Unmarried', 'Alone', '*'))";

/// The table `people`, and a table `…_levels` for every quasi-identifier but age.
pub struct Data {
    pub name: &'static str,
    pub quasi_identifiers: &'static [&'static str],
}

pub async fn load_census(context: &SessionContext) -> Result<Data> {
    let census = format!(
        "CREATE TABLE people AS SELECT {}, occupation FROM sample_census(rows => {ROWS}, seed => 7)",
        CENSUS.join(", ")
    );
    context.sql(&census).await?.collect().await?;
    for name in &CENSUS[1..] {
        let levels = match *name {
            "salary_class" => "SELECT DISTINCT salary_class, '*' FROM people".to_owned(),
            _ => format!("SELECT * FROM sample_hierarchy(column => '{name}')"),
        };
        let create = format!("CREATE TABLE {name}_levels AS {levels}");
        context.sql(&create).await?.collect().await?;
    }
    finish_loading(context, "sample_census", &CENSUS).await
}

pub async fn load_adult(context: &SessionContext, adult: &Path) -> Result<Data> {
    let path = |name: &str| adult.join(name).display().to_string();
    context.register_csv("adult_file", path("adult_full.csv"), CsvReadOptions::new()).await?;
    let names = ADULT.iter().chain(&["occupation"]);
    let columns: Vec<String> =
        names.clone().map(|name| format!("\"{}\" AS {name}", name.replace('_', "-"))).collect();
    let complete: Vec<String> = names.clone().map(|name| format!("{name} IS NOT NULL")).collect();
    // Batches of a file come in any order; sorted rows are drawn alike every time.
    let adult = format!(
        "SELECT * FROM (SELECT {} FROM adult_file) WHERE {} ORDER BY {}",
        columns.join(", "),
        complete.join(" AND "),
        names.cloned().collect::<Vec<_>>().join(", ")
    );
    let batches = context.sql(&adult).await?.collect().await?;
    let people = draw(&batches)?;
    let people = MemTable::try_new(people.schema(), vec![vec![people]])?;
    context.register_table("people", Arc::new(people))?;
    for name in &ADULT[1..] {
        let levels = match *name {
            // There is no file for it.
            "relationship" => RELATIONSHIP_LEVELS.to_owned(),
            _ => {
                let file = path(&format!("hierarchies/{}.csv", name.replace('_', "-")));
                let options = CsvReadOptions::new().has_header(false).delimiter(b';');
                context.register_csv(format!("{name}_file"), file, options).await?;
                format!("SELECT * FROM {name}_file")
            }
        };
        let create = format!("CREATE TABLE {name}_levels AS {levels}");
        context.sql(&create).await?.collect().await?;
    }
    finish_loading(context, "Adult", &ADULT).await
}

async fn finish_loading(
    context: &SessionContext,
    name: &'static str,
    quasi_identifiers: &'static [&'static str],
) -> Result<Data> {
    let graded = LEVELS.iter().zip(1..);
    let graded = graded.flat_map(|(values, level)| values.iter().map(move |value| (value, level)));
    let rows: Vec<String> = graded.map(|(value, level)| format!("('{value}', {level})")).collect();
    let levels = format!("CREATE TABLE levels AS VALUES {}", rows.join(", "));
    context.sql(&levels).await?.collect().await?;
    Ok(Data { name, quasi_identifiers })
}

/// As many rows as the experiments take, at random but always the same.
fn draw(batches: &[RecordBatch]) -> Result<RecordBatch> {
    let [first, ..] = batches else { return exec_err!("the Adult census is empty") };
    let all = concat_batches(&first.schema(), batches)?;
    let mut rows: Vec<u32> = (0..all.num_rows() as u32).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for at in 0..ROWS.min(rows.len()) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let other = at + (state % (rows.len() - at) as u64) as usize;
        rows.swap(at, other);
    }
    rows.truncate(ROWS);
    Ok(take_record_batch(&all, &UInt32Array::from(rows))?)
}
