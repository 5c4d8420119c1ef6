//! A requirement that is added or tightened while a series runs holds for what is published again, or there is no release.

use super::*;

/// Everybody has the same value: what k alone allows.
fn alike(ids: std::ops::Range<i64>) -> Vec<Person> {
    let mut all = persons(ids);
    all.iter_mut().for_each(|person| person.disease = "flu".to_owned());
    all
}

/// A series that began with k alone; everybody had the same value in its first release.
async fn begun_alike() -> Result<Series> {
    let mut series = Series::new("");
    series.night(&alike(0..40)).await?;
    Ok(series)
}

const LEVELS: &str = "(SELECT 'flu' AS value, 1 AS level UNION ALL SELECT 'd' || value, 1 FROM generate_series(0, 60))";

fn added() -> Vec<String> {
    let graded = format!("alpha => [0.5], sensitivity => {LEVELS}");
    ["l => 2", "entropy_l => 1.5", "alpha => 0.5", &graded].map(str::to_owned).to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_cohort_is_judged_by_a_model_that_was_added() -> Result<()> {
    let mut judged = 0;
    for option in added() {
        let mut series = begun_alike().await?;
        series.options += &format!(", {option}");
        // Everybody who is here has a value of their own, and one person is gone.
        let error = series.error(&persons(1..40)).await;
        assert!(
            error.contains("1 cohorts repeat values of 'last' that do not meet"),
            "{option}: {error}"
        );
        assert!(
            error.contains("begin a new series") && !error.contains("flu"),
            "{option}: {error}"
        );
        judged += 1;
        // Without the one who is gone nothing is repeated, and the new requirement holds.
        let second = series.night(&persons(0..40)).await?;
        assert_eq!(cohort_of(&second).len(), 40, "{option}");
        // From then on what is repeated meets it.
        let third = series.night(&alike(1..40)).await?;
        assert_eq!(cohort_of(&third), cohort_of(&second), "{option}");
    }
    assert_eq!(judged, 4);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cohort_that_keeps_its_values_is_judged_by_a_model_that_was_added() -> Result<()> {
    let mut judged = 0;
    for option in added() {
        for (more, tonight) in [("", alike(0..40)), (", changes => 'never'", persons(0..40))] {
            let mut series = begun_alike().await?;
            let cohorts = cohorts(&series.last).len();
            series.options += &format!(", {option}{more}");
            let error = series.error(&tonight).await;
            let says = format!("{cohorts} cohorts repeat values of 'last' that do not meet");
            assert!(error.contains(&says), "{option}{more}: {error}");
            judged += 1;
        }
    }
    assert_eq!(judged, 8);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_tightened_is_found_out() -> Result<()> {
    let pairs = |ids| -> Vec<Person> {
        let mut all = persons(ids);
        all.iter_mut().for_each(|person| person.disease = format!("d{}", person.id % 2));
        all
    };
    let mut series = Series::new(", l => 2");
    series.night(&pairs(0..60)).await?;
    assert!(series.release(&pairs(1..60)).await.is_ok());
    series.options = series.options.replace("l => 2", "l => 3");
    let error = series.error(&persons(1..60)).await;
    assert!(error.contains("1 cohorts repeat values of 'last' that do not meet l = 3"), "{error}");
    // The members alone tell no other night.
    assert!(series.new_members().await.is_err());
    // One that holds for everything that is repeated may be added.
    series.options = series.options.replace("l => 3", "l => 2, alpha => 0.9");
    assert!(series.release(&pairs(1..60)).await.is_ok());
    Ok(())
}

/// It compares with the rows of a night, and what is repeated is of another one.
#[tokio::test(flavor = "multi_thread")]
async fn t_does_not_judge_what_is_repeated() -> Result<()> {
    let mut series = begun_alike().await?;
    series.options += ", t => 0.01";
    let second = series.night(&persons(1..40)).await?;
    assert!(cohort_of(&second).keys().eq(["flu"]));
    Ok(())
}
