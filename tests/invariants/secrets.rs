//! No cell value and no seed in an error, a plan, a debug output or metadata.
//!
//! Every column of the input holds a marker. The input is a Parquet file, whose statistics hold the
//! markers as well.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::MemTable;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};
use tempfile::TempDir;

use crate::invariants::wait;

const MARKERS: [&str; 4] = ["XMARKERX", "987654321", "9.87654321", "SEEDMARKER"];

const ROLES: &str = "quasi_identifiers => ['age', 'weight', 'town'], sensitive => ['disease'],
  keep => ['note'], identifiers => ['name'], seed => 'SEEDMARKER of 21 letters'";

fn check(what: &str, text: &str) {
    for marker in MARKERS {
        assert!(!text.contains(marker), "{what} shows {marker}:\n{text}");
    }
}

fn marked() -> RecordBatch {
    let text = |other: &str| -> ArrayRef {
        let cell = |at: usize| {
            if at.is_multiple_of(4) { "XMARKERX".to_owned() } else { format!("{other}{}", at % 3) }
        };
        Arc::new((0..12).map(|at| Some(cell(at))).collect::<StringArray>())
    };
    let number = |at: i64| if at % 4 == 0 { 987_654_321 } else { at };
    let columns: [(&str, ArrayRef); 6] = [
        ("age", Arc::new((0..12).map(number).map(Some).collect::<Int64Array>())),
        ("weight", Arc::new((0..12).map(|at| Some(number(at) as f64)).collect::<Float64Array>())),
        ("town", text("t")),
        ("disease", text("d")),
        ("note", text("n")),
        ("name", text("p")),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

async fn lake() -> (SessionContext, TempDir) {
    let context = crate::session(SessionConfig::new());
    context.register_batch("memory", marked()).unwrap();
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("lake.parquet").display().to_string();
    let copy = format!("COPY memory TO '{path}' STORED AS PARQUET");
    context.sql(&copy).await.unwrap().collect().await.unwrap();
    context.register_parquet("lake", &path, Default::default()).await.unwrap();
    (context, directory)
}

async fn error_of(context: &SessionContext, sql: &str) -> String {
    let error = match context.sql(sql).await {
        Err(error) => error,
        Ok(frame) => match frame.collect().await {
            Err(error) => error,
            Ok(_) => panic!("this should fail: {sql}"),
        },
    };
    format!("{error}\n{error:?}")
}

#[test]
fn errors_hold_no_values() {
    let broken = [
        format!("lake, k => 100, {ROLES}"),
        format!("lake, k => 2, l => 9, {ROLES}"),
        format!("lake, k => 2, alpha => 0.2, {ROLES}"),
        format!("lake, k => 2, entropy_l => 8, {ROLES}"),
        format!("lake, k => 2, hierarchies => {{town: (SELECT 't1', '*')}}, {ROLES}"),
        format!("lake, k => 2, hierarchies => {{town: (SELECT town, '*' FROM memory)}}, {ROLES}"),
        format!("lake, k => 2, hierarchies => {{town: (SELECT name, town, disease || note || age, '*' FROM memory)}}, {ROLES}"),
        format!("lake, k => 2, hierarchies => {{town: (SELECT DISTINCT town FROM memory)}}, {ROLES}"),
        format!("lake, k => 2, hierarchies => {{age: (SELECT DISTINCT name, '*' FROM memory)}}, {ROLES}"),
        format!("lake, k => 2, hierarchies => {{weight: intervals(0.0000000001)}}, {ROLES}"),
        "lake, k => 2, quasi_identifiers => ['age'], sensitive => ['disease']".to_owned(),
        "lake, k => 2, quasi_identifiers => ['age', 'town', 'note', 'disease', 'name'], privacy_unit => 'weight', l => 2".to_owned(),
        "lake, k => 11, quasi_identifiers => ['age', 'town', 'note', 'disease', 'name'], privacy_unit => 'weight'".to_owned(),
        "(SELECT CASE WHEN age > 11 THEN 'NaN'::DOUBLE ELSE weight END AS a, town FROM lake), k => 2, quasi_identifiers => ['a', 'town']".to_owned(),
        "(SELECT CASE WHEN age < 11 THEN 'Infinity'::DOUBLE ELSE weight END AS a, town FROM lake), k => 2, quasi_identifiers => ['a', 'town']".to_owned(),
        format!("lake, k => 20, method => 'kaim', {ROLES}"),
        format!("lake, k => 2, l => 9, method => 'bottom_up', {ROLES}"),
        "(SELECT nullif(age, 987654321) AS a, town FROM lake), k => 2, method => 'k_member', quasi_identifiers => ['a', 'town']".to_owned(),
        "(SELECT nullif(age, 987654321) AS a, town FROM lake), k => 10, method => 'k_member', suppression_limit => 1, quasi_identifiers => ['a', 'town']".to_owned(),
        "(SELECT [town] AS a FROM lake), k => 2, quasi_identifiers => ['a']".to_owned(),
        "lake, k => 2, seed => 9.87654321, quasi_identifiers => ['age']".to_owned(),
    ];
    wait(async {
        let (context, _directory) = lake().await;
        for arguments in broken {
            let sql = format!("SELECT * FROM anonymize({arguments})");
            check(
                &sql.replace("SEEDMARKER", "…").replace("9.87654321", "…"),
                &error_of(&context, &sql).await,
            );
        }
    });
}

#[test]
fn a_broken_hierarchy_file_is_not_quoted() {
    wait(async {
        let (context, directory) = lake().await;
        let path = directory.path().join("towns.csv");
        for content in [
            "XMARKERX;a;*\nXMARKERX;a;*\n",
            "XMARKERX;*\nt1;a;*\n",
            "t1;XMARKERX;a;*\nt2;XMARKERX;b;*\n",
            "\"XMARKERX;a\n",
            "XMARKERX\n",
            "",
        ] {
            std::fs::write(&path, content).unwrap();
            let sql = format!(
                "SELECT * FROM anonymize(lake, k => 2, hierarchies => {{town: '{}'}}, {ROLES})",
                path.display()
            );
            check("the error", &error_of(&context, &sql).await);
        }
        std::fs::write(&path, b"t1;\xff\xfe;*\nXMARKERX;a;*\n").unwrap();
        let sql = format!(
            "SELECT * FROM anonymize(lake, k => 2, hierarchies => {{town: '{}'}}, {ROLES})",
            path.display()
        );
        let error = error_of(&context, &sql).await;
        assert!(error.contains("it is not UTF-8 text"), "{error}");
        check("the error", &error);
    });
}

#[test]
fn plans_hold_no_values() {
    wait(async {
        let (context, _directory) = lake().await;
        let call = format!(
            "anonymize(lake, k => 3, l => 2, {ROLES}, hierarchies => {{town: (SELECT DISTINCT town, '*' FROM lake)}})"
        );
        for explain in
            ["EXPLAIN", "EXPLAIN FORMAT TREE", "EXPLAIN ANALYZE", "EXPLAIN ANALYZE VERBOSE"]
        {
            let sql = format!("{explain} SELECT age, note FROM {call} WHERE disease <> 'd1'");
            let rows = crate::invariants::release::rows(&context, &sql).await.unwrap();
            assert!(rows.concat().contains("Anonymize"), "{rows:?}");
            check(explain, &rows.join("\n"));
        }
        let frame = context.sql(&format!("SELECT age, note FROM {call}")).await.unwrap();
        check(
            "the logical plan",
            &format!("{:?}\n{:#?}", frame.logical_plan(), frame.logical_plan()),
        );
        check("the logical plan", &frame.logical_plan().display_graphviz().to_string());
        let optimized = context.state().optimize(frame.logical_plan()).unwrap();
        check("the optimized plan", &format!("{optimized:?}\n{}", optimized.display_pg_json()));
        if let datafusion::logical_expr::LogicalPlan::Projection(projection) = frame.logical_plan()
            && let datafusion::logical_expr::LogicalPlan::Extension(extension) =
                projection.input.as_ref()
        {
            check("the node", &format!("{:?}\n{:#?}", extension.node, extension.node));
        } else {
            panic!("the plan has no node");
        }
        let plan = frame.create_physical_plan().await.unwrap();
        assert!(format!("{plan:?}").contains("AnonymizeExec"));
        check("the physical plan", &format!("{plan:?}\n{plan:#?}"));
        check("the physical plan", &displayable(plan.as_ref()).indent(true).to_string());
    });
}

#[test]
fn schemas_hold_method_and_k_and_no_values() {
    wait(async {
        let (context, directory) = lake().await;
        let path = directory.path().join("release.parquet");
        let call = format!("anonymize(lake, k => 3, l => 2, {ROLES})");
        let schema = context.sql(&format!("SELECT * FROM {call}")).await.unwrap().schema().clone();
        check("the schema", &format!("{schema:?}"));
        let copy = format!("COPY (SELECT * FROM {call}) TO '{}' STORED AS PARQUET", path.display());
        context.sql(&copy).await.unwrap().collect().await.unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let written =
            ParquetRecordBatchReaderBuilder::try_new(file).unwrap().schema().metadata().clone();
        let expected = HashMap::from([
            ("anonymize.method".to_owned(), "layered".to_owned()),
            ("anonymize.k".to_owned(), "3".to_owned()),
            ("anonymize.models".to_owned(), "l=2".to_owned()),
        ]);
        assert_eq!(written, expected);
    });
}

/// Descriptions of a raw column may quote its values (extremes, examples): they stay inside.
#[test]
fn descriptions_of_raw_columns_are_not_carried_over() {
    let description = HashMap::from([("examples".to_owned(), "XMARKERX".to_owned())]);
    let field = Field::new("age", DataType::Int64, true).with_metadata(description.clone());
    let schema = Arc::new(Schema::new_with_metadata(vec![field], description));
    let ages: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![ages]).unwrap();
    wait(async {
        let context = crate::session(SessionConfig::new());
        let table = MemTable::try_new(schema, vec![vec![batch]]).unwrap();
        context.register_table("people", Arc::new(table)).unwrap();
        let sql = "SELECT * FROM anonymize(people, k => 2, quasi_identifiers => ['age'])";
        let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
        check("the schema", &format!("{:?}", batches[0].schema()));
        assert_eq!(batches[0].schema().metadata()["anonymize.k"], "2");
    });
}
