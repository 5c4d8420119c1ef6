//! The people of the experiments: the Adult census where there is one, otherwise `sample_census`.

use std::path::{Path, PathBuf};

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::common::{Result, exec_err};
use datafusion::prelude::CsvReadOptions;

use crate::columns::{Column, names};
use crate::random::Random;
use crate::workspace::Workspace;

/// Adult's hierarchies have no file for `relationship`.
const RELATIONSHIP_LEVELS: &str = "SELECT * FROM (VALUES
    ('Husband', 'Spouse', '*'), ('Wife', 'Spouse', '*'),
    ('Own-child', 'Relative', '*'), ('Other-relative', 'Relative', '*'),
    ('Not-in-family', 'Alone', '*'), ('Unmarried', 'Alone', '*'))";

/// The columns and rows that an experiment works on.
pub struct Wanted {
    /// Columns of `sample_census`.
    pub sample: Vec<Column>,
    pub sample_rows: usize,
    /// Columns of the Adult census.
    pub adult: Vec<Column>,
    pub adult_rows: AdultRows,
}

/// Rows of the Adult census.
#[derive(Clone, Copy)]
pub enum AdultRows {
    /// The 30 162 complete rows of `adult.csv`.
    Training,
    /// Those of `adult_full.csv` that are complete in the columns wanted: this many, drawn at random but always the same.
    Complete { at_most: usize },
    /// All 48 842 of `adult_full.csv`.
    All,
}

/// The table `people`, and a table `NAME_levels` for every column that generalizes by it.
pub struct People {
    pub title: String,
    pub is_adult: bool,
    pub columns: Vec<Column>,
    pub rows: usize,
}

impl Workspace {
    pub(crate) async fn load_people(&self, wanted: &Wanted) -> Result<People> {
        let adult = self.setting.adult.as_deref();
        let (source, columns, rows) = match (adult, wanted.adult_rows) {
            (None, _) => {
                let rows = self.rows(wanted.sample_rows);
                let source = format!("sample_census(rows => {rows}, seed => 7)");
                (source, &wanted.sample, rows)
            }
            (Some(directory), rows) => {
                let at_most = match rows {
                    AdultRows::Complete { at_most } => at_most,
                    AdultRows::Training | AdultRows::All => usize::MAX,
                };
                let source = self.open_adult(directory, wanted).await?;
                (source, &wanted.adult, self.rows(at_most))
            }
        };
        // Batches come in any order; sorted rows are drawn alike every time.
        let names = names(columns).join(", ");
        let sql = format!("SELECT {names} FROM {source} ORDER BY {names}");
        let people = draw(&self.query(&sql).await?, rows)?;
        let rows = people.num_rows();
        self.register("people", people)?;
        for (name, hierarchy) in columns {
            if hierarchy.is_some_and(|hierarchy| hierarchy.ends_with("_levels")) {
                self.load_levels(name).await?;
            }
        }
        let name = if adult.is_some() { "Adult" } else { "sample_census" };
        Ok(People {
            title: format!("{name}, {rows} rows"),
            is_adult: adult.is_some(),
            columns: columns.clone(),
            rows,
        })
    }

    /// The name of a table with this many of the people, drawn at random but always the same.
    pub(crate) async fn sample_people(&self, rows: usize) -> Result<String> {
        let people = draw(&self.query("SELECT * FROM people").await?, rows)?;
        let name = format!("people_{rows}");
        self.register(&name, people)?;
        Ok(name)
    }

    /// The wanted rows in SQL, columns under names without dashes.
    async fn open_adult(&self, directory: &Path, wanted: &Wanted) -> Result<String> {
        let (file, delimiter) = match wanted.adult_rows {
            AdultRows::Training => ("adult.csv", b';'),
            AdultRows::Complete { .. } | AdultRows::All => ("adult_full.csv", b','),
        };
        let path = directory.join(file).display().to_string();
        let options = CsvReadOptions::new().delimiter(delimiter);
        self.context.register_csv("adult_file", path, options).await?;
        let names = names(&wanted.adult);
        let renamed = names.iter().map(|name| format!("\"{}\" AS {name}", dashed(name)));
        let renamed = renamed.collect::<Vec<_>>().join(", ");
        let complete = names.iter().map(|name| format!("{name} IS NOT NULL"));
        let condition = match wanted.adult_rows {
            AdultRows::All => "true".to_owned(),
            _ => complete.collect::<Vec<_>>().join(" AND "),
        };
        Ok(format!("(SELECT * FROM (SELECT {renamed} FROM adult_file) WHERE {condition})"))
    }

    /// The file of Adult's hierarchy of a column.
    pub(crate) fn levels_file(&self, column: &str) -> Option<PathBuf> {
        let directory = self.setting.adult.as_ref().filter(|_| column != "relationship")?;
        Some(directory.join(format!("hierarchies/{}.csv", dashed(column))))
    }

    async fn load_levels(&self, column: &str) -> Result<()> {
        let is_adult = self.setting.adult.is_some();
        let source = match (self.levels_file(column), column) {
            (Some(file), _) => {
                let options = CsvReadOptions::new().has_header(false).delimiter(b';');
                let file = file.display().to_string();
                self.context.register_csv(format!("{column}_file"), file, options).await?;
                format!("SELECT * FROM {column}_file")
            }
            (None, _) if is_adult => RELATIONSHIP_LEVELS.to_owned(),
            (None, "salary_class") => "SELECT DISTINCT salary_class, '*' FROM people".to_owned(),
            (None, _) => format!("SELECT * FROM sample_hierarchy(column => '{column}')"),
        };
        self.query(&format!("CREATE TABLE {column}_levels AS {source}")).await?;
        Ok(())
    }
}

fn dashed(name: &str) -> String {
    name.replace('_', "-")
}

fn draw(batches: &[RecordBatch], at_most: usize) -> Result<RecordBatch> {
    let [first, ..] = batches else { return exec_err!("the census is empty") };
    let all = concat_batches(&first.schema(), batches)?;
    if all.num_rows() <= at_most {
        return Ok(all);
    }
    let mut rows: Vec<u32> = (0..all.num_rows() as u32).collect();
    let mut random = Random::new(1);
    for at in 0..at_most {
        let other = at + random.below((rows.len() - at) as u64) as usize;
        rows.swap(at, other);
    }
    rows.truncate(at_most);
    Ok(take_record_batch(&all, &UInt32Array::from(rows))?)
}
