//! Releases in cells: the promises of every method, and what cells add to them.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_anonymize::{Family, MethodOption, methods};

use crate::invariants::release::{registered, rows, takes};
use crate::invariants::wait;

/// Methods that work in cells, with the options they need.
fn in_cells_with() -> impl Iterator<Item = (&'static str, &'static str)> {
    methods().filter(|method| method.works_in_cells()).map(|method| {
        let more = match method.family() {
            Family::Slices => ", l => 2, suppression_limit => 0.2",
            _ if method.suppresses() => ", suppression_limit => 0.5",
            _ => "",
        };
        (method.name(), more)
    })
}

fn census(rows: usize) -> RecordBatch {
    let context = crate::session(SessionConfig::new());
    let sql = format!(
        "SELECT age, sex, education, zip, birth_date, hours_per_week, occupation, \
         row_number() OVER (ORDER BY person_id, age, zip, birth_date, occupation) AS person_id \
         FROM sample_census(rows => {rows}, seed => 3, missing => 0.01)"
    );
    let batches = wait(async { context.sql(&sql).await?.collect().await }).unwrap();
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

/// The table dealt to partitions, from the last row on if it is `reversed`.
fn dealt(table: &RecordBatch, partitions: usize, reversed: bool) -> Vec<Vec<RecordBatch>> {
    let mut parts = vec![Vec::new(); partitions];
    let size = table.num_rows().div_ceil(3 * partitions + 1).max(1);
    let mut starts: Vec<usize> = (0..table.num_rows()).step_by(size).collect();
    if reversed {
        starts.reverse();
    }
    for (at, start) in starts.into_iter().enumerate() {
        let part = table.slice(start, size.min(table.num_rows() - start));
        parts[at % partitions].push(part);
    }
    parts
}

fn session(parts: Vec<Vec<RecordBatch>>, threads: usize, batch_size: usize) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(threads).with_batch_size(batch_size);
    let context = crate::session(config);
    let schema = parts.iter().flatten().next().unwrap().schema();
    context.register_table("census", Arc::new(MemTable::try_new(schema, parts).unwrap())).unwrap();
    context
}

fn set_cells(context: &SessionContext, cells: u32) {
    wait(async { context.sql(&format!("SET anonymize.cells = {cells}")).await?.collect().await })
        .unwrap();
}

fn in_cells(table: &RecordBatch, cells: u32) -> SessionContext {
    let context = session(dealt(table, 3, false), 4, 1000);
    set_cells(&context, cells);
    context
}

/// Cells that a release was made in.
fn cells_made(context: &SessionContext, call: &str) -> i64 {
    let sql = format!("EXPLAIN ANALYZE SELECT * FROM {call}");
    let lines = wait(rows(context, &sql)).unwrap().join("\n");
    let gathered = lines.lines().find(|line| line.contains("CellGatherExec")).unwrap();
    let (_, metrics) = gathered.split_once("metrics=[").unwrap();
    let (_, cells) = metrics.split_once(" cells=").unwrap();
    cells.split(|letter: char| !letter.is_ascii_digit()).next().unwrap().parse().unwrap()
}

fn call(method: &str, k: usize, more: &str) -> String {
    format!(
        "anonymize((SELECT * FROM census), k => {k}, quasi_identifiers => ['age', 'sex', 'education', 'zip', \
         'birth_date'], sensitive => ['occupation'], keep => ['hours_per_week', 'person_id'], \
         method => '{method}', class_id => true, seed => 'a secret of the tests'{more})"
    )
}

fn count(context: &SessionContext, sql: &str) -> i64 {
    let text = wait(rows(context, sql)).unwrap();
    text[0].parse().unwrap_or_else(|_| panic!("{sql}: {text:?}"))
}

fn error(context: &SessionContext, sql: &str) -> String {
    wait(rows(context, sql)).unwrap_err().strip_backtrace()
}

