//! What a series refuses, and what its errors say to write.

use datafusion::arrow::array::{AsArray, Int64Array};
use datafusion::arrow::datatypes::Int64Type;

use super::*;

/// A series whose first night has passed.
async fn begun() -> Result<Series> {
    let mut series = Series::new("");
    series.night(&persons(0..40)).await?;
    Ok(series)
}

#[tokio::test(flavor = "multi_thread")]
async fn persons_must_be_known_and_have_one_row() -> Result<()> {
    let series = begun().await?;
    let mut all = persons(0..40);
    all.extend([all[3].clone(), all[3].clone(), all[9].clone()]);
    let error = series.error(&all).await;
    assert!(error.contains("'id': 3 rows are not the only one of their person"), "{error}");
    let mut new = persons(0..45);
    new.push(new[42].clone());
    let error = series.error(&new).await;
    assert!(error.contains("1 rows are not the only one"), "{error}");
    let sql = series
        .sql("")
        .replace("(tonight,", "((SELECT nullif(id, 4) AS id, age, zip, disease FROM tonight),");
    let error = series.context.sql(&sql).await?.collect().await.unwrap_err();
    assert!(error.strip_backtrace().contains("'id' is NULL in 1 rows"), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn another_seed_is_found_out() -> Result<()> {
    let mut series = begun().await?;
    series.options = series.options.replace(SEED, "seed => 'the seed of other nights'");
    let error = series.error(&persons(0..40)).await;
    assert!(error.contains("no cohort of 'members' was made under this seed"), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_does_not_fit_the_last_release_is_refused() -> Result<()> {
    let all = persons(0..60);
    // The second segment is missing.
    let mut series = begun().await?;
    let first = series.members.clone();
    let first_release = series.last.clone();
    series.night(&all).await?;
    let (both, release) = (series.members.clone(), series.last.clone());
    series.set_members(first);
    let error = series.error(&all).await;
    assert!(error.contains("the state is older than the release"), "{error}");
    // A segment is there twice.
    series.set_members([both.clone(), both.clone()].concat());
    let error = series.error(&all).await;
    assert!(error.contains("60 persons are in 'members' more than once"), "{error}");
    // An older release: what it does not have was withdrawn.
    series.set_members(both.clone());
    series.set_last(first_release);
    assert_eq!(cohorts(&series.release(&all).await?).values().map(Vec::len).sum::<usize>(), 40);
    // A part of the release.
    let part: Vec<RecordBatch> = release.iter().map(|of| of.slice(0, of.num_rows() - 1)).collect();
    series.set_last(part);
    let error = series.error(&all).await;
    assert!(error.contains("1 of its cohorts have other numbers of rows"), "{error}");
    // Nothing of it.
    series.set_last(release.iter().map(|of| of.slice(0, 0)).collect());
    let error = series.error(&all).await;
    assert!(error.contains("'last' has no cohort of 'members'"), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_row_of_the_state_is_never_replaced() -> Result<()> {
    // With one member lost, the cohort has more rows in the release than members.
    let mut series = begun().await?;
    let state = series.members[0].clone();
    series.set_members(vec![state.slice(1, state.num_rows() - 1)]);
    let error = series.error(&persons(0..40)).await;
    assert!(error.contains("1 of its cohorts have other numbers of rows"), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_was_changed_is_refused() -> Result<()> {
    let all = persons(0..40);
    let mut series = begun().await?;
    put(&series.context, "kept", series.last[0].schema(), series.last.clone());
    let changed = |what: &str| format!("SELECT {what} FROM kept");
    for (what, says) in [
        (
            "* EXCEPT (age), CASE WHEN disease = 'd7' THEN '1' ELSE age::varchar END AS age",
            "in 1 places",
        ),
        (
            "* EXCEPT (cohort), CASE WHEN disease = 'd7' THEN 5 ELSE cohort END AS cohort",
            "1 rows of 'last'",
        ),
        ("* EXCEPT (cohort), nullif(cohort, cohort) AS cohort", "40 rows of 'last'"),
        ("* EXCEPT (zip)", "'last' has no column 'zip'; it has age, disease, cohort, held"),
        (
            "* EXCEPT (disease), 7 AS disease",
            "column 'disease' of 'last' is Int64, and the release publishes Utf8",
        ),
    ] {
        let last = series.context.sql(&changed(what)).await?.collect().await?;
        series.set_last(last);
        let error = series.error(&all).await;
        assert!(error.contains(says), "{what}: {error}");
        // No value of a row.
        assert!(!error.contains("d7"), "{error}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_larger_k_needs_a_new_series() -> Result<()> {
    let mut series = begun().await?;
    series.options = series.options.replace("k => 3", "k => 9");
    let error = series.error(&persons(0..40)).await;
    assert!(error.contains("have fewer than k = 9 rows"), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_what_anonymize_wrote() -> Result<()> {
    let mut series = begun().await?;
    let state = series.members[0].clone();
    let cohorts = state.column(1).as_primitive::<Int64Type>();
    let negative = Int64Array::from_iter_values(cohorts.values().iter().map(|id| -id));
    let wrong = RecordBatch::try_new(
        state.schema(),
        vec![Arc::clone(state.column(0)), Arc::new(negative)],
    )?;
    series.set_members(vec![wrong]);
    let error = series.error(&persons(0..40)).await;
    assert!(
        error.contains("a cohort of 'members' is not one that anonymize has written"),
        "{error}"
    );
    for (members, says) in [
        (
            "(SELECT person, cohort, 1 AS more FROM members)",
            "must have those of publish => 'members'",
        ),
        ("(SELECT person FROM members)", "must have those of publish => 'members'"),
        ("(SELECT 'x' AS person, 1 AS cohort)", "must have those of publish => 'members'"),
        ("(SELECT arrow_cast('x', 'Binary') AS person, 1 AS cohort)", "a person of 'members'"),
        ("(SELECT arrow_cast(NULL, 'Binary') AS person, 1 AS cohort)", "a NULL of 'members'"),
    ] {
        let sql = series.sql("").replace("members: members", &format!("members: {members}"));
        let error = match series.context.sql(&sql).await {
            Err(error) => error,
            Ok(frame) => frame.collect().await.unwrap_err(),
        };
        assert!(error.strip_backtrace().contains(says), "{members}: {error}");
    }
    Ok(())
}

/// A key that is written in another way makes everybody a newcomer: with second cohorts both releases could be compared.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_a_second_cohort_because_keys_changed() -> Result<()> {
    let mut series = begun().await?;
    let all = persons(0..40);
    let mut refused = 0;
    for key in
        ["id + 1000", "'0' || id", "id::varchar || '.0'", "encode(id::varchar, 'hex') || '-'"]
    {
        let keyed = format!("((SELECT * EXCEPT (id), {key} AS id FROM tonight),");
        series.release(&all).await?;
        for publish in ["release", "members"] {
            let sql = series.sql(&format!(", publish => '{publish}'"));
            let sql = sql.replace("(tonight,", &keyed);
            let error = series.context.sql(&sql).await?.collect().await.unwrap_err();
            let error = error.strip_backtrace();
            assert!(error.contains("none of the 40 members is here tonight"), "{key}: {error}");
            assert!(error.contains("privacy_unit 'id'"), "{key}: {error}");
            refused += 1;
        }
    }
    assert_eq!(refused, 8);
    // Too few to be grouped: nothing is at stake yet.
    let strangers = persons(1000..1040);
    assert!(series.release(&strangers[..2]).await?.iter().all(|of| of.num_rows() > 0));
    // One who is back says that keys are what they were.
    let mut with_one = strangers.clone();
    with_one.push(all[0].clone());
    assert!(series.release(&with_one).await.is_ok());
    // A complete turnover that is true: they wait, or begin a series of their own.
    let options = series.options.clone();
    series.options += ", newcomers => 'wait'";
    let night = cohorts(&series.release(&strangers).await?);
    assert!(night.values().all(|rows| is_held(rows)) && cohort_of(&night).len() == 40);
    let mut another = Series::new("");
    another.options = options;
    assert_eq!(cohort_of(&another.night(&strangers).await?).len(), 40);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_no_fraction() -> Result<()> {
    let series = begun().await?;
    series.release(&persons(0..40)).await?;
    let mut refused = 0;
    for data_type in ["Float64", "Float32", "Float16", "Dictionary(Int8, Float64)"] {
        let keyed =
            format!("((SELECT * EXCEPT (id), arrow_cast(id, '{data_type}') AS id FROM tonight),");
        let sql = series.sql("").replace("(tonight,", &keyed);
        let error = match series.context.sql(&sql).await {
            Err(error) => error,
            Ok(frame) => frame.collect().await.unwrap_err(),
        };
        let error = error.strip_backtrace();
        assert!(error.contains("privacy_unit 'id' is ") && error.contains("CAST"), "{error}");
        refused += 1;
    }
    assert_eq!(refused, 4);
    Ok(())
}

/// A night that withdraws everything would be the last one of the series, and an empty input is a mistake upstream.
#[tokio::test(flavor = "multi_thread")]
async fn a_night_that_withdraws_everything_is_refused() -> Result<()> {
    let mut series = begun().await?;
    series.options += ", leavers => 'withdraw'";
    let cohorts = cohorts(&series.last).len();
    let says = format!("all {cohorts} cohorts of 'last' would be left out for good");
    for tonight in [persons(0..0), persons(1000..1002)] {
        let error = series.error(&tonight).await;
        assert!(error.contains(&says), "{error}");
        assert!(series.new_members().await.is_err());
    }
    // One cohort of three, of whom one is gone.
    let mut small = Series::new(", leavers => 'withdraw'");
    small.night(&persons(0..3)).await?;
    let error = small.error(&persons(1..3)).await;
    assert!(error.contains("all 1 cohorts of 'last' would be left out"), "{error}");
    small.options = small.options.replace("'withdraw'", "'hold'");
    assert_eq!(small.night(&persons(1..3)).await?.len(), 1);
    // Where others live, leaving some out is what was asked for.
    assert!(series.release(&persons(1..40)).await.is_ok());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_series_is_not_made_in_cells() -> Result<()> {
    let series = begun().await?;
    series.context.sql("SET anonymize.cells = 4").await?.collect().await?;
    let error = series.error(&persons(0..40)).await;
    assert!(error.contains("SET anonymize.cells = 0"), "{error}");
    Ok(())
}
