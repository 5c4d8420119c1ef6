//! The control: releases that are made anew every night fall, whatever the method.

use std::collections::HashMap;

use super::attacker::{Night, crowds, posterior, told_by_subtraction};
use super::world::{Churn, World};
use super::{METHODS, Register, SEED, given_register, measured, register_tonight, seen};
use crate::attacks::{rows, session};

/// Naive releases `release_1`, `release_2`, … of some nights, and what the attacker sees of them.
struct Naive {
    context: datafusion::prelude::SessionContext,
    world: World,
    nights: Vec<Night>,
    names: Vec<String>,
    truth: HashMap<i64, String>,
}

async fn publish(mut world: World, churn: Churn, nights: usize, how: &str) -> Naive {
    let context = session();
    let mut register = Register::default();
    let (mut seen_nights, mut names) = (Vec::new(), Vec::new());
    for number in 0..nights {
        if number > 0 {
            world.next(churn);
        }
        register_tonight(&context, &world);
        let name = format!("release_{}", number + 1);
        let sql = format!(
            "CREATE TABLE {name} AS SELECT * FROM anonymize(({}), {} {how}, keep => ['who'], class_id => true,
               seed => '{SEED}')",
            world.tonight(),
            world.roles(),
        );
        rows(&context, &sql).await.unwrap();
        let night = seen(&context, &name, "class_id").await;
        register.add(&world, number, &night);
        seen_nights.push(night);
        names.push(format!("(SELECT * EXCEPT (who) FROM {name})"));
    }
    register.register(&context, &world);
    let truth = world.people.iter().map(|person| (person.who, person.value.clone())).collect();
    Naive { context, world, nights: seen_nights, names, truth }
}

impl Naive {
    /// `series_report` finds what the attacker finds.
    async fn check_report(&self, k: usize) {
        let found = crowds(&self.nights, k);
        let options = format!("k => {k}, {}", given_register(&self.world, true));
        let report = measured(&self.context, &self.world, &self.names, &options).await;
        assert_eq!(report("crowd_min"), (Some(found.smallest as f64), Some(found.smallest >= k)));
        let near = |measure: &str, share: f64| {
            let value = report(measure).0.unwrap();
            assert!((value - share).abs() < 1e-12, "{measure}: {value}, not {share}");
        };
        near("crowd_below_k", found.below_k);
        near("alone", found.alone);
        near("differenced", told_by_subtraction(&self.nights).len() as f64);
        near("unplaced", 0.0);
    }
}

/// More than the published study, since small tables change less.
const CHURN: Churn =
    Churn { inserted: 0.01, deleted: 0.005, returned: 0.05, moved: 0.005, changed: 0.01 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_made_anew_every_night_fall() {
    for (number, method) in METHODS.into_iter().enumerate() {
        let k = [5, 10][number % 2];
        let how = format!("k => {k}, method => '{method}',");
        let world = World::generated(600, 7 + number as u64);
        let naive = publish(world, CHURN, 8, how.trim_end_matches(',')).await;
        let two = crowds(&naive.nights[..2], k);
        let eight = crowds(&naive.nights, k);
        let told = told_by_subtraction(&naive.nights).len();
        let gain = posterior(&naive.nights, &naive.truth);
        println!(
            "{method}, k = {k}: crowd below k for {:.0} % after 2 nights and {:.0} % after 8, alone {:.0} %; one subtraction \
             tells {told} values; {} values told ({} rightly) of {}, at most {:.2} above the share in the class",
            100.0 * two.below_k,
            100.0 * eight.below_k,
            100.0 * eight.alone,
            gain.certain,
            gain.right,
            gain.persons,
            gain.most,
        );
        assert!(naive.nights.iter().all(|night| night.smallest() >= k), "{method}");
        // Methods that keep most of their classes from night to night fall later.
        assert!(two.below_k > 0.05, "{method}: {}", two.below_k);
        assert!(eight.below_k > 0.3, "{method}: {}", eight.below_k);
        assert!(told > 0 && gain.most > 0.2, "{method}: {told} values, {}", gain.most);
        naive.check_report(k).await;
    }
}

/// Ten rows that are inserted, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_few_inserted_rows_are_enough() {
    let only_inserts =
        Churn { inserted: 0.01, deleted: 0.0, returned: 0.0, moved: 0.0, changed: 0.0 };
    let naive =
        publish(World::generated(1000, 3), only_inserts, 2, "k => 10, method => 'rounded'").await;
    let found = crowds(&naive.nights, 10);
    println!("10 rows inserted into 1000: crowd below 10 for {:.0} %", 100.0 * found.below_k);
    assert!(found.below_k > 0.1, "{}", found.below_k);
    naive.check_report(10).await;
}