/// Releases a table under a name, so that it can be asked several things.
fn release(context: &SessionContext, name: &str, call: &str) -> Result<()> {
    let sql = format!("CREATE TABLE {name} AS SELECT * FROM {call}");
    wait(async { context.sql(&sql).await?.collect().await }).map(|_| ())
}

#[test]
fn every_method_keeps_its_promises_in_cells() {
    let table = census(3000);
    let context = in_cells(&table, 6);
    for (method, more) in in_cells_with() {
        let class = if more.contains("l =>") { "bucket_id" } else { "class_id" };
        release(&context, method, &call(method, 5, more)).unwrap();
        let published = count(&context, &format!("SELECT count(*) FROM {method}"));
        let suppresses = more.contains("suppression_limit");
        assert!(published == 3000 || suppresses && published > 1500, "{method}: {published} rows");
        let distinct = format!("SELECT count(DISTINCT person_id) FROM {method}");
        assert_eq!(count(&context, &distinct), published, "{method}: a row is there twice");
        let smallest = format!(
            "SELECT min(size) FROM (SELECT count(*) AS size FROM {method} GROUP BY {class})"
        );
        assert!(count(&context, &smallest) >= 5, "{method}: a class below k");
        assert_eq!(cells_made(&context, &call(method, 5, more)), 6, "{method}");
        // Numbers without gaps: they count classes and tell nothing else.
        let last = count(&context, &format!("SELECT max({class}) FROM {method}"));
        let classes = format!("SELECT count(DISTINCT {class}) FROM {method}");
        assert_eq!(count(&context, &classes), last + 1, "{method}");
        if class == "class_id" {
            let report = format!(
                "SELECT count(*) FROM privacy_report({method}, quasi_identifiers => ['age', 'sex', \
                 'education', 'zip', 'birth_date'], sensitive => ['occupation'], k => 5) WHERE NOT holds"
            );
            assert_eq!(count(&context, &report), 0, "{method}");
        }
    }
}

#[test]
fn a_release_in_cells_depends_on_the_rows_and_nothing_else() {
    let table = census(1500);
    for (method, more) in in_cells_with() {
        let sql = format!("SELECT * FROM {}", call(method, 3, more));
        let mut releases = Vec::new();
        for (partitions, reversed, threads, batch_size) in
            [(1, false, 1, 8192), (3, true, 4, 100), (5, false, 2, 37)]
        {
            let context = session(dealt(&table, partitions, reversed), threads, batch_size);
            set_cells(&context, 4);
            releases.push(wait(rows(&context, &sql)).unwrap());
        }
        assert!(releases[0].len() > 700);
        assert!(releases.iter().all(|release| *release == releases[0]), "{method}");
    }
}

#[test]
fn fewer_selected_columns_see_the_same_classes() {
    let context = in_cells(&census(1500), 4);
    let call = call("rounded", 3, "");
    let all = format!("SELECT class_id, age, occupation FROM (SELECT * FROM {call})");
    let few = format!("SELECT class_id, age, occupation FROM {call}");
    let sorted = |sql: &str| {
        let mut rows = wait(rows(&context, sql)).unwrap();
        rows.sort();
        rows
    };
    assert_eq!(sorted(&all), sorted(&few));
}

#[test]
fn rounded_classes_have_at_most_one_row_more_than_k() {
    let context = in_cells(&census(4000), 8);
    release(&context, "published", &call("rounded", 7, "")).unwrap();
    let sizes = "SELECT class_id, count(*) AS size FROM published GROUP BY class_id";
    assert!(count(&context, &format!("SELECT max(size) FROM ({sizes})")) <= 8);
    assert!(count(&context, &format!("SELECT count(*) FROM ({sizes})")) >= 4000 / 7 - 8);
}

#[test]
fn a_small_table_has_fewer_cells() {
    // A cell has at least 2k² rows.
    for (rows, k, cells) in [(199, 10, 1), (3000, 20, 3), (60, 3, 3)] {
        let context = in_cells(&census(rows), 64);
        release(&context, "published", &call("rounded", k, "")).unwrap();
        let made = cells_made(&context, &call("rounded", k, ""));
        assert!(made <= cells && (made > 1 || cells == 1), "{rows} rows, k = {k}: {made} cells");
    }
}

