#![expect(clippy::unwrap_used)]

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{Date32Type, Int32Type, Int64Type};
use datafusion::catalog::TableProvider;
use datafusion::common::stats::Precision;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;

use super::column::Column;
use super::hierarchy::{hierarchy_columns, sample_hierarchy};
use super::model::categories;
use super::table::{CensusOptions, CensusTable};

const SAMPLE: CensusOptions = CensusOptions { rows: 20_000, seed: 7, missing: 0.0 };

fn session(partitions: usize, batch_size: usize) -> SessionContext {
    let config =
        SessionConfig::new().with_target_partitions(partitions).with_batch_size(batch_size);
    SessionContext::new_with_config(config)
}

fn sample_census(options: CensusOptions) -> Arc<dyn TableProvider> {
    Arc::new(CensusTable::new(options))
}

/// All rows of a scan, one partition after the other; checks the size of the batches on the way.
async fn rows_of(context: &SessionContext, plan: Arc<dyn ExecutionPlan>) -> RecordBatch {
    let mut batches = Vec::new();
    for partition in 0..plan.properties().partitioning.partition_count() {
        let stream = plan.execute(partition, context.task_ctx()).unwrap();
        batches.extend(stream.try_collect::<Vec<_>>().await.unwrap());
    }
    let largest = context.copied_config().batch_size();
    assert!(batches.iter().all(|batch| batch.num_rows() <= largest));
    concat_batches(&plan.schema(), &batches).unwrap()
}

async fn sample(options: CensusOptions) -> RecordBatch {
    let context = session(1, 8192);
    let table = sample_census(options);
    let plan = table.scan(&context.state(), None, &[], None).await.unwrap();
    rows_of(&context, plan).await
}

fn strings(batch: &RecordBatch, column: &str) -> Vec<String> {
    let array = batch.column_by_name(column).unwrap().as_string_view();
    array.iter().flatten().map(str::to_owned).collect()
}

fn numbers(batch: &RecordBatch, column: &str) -> Vec<i32> {
    let array = batch.column_by_name(column).unwrap();
    array.as_primitive::<Int32Type>().values().to_vec()
}

/// Share of the rows for which `which` holds and, among them, `what`.
fn share(rows: usize, which: impl Fn(usize) -> bool, what: impl Fn(usize) -> bool) -> f64 {
    let among: Vec<usize> = (0..rows).filter(|row| which(*row)).collect();
    assert!(among.len() > 100, "too few rows to tell");
    among.iter().filter(|row| what(**row)).count() as f64 / among.len() as f64
}

#[tokio::test]
async fn a_small_sample_is_the_beginning_of_a_large_one() {
    for missing in [0.0, 0.3] {
        let large = sample(CensusOptions { missing, ..SAMPLE }).await;
        for rows in [1, 10, 1000] {
            let small = sample(CensusOptions { rows, missing, ..SAMPLE }).await;
            assert_eq!(small, large.slice(0, rows as usize));
        }
    }
}

#[tokio::test]
async fn seeds_give_different_samples() {
    let other = sample(CensusOptions { seed: 8, ..SAMPLE }).await;
    let first = sample(SAMPLE).await;
    for (mine, theirs) in first.columns().iter().zip(other.columns()) {
        assert_ne!(mine, theirs);
    }
}

#[tokio::test]
async fn partitions_and_batch_sizes_change_nothing() {
    let options = CensusOptions { missing: 0.1, ..SAMPLE };
    let expected = sample(options).await;
    for (partitions, batch_size) in [(7, 8192), (7, 100), (3, 1), (1, 37)] {
        let context = session(partitions, batch_size);
        let table = sample_census(options);
        let plan = table.scan(&context.state(), None, &[], None).await.unwrap();
        let count = plan.properties().partitioning.partition_count();
        assert_eq!(count, if batch_size == 8192 { 3 } else { partitions });
        assert_eq!(rows_of(&context, plan).await, expected);
    }
}

#[tokio::test]
async fn a_projection_gives_the_same_columns() {
    let options = CensusOptions { missing: 0.1, ..SAMPLE };
    let expected = sample(options).await;
    let context = session(2, 1000);
    let table = sample_census(options);
    let mut projections: Vec<Vec<usize>> = (0..Column::ALL.len()).map(|one| vec![one]).collect();
    projections.extend([vec![12, 0, 9, 9], vec![]]);
    for projection in projections {
        let state = context.state();
        let plan = table.scan(&state, Some(&projection), &[], None).await.unwrap();
        let rows = rows_of(&context, plan).await;
        assert_eq!(rows.num_rows(), expected.num_rows());
        assert_eq!(rows, expected.project(&projection).unwrap());
    }
}

