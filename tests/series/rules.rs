//! Requirements, figures and the two tables of one night.

use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion_anonymize::{AnonymizeExec, SeriesFigures, redact_values};
use futures::TryStreamExt;

use super::*;

fn of_plan(plan: &Arc<dyn ExecutionPlan>) -> Option<&AnonymizeExec> {
    match plan.downcast_ref::<AnonymizeExec>() {
        Some(exec) => Some(exec),
        None => plan.children().into_iter().find_map(of_plan),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cohort_that_fails_the_requirement_repeats_and_is_not_marked() -> Result<()> {
    for (option, leavers) in [
        ("l => 2", "hold"),
        ("entropy_l => 1.5", "hold"),
        ("alpha => 0.5", "withdraw"),
        ("l => 2, changes => 'never'", "hold"),
    ] {
        let mut series = Series::new(&format!(", {option}, leavers => '{leavers}'"));
        let mut all = persons(0..40);
        let first = series.night(&all).await?;
        let cohort = cohort_of(&first)["d7"];
        let members: Vec<String> =
            first[&cohort].iter().map(|row| disease(row).to_owned()).collect();
        for person in all.iter_mut().filter(|person| members.contains(&person.disease)) {
            person.disease = "flu".to_owned();
        }
        let second = series.night(&all).await?;
        assert_eq!(second, first, "{option}");
    }
    Ok(())
}

/// Old ranges of persons who are all here would tell that the requirement failed, hence what they have.
#[tokio::test(flavor = "multi_thread")]
async fn a_cohort_that_fails_the_requirement_shows_tonights_ranges() -> Result<()> {
    for option in ["l => 2", "alpha => 0.5, leavers => 'withdraw'", "l => 2, changes => 'never'"] {
        let mut series = Series::new(&format!(", {option}"));
        let mut all = persons(0..40);
        let first = series.night(&all).await?;
        let cohort = cohort_of(&first)["d7"];
        let diseases = |of: &Cohorts| -> Vec<String> {
            let mut found: Vec<String> =
                of[&cohort].iter().map(|row| disease(row).to_owned()).collect();
            found.sort_unstable();
            found
        };
        let members = diseases(&first);
        for person in all.iter_mut().filter(|person| members.contains(&person.disease)) {
            (person.age, person.disease) = (99, "flu".to_owned());
        }
        for _ in 0..2 {
            let night = series.night(&all).await?;
            assert!(night[&cohort].iter().all(|row| row.starts_with("99 | ")), "{option}");
            assert_eq!(diseases(&night), members, "{option}");
            assert!(!is_held(&night[&cohort]), "{option}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn newcomers_who_fail_the_requirement_wait() -> Result<()> {
    let mut series = Series::new(", l => 2");
    let mut all = persons(0..40);
    let first = series.night(&all).await?;
    let mut new = persons(40..50);
    new.iter_mut().for_each(|person| person.disease = "flu".to_owned());
    all.extend(new);
    assert_eq!(series.night(&all).await?, first);
    all[41].disease = "cold".to_owned();
    let third = series.night(&all).await?;
    assert_eq!(third.len(), first.len() + 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn t_compares_with_all_rows_of_tonight() -> Result<()> {
    let mut series = Series::new(", t => 0.3");
    let mut all = persons(0..60);
    for (at, person) in all.iter_mut().enumerate() {
        person.disease = if at % 2 == 0 { "flu" } else { "cold" }.to_owned();
    }
    let first = series.night(&all).await?;
    assert!(first.len() > 1);
    // Newcomers like each other, and far from the table.
    let mut new = persons(60..70);
    new.iter_mut().for_each(|person| person.disease = "flu".to_owned());
    all.extend(new);
    assert_eq!(series.night(&all).await?, first);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_that_forms_classes_makes_series() -> Result<()> {
    for method in
        ["rounded", "layered", "mondrian", "mondrian_relaxed", "kaim", "bottom_up", "top_down"]
    {
        let mut series = Series::new(&format!(", method => '{method}'"));
        let first = series.night(&persons(0..50)).await?;
        let second = series.night(&persons(1..60)).await?;
        let (before, after) = (cohort_of(&first), cohort_of(&second));
        assert!(before.iter().all(|(who, cohort)| after[who] == *cohort), "{method}");
        assert_eq!(second.values().filter(|rows| is_held(rows)).count(), 1, "{method}");
        assert!(second.values().all(|rows| rows.len() >= 3), "{method}");
        assert_eq!(after.len(), 60, "{method}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn both_tables_of_a_night_agree_and_its_figures_are_told() -> Result<()> {
    let mut series = Series::new("");
    series.night(&persons(0..40)).await?;
    let tonight: Vec<Person> = persons(1..40).into_iter().chain(persons(40..46)).collect();
    let release = series.release(&tonight).await?;
    let members = series.new_members().await?;
    let plan = series.context.sql(&series.sql("")).await?.create_physical_plan().await?;
    let exec = of_plan(&plan).unwrap();
    let [both_release, both_members] = exec.release_and_members(series.context.task_ctx()).await?;
    let both_release: Vec<RecordBatch> = both_release.try_collect().await?;
    let both_members: Vec<RecordBatch> = both_members.try_collect().await?;
    assert_eq!(cohorts(&release), cohorts(&both_release));
    assert_eq!(texts(&members, ""), texts(&both_members, ""));
    let figures = exec.series_figures().unwrap();
    let held: Vec<usize> =
        cohorts(&release).values().filter(|rows| is_held(rows)).map(Vec::len).collect();
    let expected = SeriesFigures {
        persons_known: 40,
        persons_new: 6,
        persons_gone: 1,
        persons_waiting: 0,
        cohorts_live: (cohorts(&release).len() - 1) as u64,
        cohorts_held: 1,
        rows_held: held[0] as u64,
    };
    assert_eq!((figures, held.len()), (expected, 1));
    // The new cohorts of both are the same.
    let of_members = texts(&members, "");
    let published = cohorts(&release);
    assert_eq!(of_members.len(), 6);
    for row in &of_members {
        let size = of_members.iter().filter(|other| other[1] == row[1]).count();
        assert_eq!(published[&row[1].parse().unwrap()].len(), size);
    }
    Ok(())
}

/// A job takes both tables at once and shows what `redact_values` leaves of an error.
#[tokio::test(flavor = "multi_thread")]
async fn errors_of_both_tables_keep_their_message() -> Result<()> {
    let mut series = Series::new("");
    let all = persons(0..40);
    series.night(&all).await?;
    let options = series.options.clone();
    let mut shown = Vec::new();
    for (options, tonight, says) in [
        (options.replace(SEED, "seed => 'the seed of other nights'"), &all[..], "under this seed"),
        (options.replace("k => 3", "k => 9"), &all[..], "have fewer than k = 9 rows"),
        (options, &[&all[..], &all[..3]].concat()[..], "3 rows are not the only one"),
    ] {
        series.options = options;
        let tonight = batch(tonight);
        put(&series.context, "tonight", tonight.schema(), vec![tonight]);
        let plan = series.context.sql(&series.sql("")).await?.create_physical_plan().await?;
        let both = of_plan(&plan).unwrap().release_and_members(series.context.task_ctx()).await;
        let error = redact_values(both.err().unwrap()).to_string();
        assert!(error.contains(says), "{error}");
        shown.push(error);
    }
    assert_eq!(shown.len(), 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_two_tables_keep_their_message() -> Result<()> {
    let context = session(SessionConfig::new());
    let sql = "SELECT * FROM anonymize((SELECT age, occupation FROM sample_census(rows => 20, seed => 7)), \
               k => 21, method => 'alpha_k', alpha => 0.9, quasi_identifiers => ['age'], sensitive => \
               ['occupation'], publish => 'quasi_identifiers')";
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    let both = of_plan(&plan).unwrap().both_tables(context.task_ctx()).await;
    let error = redact_values(both.err().unwrap()).to_string();
    assert!(error.contains("20 rows"), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_tells_the_rules_and_analyze_the_figures() -> Result<()> {
    let mut series = Series::new(", changes => 'never'");
    series.night(&persons(0..40)).await?;
    let explain = |what: &str| format!("EXPLAIN {what}{}", series.sql(""));
    let shown = |batches: Vec<RecordBatch>| texts(&batches, "").concat().concat();
    let plan = shown(series.context.sql(&explain("")).await?.collect().await?);
    assert!(plan.contains("series=[leavers=hold, changes=never]"), "{plan}");
    assert!(!plan.contains("the seed of"));
    let analyzed = shown(series.context.sql(&explain("ANALYZE ")).await?.collect().await?);
    for figure in ["persons_known=40", "persons_gone=0", "cohorts_held=0", "persons_waiting=0"] {
        assert!(analyzed.contains(figure), "{figure}: {analyzed}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_selects_fewer_columns_sees_the_same_classes() -> Result<()> {
    let mut series = Series::new("");
    series.night(&persons(0..40)).await?;
    let release = series.release(&persons(1..50)).await?;
    let (cohort, age) = (position(&release, "cohort"), position(&release, "age"));
    let mut expected: Vec<Vec<String>> = texts(&release, "")
        .into_iter()
        .map(|row| vec![row[age].clone(), row[cohort].clone()])
        .collect();
    let few = format!("SELECT age, cohort FROM ({})", series.sql(""));
    let plan = series.context.sql(&few).await?.create_physical_plan().await?;
    let mut few = texts(&collect(plan, series.context.task_ctx()).await?, "");
    expected.sort_unstable();
    few.sort_unstable();
    assert_eq!(few, expected);
    let counted = format!("SELECT count(*) FROM ({})", series.sql(""));
    let counted = texts(&series.context.sql(&counted).await?.collect().await?, "");
    assert_eq!(counted[0][0], expected.len().to_string());
    let limited = format!("{} LIMIT 5", series.sql(", publish => 'members'"));
    let limited = texts(&series.context.sql(&limited).await?.collect().await?, "");
    assert_eq!(limited.len(), 5);
    Ok(())
}
