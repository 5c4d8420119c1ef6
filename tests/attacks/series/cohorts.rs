//! Series: who compares all nights learns what each night tells by itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;

use super::attacker::{Night, crowds, posterior, told_by_subtraction};
use super::naive::STUDY;
use super::world::{Churn, World};
use super::{METHODS, Register, SEED, given_register, measured, register_tonight, seen};
use crate::attacks::classes::covers;
use crate::attacks::{rows, session};

/// Releases of a series, and what the attacker sees of them.
struct Series {
    context: SessionContext,
    world: World,
    nights: Vec<Night>,
    /// The values that persons have, by night.
    truth: Vec<HashMap<i64, String>>,
    names: Vec<String>,
    /// Cohorts that were seen not to be published although nobody was gone.
    unmasked: usize,
}

const NOBODY: &str = "SELECT arrow_cast('0123456789abcdef', 'Binary') AS person, CAST(1 AS BIGINT) AS cohort WHERE false";

async fn publish(world: World, churn: Churn, nights: usize, how: &str) -> Series {
    let context = session();
    rows(&context, &format!("CREATE TABLE members AS {NOBODY}")).await.unwrap();
    rows(&context, "CREATE TABLE release_0 AS SELECT 1 AS nothing WHERE false").await.unwrap();
    let mut register = Register::default();
    let mut members: Vec<RecordBatch> = Vec::new();
    let (nights_seen, truth, names) = (Vec::new(), Vec::new(), Vec::new());
    let mut series = Series { context, world, nights: nights_seen, truth, names, unmasked: 0 };
    for number in 0..nights {
        if number > 0 {
            series.world.next(churn);
        }
        register_tonight(&series.context, &series.world);
        let name = format!("release_{}", number + 1);
        let call = |publish: &str| {
            format!(
                "SELECT * FROM anonymize((SELECT who AS person, * FROM ({})), {} {how}, keep => ['who'],
                   privacy_unit => 'person', seed => '{SEED}', publish => '{publish}',
                   series => {{members: members, last: release_{number}}})",
                series.world.tonight(),
                series.world.roles(),
            )
        };
        let (release, new_members) = (call("release"), call("members"));
        rows(&series.context, &format!("CREATE TABLE {name} AS {release}")).await.unwrap();
        let new_members = series.context.sql(&new_members).await.unwrap().collect().await.unwrap();
        members.extend(new_members.into_iter().filter(|batch| batch.num_rows() > 0));
        if let Some(first) = members.first() {
            let table = MemTable::try_new(first.schema(), vec![members.clone()]).unwrap();
            series.context.deregister_table("members").unwrap();
            series.context.register_table("members", Arc::new(table)).unwrap();
        }
        let night = seen(&series.context, &name, "cohort").await;
        series.unmasked += series.unmasked_cohorts(&name, &night).await;
        register.add(&series.world, number, &night);
        let people = series.world.people.iter();
        series.truth.push(people.map(|person| (person.who, person.value.clone())).collect());
        series.nights.push(night);
        series.names.push(format!("(SELECT * EXCEPT (who) FROM {name})"));
    }
    register.register(&series.context, &series.world);
    series
}

impl Series {
    /// Whole cohorts whose published quasi-identifiers do not cover their members: their rows cannot be tonight's, and
    /// nobody is gone, so the requirement failed, which tells something of the values.
    async fn unmasked_cohorts(&self, release: &str, night: &Night) -> usize {
        // Labels of hierarchies in files are not read here.
        if self.world.hierarchies.contains("named_struct") {
            return 0;
        }
        let columns = self.world.columns.join(", ");
        let sql = format!("SELECT DISTINCT cohort, {columns} FROM {release}");
        let tuples = rows(&self.context, &sql).await.unwrap();
        let mut boxes: BTreeMap<i64, Vec<Option<String>>> = BTreeMap::new();
        for mut row in tuples {
            let cohort = row.remove(0).unwrap().parse().unwrap();
            assert!(boxes.insert(cohort, row).is_none(), "a cohort with two combinations");
        }
        let mut stale = BTreeSet::new();
        for person in &self.world.people {
            if let Some(cohort) = night.class_of.get(&person.who) {
                let fits = person.cells.iter().zip(&boxes[cohort]);
                let mut fits =
                    fits.map(|(cell, published)| covers(published.as_deref().unwrap(), cell));
                if !fits.all(|fits| fits) {
                    stale.insert(*cohort);
                }
            }
        }
        let gone = self.world.people.iter().filter(|person| !person.is_present);
        let gone: BTreeSet<i64> =
            gone.filter_map(|p| night.class_of.get(&p.who)).copied().collect();
        stale.difference(&gone).count()
    }