#[test]
fn models_hold_in_the_whole_release() {
    let table = census(3000);
    let models = [
        (MethodOption::L, "l => 4"),
        (MethodOption::EntropyL, "entropy_l => 2.5"),
        (MethodOption::Alpha, "alpha => 0.5"),
        // Against the distribution of the whole table, which the report takes from the published rows.
        (MethodOption::T, "t => 0.35"),
    ];
    let context = in_cells(&table, 6);
    for (at, (option, model)) in models.into_iter().enumerate() {
        let classes =
            in_cells_with().filter(|(method, _)| registered(method).family() == Family::Classes);
        for (method, more) in classes.filter(|(method, _)| takes(method, option)) {
            let call = call(method, 5, &format!(", {model}{more}"));
            let name = format!("{method}_{at}");
            release(&context, &name, &call).unwrap();
            let report = format!(
                "SELECT count(*) FROM privacy_report({name}, quasi_identifiers => ['age', 'sex', 'education', \
                 'zip', 'birth_date'], sensitive => ['occupation'], k => 5, {model}) WHERE NOT holds"
            );
            assert_eq!(count(&context, &report), 0, "{method} with {model}");
            let cells = cells_made(&context, &call);
            assert!(cells > 1, "{method} with {model} made one cell");
        }
    }
}

#[test]
fn graded_shares_hold_in_every_class() {
    let context = in_cells(&census(3000), 6);
    let listed =
        "(SELECT DISTINCT occupation, CASE WHEN occupation < 'F' THEN 1 ELSE 2 END FROM census)";
    let more = format!(", alpha => [0.4, 0.8], sensitivity => {listed}");
    release(&context, "published", &call("rounded", 6, &more)).unwrap();
    let broken = "SELECT count(*) FROM (
        SELECT class_id, occupation, count(*) AS here, sum(count(*)) OVER (PARTITION BY class_id) AS size
        FROM published GROUP BY class_id, occupation)
      WHERE here > size * CASE WHEN occupation < 'F' THEN 0.4 ELSE 0.8 END";
    assert_eq!(count(&context, broken), 0);
}

#[test]
fn persons_are_counted_in_every_class() {
    let context = in_cells(&census(3000), 6);
    let input = "(SELECT age, sex, zip, occupation, person_id % 400 AS person FROM census)";
    let call = format!(
        "anonymize({input}, k => 4, quasi_identifiers => ['age', 'sex', 'zip'], sensitive => ['occupation'], \
         privacy_unit => 'person', class_id => true, seed => 1)"
    );
    release(&context, "published", &call).unwrap();
    assert_eq!(count(&context, "SELECT count(*) FROM published"), 3000);
    let cells = cells_made(&context, &call);
    assert!(cells > 1);
    // The operator checks persons itself; nobody else can. Too few of them in a cell undo its cut.
    let few = call.replace("% 400", "% 4");
    release(&context, "few", &few).unwrap();
    assert!(cells_made(&context, &few) <= cells);
    let none = call.replace("person_id % 400", "nullif(person_id % 400, 7)");
    let message = error(&context, &format!("SELECT * FROM {none}"));
    let nobody = "SELECT count(*) FROM census WHERE person_id % 400 = 7";
    let expected = format!("privacy_unit 'person' is NULL in {} rows", count(&context, nobody));
    assert!(message.contains(&expected), "{message}");
    assert!(
        error(&in_cells(&census(3000), 0), &format!("SELECT * FROM {none}")).contains(&expected)
    );
}

#[test]
fn unsatisfiable_requests_fail_as_in_one_piece() {
    let table = census(300);
    let one = in_cells(&table, 0);
    let several = in_cells(&table, 8);
    for more in ["", ", l => 50", ", entropy_l => 40", ", alpha => 0.01"] {
        let k = if more.is_empty() { 301 } else { 3 };
        let sql = format!("SELECT * FROM {}", call("rounded", k, more));
        let message = error(&several, &sql);
        assert_eq!(error(&one, &sql), message);
        let said = more.trim_start_matches(", ").replace("=>", "=");
        assert!(message.contains("k = 301") || message.contains(&said), "{message}");
    }
}

