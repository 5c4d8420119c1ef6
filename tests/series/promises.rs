//! A release of a series depends on the rows, the state, the last release, the options and the seed, and on nothing else.

use datafusion::arrow::array::FixedSizeBinaryArray;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};

use super::*;
use crate::with_functions;

const ROWS: usize = 20_000;

/// Night two of a census, and what the first left behind.
#[derive(Clone)]
struct Two {
    tonight: Vec<RecordBatch>,
    members: Vec<RecordBatch>,
    last: Vec<RecordBatch>,
}

fn sql(publish: &str) -> String {
    format!(
        "SELECT * FROM anonymize(tonight, k => 5, held => true, quasi_identifiers => ['age', 'sex', 'zip'], sensitive \
         => ['occupation'], keep => ['note'], privacy_unit => 'person_id', l => 2, {SEED}, publish => '{publish}', \
         series => {{members: members, last: last}})"
    )
}

fn spread(context: &SessionContext, name: &str, batches: &[RecordBatch], turn: usize) {
    // Other partitions, and other batches in another order.
    let partitions = turn + 1;
    let rows = [8192, 700, 3000][turn % 3];
    let mut parts = vec![Vec::new(); partitions];
    let slices = batches.iter().flat_map(|batch| {
        (0..batch.num_rows())
            .step_by(rows)
            .map(|at| batch.slice(at, rows.min(batch.num_rows() - at)))
    });
    let mut slices: Vec<RecordBatch> = slices.collect();
    if turn % 2 == 1 {
        slices.reverse();
    }
    slices.into_iter().enumerate().for_each(|(at, of)| parts[at % partitions].push(of));
    let table = MemTable::try_new(batches[0].schema(), parts).unwrap();
    context.deregister_table(name).unwrap();
    context.register_table(name, Arc::new(table)).unwrap();
}

fn context(limit: Option<usize>, turn: usize) -> Result<SessionContext> {
    let mut runtime = RuntimeEnvBuilder::new();
    if let Some(limit) = limit {
        runtime = runtime.with_memory_limit(limit, 1.0);
    }
    let config =
        SessionConfig::new().with_target_partitions([2, 1, 4][turn % 3]).with_batch_size(1024);
    Ok(with_functions(SessionContext::new_with_config_rt(config, runtime.build_arc()?)))
}

async fn nights() -> Result<Two> {
    let context = context(None, 0)?;
    let read = async |sql: String| context.sql(&sql).await?.collect().await;
    read(format!(
        "CREATE TABLE census AS SELECT age, sex, zip, occupation, row_number() OVER () AS person_id, \
         repeat(person_id::varchar, 20) AS note FROM sample_census(rows => {ROWS}, seed => 3)"
    ))
    .await?;
    let census = |wanted: &str| format!("SELECT * FROM census WHERE {wanted}");
    let first = read(census("person_id % 100 <> 1")).await?;
    let tonight = read(census("person_id % 300 <> 2")).await?;
    put(&context, "tonight", first[0].schema(), first);
    read("CREATE TABLE members (person BYTEA, cohort BIGINT)".to_owned()).await?;
    read("CREATE TABLE last (cohort BIGINT)".to_owned()).await?;
    let last = read(sql("release")).await?;
    let members = read(sql("members")).await?;
    Ok(Two { tonight, members, last })
}

impl Two {
    /// A night on which nobody of them is here.
    fn nobody(&self) -> Vec<RecordBatch> {
        self.tonight.iter().map(|batch| batch.slice(0, 0)).collect()
    }