#[tokio::test]
async fn a_limit_gives_the_first_rows_in_scan_and_in_plan() {
    let expected = sample(SAMPLE).await.slice(0, 250);
    let context = session(4, 100);
    let table = sample_census(SAMPLE);
    let limited = table.scan(&context.state(), None, &[], Some(250)).await.unwrap();
    assert_eq!(rows_of(&context, limited).await, expected);

    let whole = table.scan(&context.state(), None, &[], None).await.unwrap();
    let limited = whole.with_fetch(Some(250)).unwrap();
    assert_eq!(limited.fetch(), Some(250));
    assert_eq!(rows_of(&context, limited).await, expected);

    context.register_table("census", table).unwrap();
    let query = "SELECT * FROM (SELECT * FROM census LIMIT 250) ORDER BY person_id";
    let plan = context.sql(query).await.unwrap().create_physical_plan().await.unwrap();
    let found = collect(plan, context.task_ctx()).await.unwrap();
    let ids = |batches: &[RecordBatch]| -> BTreeSet<i64> {
        let columns = batches.iter().map(|batch| batch.column(12));
        columns.flat_map(|ids| ids.as_primitive::<Int64Type>().values().to_vec()).collect()
    };
    assert_eq!(ids(&found), ids(&[expected]));
}

#[tokio::test]
async fn statistics_tell_the_exact_number_of_rows() {
    let context = session(4, 1000);
    let table = sample_census(CensusOptions { missing: 0.5, ..SAMPLE });
    let plan = table.scan(&context.state(), None, &[], None).await.unwrap();
    let statistics = StatisticsContext::new();
    let whole = statistics.compute(plan.as_ref(), &StatisticsArgs::new()).unwrap();
    assert_eq!(whole.num_rows, Precision::Exact(20_000));
    assert_eq!(whole.column_statistics[0].null_count, Precision::Absent);
    assert_eq!(whole.column_statistics[12].null_count, Precision::Exact(0));
    let third = StatisticsArgs::new().with_partition(Some(2));
    let part = statistics.compute(plan.as_ref(), &third).unwrap();
    assert_eq!(part.num_rows, Precision::Exact(5000));
}

#[tokio::test]
async fn no_rows_and_more_rows_than_memory_work() {
    let none = sample(CensusOptions { rows: 0, ..SAMPLE }).await;
    assert_eq!((none.num_rows(), none.num_columns()), (0, 13));

    let context = session(2, 100);
    let table = sample_census(CensusOptions { rows: u64::MAX, ..SAMPLE });
    let plan = table.scan(&context.state(), None, &[], None).await.unwrap();
    for partition in 0..2 {
        let mut stream = plan.execute(partition, context.task_ctx()).unwrap();
        assert_eq!(stream.try_next().await.unwrap().unwrap().num_rows(), 100);
    }
}

#[tokio::test]
async fn cells_are_missing_as_often_as_asked_and_independently() {
    let batch = sample(CensusOptions { missing: 0.2, ..SAMPLE }).await;
    let rows = batch.num_rows();
    for column in 0..12 {
        let share = batch.column(column).null_count() as f64 / rows as f64;
        assert!((share - 0.2).abs() < 0.015, "column {column}: {share}");
        for other in column + 1..12 {
            let null = |column: usize, row| batch.column(column).is_null(row);
            let both = (0..rows).filter(|row| null(column, *row) && null(other, *row));
            let share = both.count() as f64 / rows as f64;
            assert!((share - 0.04).abs() < 0.01, "columns {column}, {other}: {share}");
        }
    }
    assert_eq!(batch.column(12).null_count(), 0);
    let all = sample(CensusOptions { missing: 1.0, rows: 100, ..SAMPLE }).await;
    assert!(all.columns()[..12].iter().all(|column| column.null_count() == 100));
    let none = sample(SAMPLE).await;
    assert!(none.columns().iter().all(|column| column.nulls().is_none()));
}

#[tokio::test]
async fn missing_cells_leave_the_other_cells_alone() {
    let full = sample(SAMPLE).await;
    let gaps = sample(CensusOptions { missing: 0.4, ..SAMPLE }).await;
    for (full, gaps) in full.columns().iter().zip(gaps.columns()) {
        let present = (0..gaps.len()).filter(|row| gaps.is_valid(*row));
        for row in present.step_by(50) {
            assert!(full.slice(row, 1) == gaps.slice(row, 1));
        }
    }
}