    /// Everything that the attacker tries.
    fn check(&self, k: usize, label: &str) {
        let found = crowds(&self.nights, k);
        assert!(found.smallest >= k, "{label}: crowd of {}", found.smallest);
        let told = told_by_subtraction(&self.nights);
        assert!(told.is_empty(), "{label}: {} values", told.len());
        let mut most = 0.0f64;
        for last in 1..=self.nights.len() {
            let gain = posterior(&self.nights[..last], &self.truth[last - 1]);
            assert!(gain.most < 1e-6, "{label}: night {last}: {} above the share", gain.most);
            most = most.max(gain.most);
        }
        assert_eq!(self.unmasked, 0, "{label}: cohorts are seen to have failed");
        let last = self.nights.last().unwrap();
        let cohorts: BTreeSet<i64> = last.class_of.values().copied().collect();
        let people = self.world.people.iter().filter(|person| person.is_present);
        let waiting = people.filter(|person| !last.class_of.contains_key(&person.who)).count();
        println!(
            "{label}: {} nights, {} cohorts on the last, crowd {}, {} values told, posterior at most {most:.0e} above the \
             share, {waiting} waiting",
            self.nights.len(),
            cohorts.len(),
            found.smallest,
            told.len(),
        );
    }

    /// `series_report` passes the series, whether the register names classes or not.
    async fn check_report(&self, k: usize, requirement: &str, by_labels: bool) {
        for with_classes in [true, false] {
            if !with_classes && !by_labels {
                continue;
            }
            let options =
                format!("k => {k}, {requirement} {}", given_register(&self.world, with_classes));
            let report = measured(&self.context, &self.world, &self.names, &options).await;
            for measure in [
                "smallest_cohort",
                "cohorts_resized",
                "divided_cohorts",
                "crowd_min",
                "crowd_below_k",
                "alone",
                "differenced",
            ] {
                let (value, holds) = report(measure);
                assert_eq!(
                    holds,
                    Some(true),
                    "{measure} = {value:?}, classes named: {with_classes}"
                );
            }
            for measure in ["held_cohorts_changed", "l", "alpha"] {
                assert_ne!(report(measure).1, Some(false), "{measure}");
            }
        }
    }
}

const CHURN: Churn =
    Churn { inserted: 0.02, deleted: 0.004, returned: 0.1, moved: 0.01, changed: 0.02 };

/// Large cohorts lose somebody sooner, and some shall live on the last night too.
const CHURN_OF_LARGE: Churn = Churn { deleted: 0.001, ..CHURN };

/// What is asked of a series on all nights.
struct Asked {
    k: usize,
    requirement: &'static str,
    more: &'static str,
}

const ASKED: [Asked; 4] = [
    Asked { k: 2, requirement: "l => 2,", more: "held => true," },
    Asked { k: 5, requirement: "", more: "" },
    Asked { k: 10, requirement: "alpha => 0.5,", more: "held => true," },
    Asked { k: 25, requirement: "l => 3,", more: "leavers => 'withdraw'," },
];

/// Thirty nights of a world under every method.
async fn check_thirty_nights(asked: &[Asked], churn: Churn, persons: usize) {
    for (number, method) in METHODS.into_iter().enumerate() {
        for Asked { k, requirement, more } in asked {
            let how = format!("k => {k}, method => '{method}', {requirement} {more}");
            let world = World::generated(persons, 10 * number as u64 + *k as u64);
            let series = publish(world, churn, 30, how.trim().trim_end_matches(',')).await;
            series.check(*k, &how);
            series.check_report(*k, requirement, true).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_nights_tell_no_more_than_one() {
    check_thirty_nights(&ASKED[..2], CHURN, 150).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn larger_cohorts_tell_no_more_either() {
    check_thirty_nights(&ASKED[2..], CHURN_OF_LARGE, 250).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_values_for_ever_tell_no_more() {
    let how = "k => 5, alpha => 0.5, changes => 'never', held => true";
    let series = publish(World::generated(300, 5), CHURN, 12, how).await;
    series.check(5, how);
    series.check_report(5, "alpha => 0.5,", true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adult_in_a_series_is_safe() {
    for (number, method) in METHODS.into_iter().enumerate() {
        let Some(world) = World::adult("a series of Adult", 300).await else { return };
        let Asked { k, requirement, more } = &ASKED[number % ASKED.len()];
        let how = format!("k => {k}, method => '{method}', {requirement} {more}");
        let series = publish(world, CHURN_OF_LARGE, 30, how.trim().trim_end_matches(',')).await;
        series.check(*k, &format!("Adult, {how}"));
        series.check_report(*k, requirement, number == 0).await;
    }
}

/// Where releases made anew leave most persons with fewer than k.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adult_in_a_series_holds_where_naive_releases_fall() {
    let Some(world) = World::adult("a series of all of Adult", 22_000).await else { return };
    let series = publish(world, STUDY, 7, "k => 10, method => 'rounded', held => true").await;
    for nights in [2, 7] {
        let found = crowds(&series.nights[..nights], 10);
        assert!(found.smallest >= 10 && found.below_k == 0.0 && found.alone == 0.0, "{nights}");
    }
    series.check_report(10, "", false).await;
}