/// Somebody who is told no class finds it by the published labels and ranges.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_labels_are_enough() {
    let naive = publish(World::generated(600, 11), CHURN, 4, "k => 5, method => 'mondrian'").await;
    let options = format!("k => 5, {}", given_register(&naive.world, false));
    let by_fit = measured(&naive.context, &naive.world, &naive.names, &options).await;
    let known = crowds(&naive.nights, 5);
    let (found, _) = by_fit("crowd_below_k");
    println!(
        "mondrian, 4 nights: crowd below 5 for {:.0} % by labels, {:.0} % by known classes",
        100.0 * found.unwrap(),
        100.0 * known.below_k
    );
    assert!(found.unwrap() > 0.3, "{found:?}");
    assert_eq!(by_fit("unplaced").0, Some(0.0));
}

/// What happens on a night of the study whose figures `docs/privacy.md` and the README tell.
pub(super) const STUDY: Churn =
    Churn { inserted: 0.01, deleted: 0.005, returned: 0.0, moved: 0.0, changed: 0.01 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adult_made_anew_every_night_falls() {
    for (method, least) in [("rounded", [0.0, 0.5, 0.9]), ("layered", [0.0, 0.1, 0.4])] {
        let name = "naive nightly releases of Adult";
        let Some(world) = World::adult(name, 22_000).await else { return };
        let naive = publish(world, STUDY, 7, &format!("k => 10, method => '{method}'")).await;
        for (nights, least) in [1, 2, 7].into_iter().zip(least) {
            let found = crowds(&naive.nights[..nights], 10);
            println!(
                "Adult, {method}, {nights} nights: crowd below 10 for {:.1} %, alone {:.1} %",
                100.0 * found.below_k,
                100.0 * found.alone
            );
            assert!(found.below_k >= least, "{method}, {nights} nights: {}", found.below_k);
            assert!(nights > 1 || found.below_k == 0.0);
        }
        naive.check_adult(method).await;
    }
}

impl Naive {
    /// `series_report` finds what the attacker finds, on a table of some size too.
    async fn check_adult(&self, method: &str) {
        let known = given_register(&self.world, true);
        for (register, nights) in [(known, 7), (given_register(&self.world, false), 2)] {
            // A register has rows of the nights that are named.
            let named = format!("FROM register WHERE release <= {nights}");
            let register = register.replace("FROM register", &named);
            let options = format!("k => 10, {register}");
            let names = &self.names[..nights];
            let report = measured(&self.context, &self.world, names, &options).await;
            println!(
                "Adult, {method}, {nights} nights, series_report{}: crowd_below_k {:?}, alone {:?}, differenced {:?}",
                if register.contains(" class ") { "" } else { " by labels" },
                report("crowd_below_k").0,
                report("alone").0,
                report("differenced").0,
            );
            assert_eq!(report("crowd_below_k").1, Some(false));
            if nights == 7 {
                let found = crowds(&self.nights, 10);
                let value = report("crowd_below_k").0.unwrap();
                assert!((value - found.below_k).abs() < 1e-12, "{value}, not {}", found.below_k);
            }
        }
    }
}