#[tokio::test]
async fn ages_lie_in_range_fall_in_number_and_match_the_date_of_birth() {
    let batch = sample(SAMPLE).await;
    let ages = numbers(&batch, "age");
    assert!(ages.iter().all(|age| (17..=90).contains(age)));
    let count = |from, to| ages.iter().filter(|age| (from..to).contains(*age)).count();
    assert!(count(20, 40) > count(40, 60) && count(40, 60) > 2 * count(60, 80));
    let dates = batch.column_by_name("birth_date").unwrap().as_primitive::<Date32Type>();
    for (row, age) in ages.iter().enumerate() {
        let date = dates.value_as_date(row).unwrap().to_string();
        let (year, day) = date.split_at(4);
        let birthday_to_come = i32::from(day > "-01-01");
        assert_eq!(2026 - year.parse::<i32>().unwrap() - birthday_to_come, *age);
    }
}

#[tokio::test]
async fn columns_depend_on_each_other_as_in_a_census() {
    let batch = sample(CensusOptions { rows: 60_000, ..SAMPLE }).await;
    let rows = batch.num_rows();
    let (age, hours) = (numbers(&batch, "age"), numbers(&batch, "hours_per_week"));
    let [sex, race, marital, education, country, workclass, occupation, salary, zip] = [
        "sex",
        "race",
        "marital_status",
        "education",
        "native_country",
        "workclass",
        "occupation",
        "salary_class",
        "zip",
    ]
    .map(|column| strings(&batch, column));
    let rich = |row: usize| salary[row] == ">50K";

    let never = |row: usize| marital[row] == "Never-married";
    assert!(share(rows, |r| age[r] < 25, never) > 0.5 + share(rows, |r| age[r] > 40, never));
    let degree = |row: usize| education[row] == "Bachelors" || education[row] == "Masters";
    assert!(share(rows, |r| age[r] >= 30, degree) > 0.15);
    assert_eq!(share(rows, |r| age[r] < 22, degree), 0.0);
    let professional = |row: usize| occupation[row] == "Prof-specialty";
    assert!(
        share(rows, |r| education[r] == "Masters", professional)
            > 0.4 + share(rows, |r| education[r] == "HS-grad", professional)
    );
    let craft = |row: usize| occupation[row] == "Craft-repair";
    assert!(
        share(rows, |r| sex[r] == "Male", craft) > 5.0 * share(rows, |r| sex[r] == "Female", craft)
    );
    let own = |row: usize| workclass[row] == "Self-emp-not-inc";
    assert!(share(rows, |r| occupation[r] == "Farming-fishing", own) > 0.3);
    let long = |row: usize| hours[row] > 45;
    assert!(
        share(rows, |r| occupation[r] == "Exec-managerial", long)
            > 0.1 + share(rows, |r| occupation[r] == "Other-service", long)
    );
    assert!(share(rows, degree, rich) > 0.15 + share(rows, |r| !degree(r), rich));
    assert!(share(rows, |r| age[r] > 40, rich) > 0.15 + share(rows, |r| age[r] < 25, rich));
    assert!(share(rows, long, rich) > 0.1 + share(rows, |r| hours[r] < 35, rich));
    assert!(
        share(rows, |r| sex[r] == "Male", rich) > 0.05 + share(rows, |r| sex[r] == "Female", rich)
    );
    let overall = share(rows, |_| true, rich);
    assert!((0.2..0.3).contains(&overall), "{overall}");
    let asian = |row: usize| race[row] == "Asian-Pac-Islander";
    assert!(share(rows, |r| country[r] == "Philippines", asian) > 0.7);
    let west = |row: usize| zip[row].starts_with('9');
    assert!(share(rows, asian, west) > 0.2 + share(rows, |r| race[r] == "White", west));
}

#[tokio::test]
async fn zip_codes_are_many_and_crowd_in_cities() {
    let zips = strings(&sample(SAMPLE).await, "zip");
    assert!(zips.iter().all(|zip| zip.len() == 5 && zip.bytes().all(|byte| byte.is_ascii_digit())));
    let mut areas: HashMap<&str, usize> = HashMap::new();
    for zip in &zips {
        *areas.entry(&zip[..3]).or_default() += 1;
    }
    let mut sizes: Vec<usize> = areas.into_values().collect();
    sizes.sort_unstable_by(|left, right| right.cmp(left));
    let cities: usize = sizes[..60].iter().sum();
    assert!(cities > zips.len() / 3 && sizes.len() > 500);
    let distinct = zips.iter().collect::<HashSet<_>>().len();
    assert!((4_000..20_000).contains(&distinct), "{distinct}");
}