#[test]
fn suppression_is_limited_over_all_cells() {
    let table = census(3000);
    let context = in_cells(&table, 6);
    let incomplete = count(
        &context,
        "SELECT count(*) FROM census WHERE age IS NULL OR sex IS NULL OR education IS NULL OR zip IS NULL \
         OR birth_date IS NULL",
    );
    let share = incomplete as f64 / 3000.0;
    // Cells have different shares; the limit is that of the table.
    let of = |limit: f64| call("k_member", 3, &format!(", suppression_limit => {limit}"));
    release(&context, "enough", &of(share + 0.0001)).unwrap();
    assert_eq!(count(&context, "SELECT count(*) FROM enough"), 3000 - incomplete);
    let message = error(&context, &format!("SELECT * FROM {}", of(share - 0.0001)));
    assert!(message.contains(&format!("{incomplete} of 3000 rows")), "{message}");
}

#[test]
fn nothing_is_left_behind_by_a_release_that_fails() {
    let context = in_cells(&census(3000), 6);
    let directory = tempfile::tempdir().unwrap();
    let failing = call("k_member", 3, ", suppression_limit => 0.001");
    for target in ["one.parquet", "many/"] {
        let path = directory.path().join(target);
        let sql =
            format!("COPY (SELECT * FROM {failing}) TO '{}' STORED AS PARQUET", path.display());
        assert!(error(&context, &sql).contains("suppression_limit"));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{target}");
    }
    assert!(release(&context, "half", &failing).is_err());
    assert!(wait(rows(&context, "SELECT * FROM half")).is_err());
}

#[test]
fn an_input_that_changes_between_readings_is_refused() {
    let context = in_cells(&census(3000), 6);
    for input in ["WHERE random() < 0.5", "ORDER BY random() LIMIT 1500"] {
        let changing =
            call("rounded", 3, "").replace("FROM census", &format!("FROM census {input}"));
        let message = error(&context, &format!("SELECT * FROM {changing}"));
        assert!(message.contains("gave other rows when it was read again"), "{message}");
    }
}

#[test]
fn other_methods_say_that_they_run_in_one_task() {
    let context = in_cells(&census(300), 6);
    for method in methods().filter(|method| !method.works_in_cells()) {
        let plan = match method.family() {
            Family::TwoTables => format!(
                "anonymize((SELECT age, sex, occupation FROM census), k => 3, quasi_identifiers => ['age', 'sex'], \
                 sensitive => ['occupation'], method => '{method}', alpha => 0.9, publish => 'sensitive')"
            ),
            Family::Constraints => format!(
                "anonymize((SELECT age, sex FROM census), quasi_identifiers => ['age', 'sex'], constraints => \
                 [{{columns: ['age', 'sex'], k: 3}}], method => '{method}')"
            ),
            Family::Classes | Family::Slices => call(
                method.name(),
                3,
                ", hierarchies => {age: intervals(5, 10, 20), zip: prefixes(3)}",
            ),
        };
        let lines =
            wait(rows(&context, &format!("EXPLAIN SELECT * FROM {plan}"))).unwrap().join("\n");
        let said = format!("in one task: method '{method}' does not work in cells");
        assert!(lines.contains(&said), "{lines}");
        assert!(!lines.contains("CellGatherExec"));
    }
}

