//! The attacker who links: everybody's quasi-identifiers are known, and the class of a row is looked up.

use std::collections::HashMap;

use datafusion_anonymize::method::{Family, methods};

use crate::{rows, session};

const K: usize = 5;

/// The chance that a guess inside the class of a person is right: one over its rows.
async fn best_chance(method: &str, k: usize) -> f64 {
    let context = session();
    let sql = format!(
        "SELECT class_id FROM anonymize((SELECT age, sex, education, occupation FROM
           sample_census(rows => 2000, seed => 3)), k => {k}, method => '{method}', seed => 'of this attack',
           quasi_identifiers => ['age', 'sex', 'education'], sensitive => ['occupation'], class_id => true)"
    );
    let mut classes: HashMap<String, usize> = HashMap::new();
    for row in rows(&context, &sql).await.unwrap() {
        *classes.entry(row[0].clone().unwrap()).or_default() += 1;
    }
    let smallest = classes.values().min().copied().unwrap();
    1.0 / smallest as f64
}

#[tokio::test]
async fn linking_never_beats_one_in_k() {
    for method in methods().filter(|method| method.family() == Family::Classes) {
        let chance = best_chance(method.name(), K).await;
        println!("{method}: linked with {chance:.3}");
        assert!(chance <= 1.0 / K as f64, "{method}: {chance}");
    }
    // The control: with a smaller k the same count finds smaller classes.
    let chance = best_chance("rounded", 2).await;
    assert!(chance > 1.0 / K as f64, "{chance}");
}