    async fn release(
        &self,
        limit: Option<usize>,
        turn: usize,
        publish: &str,
    ) -> Result<(Vec<Vec<String>>, usize)> {
        let context = context(limit, turn)?;
        spread(&context, "tonight", &self.tonight, turn);
        spread(&context, "members", &self.members, turn);
        spread(&context, "last", &self.last, turn);
        let plan = context.sql(&sql(publish)).await?.create_physical_plan().await?;
        let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
        fn spills(plan: &dyn ExecutionPlan) -> usize {
            let own = plan.metrics().and_then(|metrics| metrics.spill_count()).unwrap_or(0);
            own + plan.children().iter().map(|child| spills(child.as_ref())).sum::<usize>()
        }
        Ok((texts(&batches, "NULL"), spills(plan.as_ref())))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn order_batches_partitions_and_memory_do_not_show() -> Result<()> {
    let two = nights().await?;
    let (whole, none) = two.release(None, 0, "release").await?;
    let (members, _) = two.release(None, 0, "members").await?;
    assert!(whole.len() > ROWS / 2 && members.len() > 100 && none == 0);
    let held = whole.iter().filter(|row| row.last().is_some_and(|held| held == "true")).count();
    assert!(held > 100, "{held} rows are held");
    for turn in 1..4 {
        assert!(two.release(None, turn, "release").await?.0 == whole, "turn {turn}");
        assert!(two.release(None, turn, "members").await?.0 == members, "turn {turn}");
    }
    for limit in [12_000_000, 6_000_000, 4_000_000] {
        let (limited, files) = two.release(Some(limit), 0, "release").await?;
        assert!(limited == whole, "{limit}");
        assert!(files > 0 || limit > 6_000_000, "{files} files with {limit} bytes");
    }
    Ok(())
}

/// How much memory a night needs does not depend on who else has how much of the pool at which moment.
#[tokio::test(flavor = "multi_thread")]
async fn little_memory_is_enough_or_the_error_says_what_to_set() -> Result<()> {
    const ENOUGH: usize = 3_000_000;
    let two = nights().await?;
    let nobody = Two { tonight: two.nobody(), ..two.clone() };
    let (mut released, mut refused) = (0, 0);
    for (name, night) in [("some gone", &two), ("nobody here", &nobody)] {
        let (whole, _) = night.release(None, 0, "release").await?;
        for limit in (2..=20).map(|quarter| quarter * 250_000) {
            for turn in 0..3 {
                match night.release(Some(limit), turn, "release").await {
                    Ok((rows, files)) => {
                        assert!(rows == whole && files > 0, "{name}: {limit}, turn {turn}");
                        released += 1;
                    }
                    Err(error) => {
                        let error = error.to_string();
                        assert!(limit < ENOUGH, "{name}: {limit}, turn {turn}: {error}");
                        for told in
                            ["Resources exhausted", "AnonymizeExec[", "runtime.memory_limit"]
                        {
                            assert!(error.contains(told), "{name}: {limit}, turn {turn}: {error}");
                        }
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(released >= 2 * 9 * 3 && refused > 0, "{released} released, {refused} refused");
    Ok(())
}

/// However many persons a series knows, its state leaves most of the pool to the input and the method.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_state_stands_in_a_file() -> Result<()> {
    const LIMIT: usize = 20_000_000;
    const MORE: u128 = 250_000;
    let two = nights().await?;
    let (whole, none) = two.release(Some(LIMIT), 0, "release").await?;
    assert_eq!(none, 0, "a small state is in memory");
    // Persons of cohorts that were withdrawn: they are in the state and in no release.
    let person = |at: u128| (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834);
    let persons = (0..MORE).map(|at| person(at).to_be_bytes());
    let columns: Vec<ArrayRef> = vec![
        Arc::new(FixedSizeBinaryArray::try_from_iter(persons)?),
        Arc::new(Int64Array::from_iter_values((0..MORE as i64).map(|at| 1 + at / 10))),
    ];
    let more = RecordBatch::try_new(two.members[0].schema(), columns)?;
    let members = two.members.iter().cloned().chain([more]).collect();
    let large = Two { members, ..two.clone() };
    for turn in 0..3 {
        let (rows, files) = large.release(Some(LIMIT), turn, "release").await?;
        assert!(rows == whole && files > 0, "turn {turn}: {files} files");
    }
    // What has no place in a file fits into neither of these.
    for limit in [1_000_000, 1_500_000] {
        let error = large.release(Some(limit), 0, "release").await.unwrap_err().to_string();
        assert!(
            error.contains("runtime.memory_limit") && error.contains("AnonymizeExec["),
            "{error}"
        );
    }
    Ok(())
}

/// Members, codes and the last release are reserved: what does not fit is an error and not a killed process.
#[tokio::test(flavor = "multi_thread")]
async fn too_little_memory_is_an_error() -> Result<()> {
    let two = nights().await?;
    let error = two.release(Some(100_000), 0, "release").await.unwrap_err();
    assert!(error.to_string().contains("Resources exhausted"), "{error}");
    Ok(())
}