#[test]
fn inputs_with_exchanges_joins_and_nested_releases_work() {
    let context = in_cells(&census(1500), 4);
    let join = "(SELECT a.age, a.sex, b.education, a.zip, b.birth_date, a.hours_per_week, a.occupation, \
                a.person_id FROM census a JOIN census b ON a.person_id = b.person_id)";
    let joined = call("rounded", 3, "").replace("(SELECT * FROM census)", join);
    assert_eq!(count(&context, &format!("SELECT count(*) FROM {joined}")), 1500);
    let grouped = "anonymize((SELECT age, sex, count(*) AS people FROM census GROUP BY age, sex), k => 2, \
                   quasi_identifiers => ['age', 'sex'], keep => ['people'], seed => 1)";
    assert_eq!(count(&context, &format!("SELECT sum(people) FROM {grouped}")), 1500);
    let nested = "anonymize((SELECT age, sex, occupation FROM anonymize((SELECT age, sex, occupation FROM census), \
                  k => 2, quasi_identifiers => ['age', 'sex'], sensitive => ['occupation'], seed => 1)), \
                  k => 4, quasi_identifiers => ['age', 'sex'], sensitive => ['occupation'], seed => 2)";
    assert_eq!(count(&context, &format!("SELECT count(*) FROM {nested}")), 1500);
    let limited =
        format!("SELECT count(*) FROM (SELECT * FROM {} LIMIT 10)", call("rounded", 3, ""));
    assert_eq!(count(&context, &limited), 10);
}

#[test]
fn cells_lose_little() {
    // Large enough for cells to have neighbours; `cargo bench --bench cells` does the same with a million rows.
    let table = census(12_000);
    let context = in_cells(&table, 0);
    let lost = |cells: u32, method: &str| {
        set_cells(&context, cells);
        let call = call(method, 10, "");
        let loss = format!(
            "SELECT value FROM utility_report(census, (SELECT * FROM {call}), quasi_identifiers => ['age', 'sex', \
             'education', 'zip', 'birth_date']) WHERE measure = 'ncp' AND column_name IS NULL"
        );
        wait(rows(&context, &loss)).unwrap()[0].parse::<f64>().unwrap()
    };
    for method in ["rounded", "mondrian", "layered"] {
        let (one, eight) = (lost(0, method), lost(8, method));
        println!("{method}: loss {one:.4} in one piece, {eight:.4} in 8 cells");
        assert!(eight <= 1.03 * one, "{method}: {eight} in 8 cells, {one} in one piece");
    }
}

/// Classes that look alike come from several cells. Their order must not tell from which.
#[test]
fn the_order_of_classes_does_not_tell_their_cells() {
    let context = crate::session(SessionConfig::new());
    wait(async {
        let numbers =
            "SELECT 10000 + value * 22 AS truth FROM generate_series(0, 3999) AS t(value)";
        let sql = format!(
            "CREATE TABLE census AS SELECT truth, CAST(truth AS varchar) AS zip FROM ({numbers})"
        );
        context.sql(&sql).await?.collect().await
    })
    .unwrap();
    set_cells(&context, 4);
    let call = "anonymize(census, k => 20, quasi_identifiers => ['zip'], keep => ['truth'], method => 'mondrian', \
                hierarchies => {'zip': prefixes(1)}, seed => 'a secret of the tests')";
    assert!(cells_made(&context, call) > 1);
    let sql = format!("SELECT zip, truth FROM {call}");
    let mut by_label = std::collections::BTreeMap::<String, Vec<i64>>::new();
    for row in wait(rows(&context, &sql)).unwrap() {
        let (label, truth) = row.split_once('|').unwrap();
        by_label.entry(label.trim().to_owned()).or_default().push(truth.trim().parse().unwrap());
    }
    let mut looked_at = 0;
    for (label, truths) in by_label {
        let mut sorted = truths.clone();
        sorted.sort_unstable();
        let median = sorted[sorted.len() / 2];
        // The parts of a label that lie in different cells are neither all in front nor all behind.
        let half = truths.len() / 2;
        let low =
            truths[..half].iter().filter(|truth| **truth < median).count() as f64 / half as f64;
        if truths.len() >= 300 {
            looked_at += 1;
            assert!(
                (0.1..0.9).contains(&low),
                "{label}: {low:.2} of the first half are below the middle"
            );
        }
    }
    assert!(looked_at >= 3, "{looked_at} labels");
}