#[tokio::test]
async fn the_rows_of_a_person_agree_on_the_person() {
    let batch = sample(SAMPLE).await;
    let ids = batch.column_by_name("person_id").unwrap().as_primitive::<Int64Type>();
    let mut first_row: HashMap<i64, usize> = HashMap::new();
    let shared: Vec<&ArrayRef> = ["sex", "race", "native_country", "birth_date", "age", "zip"]
        .iter()
        .map(|column| batch.column_by_name(column).unwrap())
        .collect();
    let hours = numbers(&batch, "hours_per_week");
    let (mut repeats, mut changes) = (0, 0);
    for row in 0..batch.num_rows() {
        let first = *first_row.entry(ids.value(row)).or_insert(row);
        if first != row {
            repeats += 1;
            changes += usize::from(hours[first] != hours[row]);
            for column in &shared {
                assert!(column.slice(first, 1) == column.slice(row, 1));
            }
        }
    }
    assert!(repeats > 2_000 && changes > repeats / 2, "{repeats}, {changes}");
}

#[tokio::test]
async fn hierarchies_list_exactly_the_values_that_occur() {
    assert_eq!(
        hierarchy_columns(),
        ["sex", "race", "marital_status", "education", "native_country", "workclass", "occupation"]
    );
    assert!(sample_hierarchy("zip").is_none() && sample_hierarchy("salary_class").is_none());
    let batch = sample(CensusOptions { rows: 400_000, ..SAMPLE }).await;
    for column in hierarchy_columns() {
        let hierarchy = sample_hierarchy(column).unwrap();
        let leaves = strings(&hierarchy, "leaf");
        let emitted: HashSet<String> = strings(&batch, column).into_iter().collect();
        assert_eq!(leaves.iter().cloned().collect::<HashSet<_>>(), emitted, "{column}");
        assert_eq!(leaves.len(), emitted.len());
    }
}

#[test]
fn each_level_of_a_hierarchy_determines_the_next() {
    for column in hierarchy_columns() {
        let hierarchy = sample_hierarchy(column).unwrap();
        let names: Vec<String> =
            hierarchy.schema().fields().iter().map(|field| field.name().clone()).collect();
        for (level, pair) in names.windows(2).enumerate() {
            assert_eq!(pair[1], format!("level{}", level + 1));
            let (below, above) = (strings(&hierarchy, &pair[0]), strings(&hierarchy, &pair[1]));
            let mut parent: HashMap<&str, &str> = HashMap::new();
            for (below, above) in below.iter().zip(&above) {
                assert_eq!(parent.entry(below).or_insert(above), above, "{column}");
            }
        }
        let top = strings(&hierarchy, names.last().unwrap());
        assert!(top.iter().all(|label| label == "*"));
        let widths = categories(Column::named(column).unwrap()).unwrap();
        assert!(widths.iter().all(|category| category.groups.len() == names.len() - 2));
    }
}

#[tokio::test]
async fn mistakes_in_arguments_say_what_to_write() {
    let context = SessionContext::new();
    super::register(&context).unwrap();
    for (call, says) in [
        (
            "sample_census(rows => NULL)",
            "sample_census: option 'rows' is NULL: leave it out, or write a whole number, as in rows => 10",
        ),
        (
            "sample_census(rows => age)",
            "sample_census: option 'rows' must be a constant, a whole number, as in rows => 10",
        ),
        ("sample_census(rows => 1.5)", "'rows' must be a whole number, as in rows => 10"),
        ("sample_census(missing => [0.5])", "'missing' must be a number, as in missing => 0.2"),
        ("sample_census(rows = 5)", "sample_census: write rows => … instead of rows = …"),
        ("sample_census(rows => 1, rows => 2)", "sample_census: option 'rows' is given twice"),
        ("sample_census(rows => 1, 2)", "an argument without a name follows a named one"),
        ("sample_census(*)", "sample_census: * is not an input"),
        (
            "sample_census(sed => 5)",
            "there is no option 'sed'; did you mean 'seed'? the options are",
        ),
        ("sample_census(k => 5)", "there is no option 'k'; the options are rows, seed, missing"),
        (
            "sample_hierarchy(column => 7)",
            "sample_hierarchy: option 'column' must be a text, as in column => '…'",
        ),
    ] {
        let error = context.sql(&format!("SELECT * FROM {call}")).await.unwrap_err().to_string();
        assert!(error.contains(says), "{call}: {error}");
    }
}
