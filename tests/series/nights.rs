//! What is published from night to night.

use std::collections::BTreeSet;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn the_first_night_groups_everybody() -> Result<()> {
    let mut series = Series::new("");
    let first = series.night(&persons(0..40)).await?;
    assert!(first.values().all(|rows| rows.len() >= 3 && !is_held(rows)));
    assert_eq!(cohort_of(&first).len(), 40);
    // The state says the same of everybody, in the order of pseudonyms.
    let state = texts(&series.members, "NULL");
    let persons: Vec<&String> = state.iter().map(|row| &row[0]).collect();
    assert!(persons.len() == 40 && persons.is_sorted());
    for (cohort, rows) in &first {
        let members = state.iter().filter(|row| row[1] == cohort.to_string()).count();
        assert_eq!(members, rows.len());
    }
    // Rows leave in the order of ids, which are keyed hashes.
    let cohort = position(&series.last, "cohort");
    let ids: Vec<i64> =
        texts(&series.last, "").iter().map(|row| row[cohort].parse().unwrap()).collect();
    assert!(ids.is_sorted() && ids[0] >= 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_persons_are_published_the_same_and_nobody_is_new() -> Result<()> {
    let mut series = Series::new("");
    let first = series.night(&persons(0..40)).await?;
    assert_eq!(series.night(&persons(0..40)).await?, first);
    assert_eq!(series.members.iter().map(RecordBatch::num_rows).sum::<usize>(), 40);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn newcomers_are_grouped_among_themselves_or_wait() -> Result<()> {
    let mut series = Series::new("");
    let first = series.night(&persons(0..40)).await?;
    let second = series.night(&persons(0..48)).await?;
    let (before, after) = (cohort_of(&first), cohort_of(&second));
    assert!(before.iter().all(|(who, cohort)| after[who] == *cohort));
    let new: BTreeSet<i64> =
        after.iter().filter(|(who, _)| !before.contains_key(*who)).map(|(_, of)| *of).collect();
    assert!(
        after.len() == 48 && new.iter().all(|id| !first.contains_key(id) && second[id].len() >= 3)
    );
    // Two more are too few.
    let third = series.night(&persons(0..50)).await?;
    assert_eq!(third, second);
    // With a third one they are enough.
    let fourth = series.night(&persons(0..51)).await?;
    assert_eq!(cohort_of(&fourth).len(), 51);
    assert_eq!(fourth.len(), third.len() + 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn newcomers_can_be_told_to_wait() -> Result<()> {
    let mut series = Series::new("");
    let first = series.night(&persons(0..40)).await?;
    series.options += ", newcomers => 'wait'";
    assert_eq!(series.night(&persons(0..60)).await?, first);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cohort_repeats_its_rows_while_somebody_is_gone() -> Result<()> {
    let mut series = Series::new("");
    let mut all = persons(0..40);
    let first = series.night(&all).await?;
    let cohort = cohort_of(&first)["d7"];
    // Somebody leaves, and everybody's values change.
    let gone = all.remove(7);
    all.iter_mut().for_each(|person| person.disease += "x");
    let second = series.night(&all).await?;
    for (id, rows) in &second {
        assert_eq!(is_held(rows), *id == cohort);
        match *id == cohort {
            true => {
                let unmarked = |rows: &[String]| -> Vec<String> {
                    rows.iter().map(|row| row.rsplit_once(" | ").unwrap().0.to_owned()).collect()
                };
                assert_eq!(unmarked(rows), unmarked(&first[id]));
            }
            false => assert!(rows.iter().all(|row| disease(row).ends_with('x'))),
        }
    }
    assert_eq!(second.keys().collect::<Vec<_>>(), first.keys().collect::<Vec<_>>());
    // It repeats them again, and lives when everybody is back.
    assert_eq!(series.night(&all).await?, second);
    all.push(gone);
    let fourth = series.night(&all).await?;
    assert!(fourth.values().all(|rows| !is_held(rows)));
    assert_eq!(cohort_of(&fourth).keys().filter(|who| who.ends_with('x')).count(), 39);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawn_cohort_never_comes_back() -> Result<()> {
    let mut series = Series::new(", leavers => 'withdraw'");
    let all = persons(0..40);
    let first = series.night(&all).await?;
    let cohort = cohort_of(&first)["d7"];
    let mut less = all.clone();
    less.remove(7);
    let second = series.night(&less).await?;
    let mut without = first;
    without.remove(&cohort);
    assert_eq!(second, without);
    // Its persons are no newcomers either.
    assert_eq!(series.night(&all).await?, without);
    assert_eq!(series.members.iter().map(RecordBatch::num_rows).sum::<usize>(), 40);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_values_are_published_or_never() -> Result<()> {
    for (changes, shows) in [("publish", true), ("never", false)] {
        let mut series = Series::new(&format!(", changes => '{changes}'"));
        let mut all = persons(0..40);
        let first = series.night(&all).await?;
        let cohort = cohort_of(&first)["d7"];
        all[7].disease = "changed".to_owned();
        all.iter_mut().for_each(|person| person.age += 1);
        let second = series.night(&all).await?;
        let now = cohort_of(&second);
        assert_eq!(now.contains_key("changed"), shows, "{changes}");
        assert_eq!(now.contains_key("d7"), !shows, "{changes}");
        assert!(second[&cohort].iter().all(|row| row.ends_with("false")));
        // Ranges are tonight's in both.
        assert!(first.keys().all(|id| first[id] != second[id]), "{changes}");
        if !shows {
            assert_eq!(now, cohort_of(&first));
            // A cohort that is held keeps its ranges too.
            let third = series.night(&all[1..]).await?;
            let held: Vec<_> = third.iter().filter(|(_, rows)| is_held(rows)).collect();
            assert_eq!(held.len(), 1);
            assert_eq!(cohort_of(&third), now);
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_but_newcomers_is_no_error_and_nobody_at_all_repeats_everything() -> Result<()> {
    let mut series = Series::new("");
    assert!(series.night(&persons(0..2)).await?.is_empty());
    let first = series.night(&persons(0..40)).await?;
    let second = series.night(&persons(0..0)).await?;
    assert!(second.values().all(|rows| is_held(rows)));
    assert_eq!(cohort_of(&second), cohort_of(&first));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_person_keeps_the_cohort_from_living() -> Result<()> {
    use datafusion::arrow::array::{AsArray, FixedSizeBinaryArray};
    let mut series = Series::new("");
    let all = persons(0..40);
    let first = series.night(&all).await?;
    let state = series.members[0].clone();
    let mut hashes: Vec<Vec<u8>> =
        state.column(0).as_fixed_size_binary().iter().flatten().map(<[u8]>::to_vec).collect();
    hashes[5] = vec![7; 16];
    let hashes = FixedSizeBinaryArray::try_from_iter(hashes.into_iter())?;
    let forgotten =
        RecordBatch::try_new(state.schema(), vec![Arc::new(hashes), Arc::clone(state.column(1))])?;
    series.set_members(vec![forgotten]);
    let second = series.night(&all).await?;
    assert_eq!(second.values().filter(|rows| is_held(rows)).count(), 1);
    assert_eq!(cohort_of(&second), cohort_of(&first));
    // The person who was forgotten is a newcomer now, and waits.
    series.options = series.options.replace("held => true", "held => true, leavers => 'withdraw'");
    assert_eq!(series.night(&all).await?.len(), first.len() - 1);
    Ok(())
}
