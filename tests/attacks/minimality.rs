//! The attacker who replays: a method that looks at sensitive values cuts where they allow it, so a cut that
//! was not made says something about them (minimality).
//!
//! Every way in which the published values of each class can belong to its rows is tried: those that would have
//! been published otherwise are out, and a person who has the same value in all others is named. The control is a
//! release without a model: its classes depend on nothing that is hidden, and replaying it names nobody. No model of
//! sensitive values prevents the attack in tables this small; the figures are in `docs/privacy.md`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use datafusion_anonymize::pure::hierarchy::Axis;
use datafusion_anonymize::pure::method::layered::{self, layered};
use datafusion_anonymize::pure::method::partition::{self, Cut, Split, partition};
use datafusion_anonymize::pure::method::{Job, Variant};
use datafusion_anonymize::pure::model::{
    Cancel, Model, Requirement, RowKeys, RowTable, SensitiveColumn,
};

const PERSONS: usize = 10;
const TABLES: u64 = 40;

#[derive(Debug, Clone, Copy)]
enum Method {
    Cut(Cut),
    Layered,
}

type Classes = BTreeSet<Vec<u32>>;

/// The same for every one of the many tables that are tried.
static AXES: LazyLock<[Axis; 2]> = LazyLock::new(|| {
    let places: Vec<f64> = (0..64).map(f64::from).collect();
    [(); 2].map(|()| Axis::line(&places, false))
});

/// Who is grouped with whom, `None` if no release is possible.
fn classes(
    method: Method,
    persons: &[[u32; 2]],
    values: &[u32],
    requirement: &Requirement,
) -> Option<Classes> {
    let mut rows = RowTable::from_codes(persons).unwrap();
    let sensitive = [SensitiveColumn {
        name: "disease".to_owned(),
        codes: values.to_vec().into(),
        cardinality: 3,
        ordered: false,
    }];
    let job = Job {
        axes: AXES.as_slice(),
        requirement,
        sensitive: &sensitive,
        // No two persons are alike, so that there is no tie to break.
        keys: &RowKeys::default(),
        cancel: &Cancel::default(),
    };
    let formed = match method {
        Method::Cut(cut) => {
            let (split, variant) = (Split::LeastLoss, Variant::Best);
            partition(&mut rows, &job, partition::Options { cut, split, variant })
        }
        Method::Layered => {
            let options = layered::Options { split: Split::LeastLoss, suppress: false };
            layered(&mut rows, &job, &options).map(|formed| formed.classes)
        }
    };
    let formed = formed.ok()?;
    let class = |range: std::ops::Range<usize>| {
        let mut ids: Vec<u32> = range.map(|at| rows.id_at(at)).collect();
        ids.sort_unstable();
        ids
    };
    Some(formed.ranges().map(class).collect())
}

/// All orders of some values, equal ones once.
fn arrangements(values: &[u32]) -> Vec<Vec<u32>> {
    if values.is_empty() {
        return vec![Vec::new()];
    }
    let first: BTreeSet<u32> = values.iter().copied().collect();
    let mut all = Vec::new();
    for value in first {
        let mut rest = values.to_vec();
        rest.remove(rest.iter().position(|other| *other == value).unwrap());
        for mut tail in arrangements(&rest) {
            tail.insert(0, value);
            all.push(tail);
        }
    }
    all
}

/// The share of persons whose value is certain after every table was tried that publishes these classes with these
/// values, and was not before.
fn replay(
    method: Method,
    persons: &[[u32; 2]],
    values: &[u32],
    requirement: &Requirement,
) -> Option<f64> {
    let published = classes(method, persons, values, requirement)?;
    let mut worlds: Vec<Vec<u32>> = vec![values.to_vec()];
    for class in &published {
        let of_class: Vec<u32> = class.iter().map(|id| values[*id as usize]).collect();
        let orders = arrangements(&of_class);
        let placed = |world: &Vec<u32>, order: &Vec<u32>| {
            let mut world = world.clone();
            class.iter().zip(order).for_each(|(id, value)| world[*id as usize] = *value);
            world
        };
        worlds = worlds.iter().flat_map(|world| orders.iter().map(|o| placed(world, o))).collect();
    }
    let certain = |worlds: &[Vec<u32>]| {
        (0..persons.len()).filter(|id| worlds.iter().all(|w| w[*id] == worlds[0][*id])).count()
    };
    let before = certain(&worlds);
    worlds
        .retain(|world| classes(method, persons, world, requirement).as_ref() == Some(&published));
    assert!(worlds.iter().any(|world| world == values), "the truth is among them");
    Some((certain(&worlds) - before) as f64 / persons.len() as f64)
}

/// Persons at different places, with a value that a tenth, one that a third and one that the others have.
fn table(seed: u64) -> (Vec<[u32; 2]>, Vec<u32>) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    };
    let mut persons: Vec<[u32; 2]> = Vec::new();
    while persons.len() < PERSONS {
        let place = [draw(64) as u32, draw(64) as u32];
        let apart = |other: &[u32; 2]| other[0] != place[0] && other[1] != place[1];
        if persons.iter().all(apart) {
            persons.push(place);
        }
    }
    let value = |draw: u64| {
        if draw < 1 {
            0
        } else if draw < 4 {
            1
        } else {
            2
        }
    };
    let values = (0..PERSONS).map(|_| value(draw(10))).collect();
    (persons, values)
}

/// What the attack finds in every table, `None` where no release is possible.
fn named(method: Method, requirement: &Requirement) -> Vec<Option<f64>> {
    let found = |seed| {
        let (persons, values) = table(seed);
        replay(method, &persons, &values, requirement)
    };
    (1..=TABLES).map(found).collect()
}

#[test]
fn replaying_names_nobody_without_models_and_fewer_under_alpha_than_under_l() {
    let l = |k| {
        let models = vec![Model::Distinct { column: 0, at_least: 2, unit: false }];
        Requirement { k, models }
    };
    let alpha = |k| Requirement { k, models: vec![Model::Share { column: 0, alpha: 0.5 }] };
    let methods = [
        ("rounded", Method::Cut(Cut::Rounded)),
        ("mondrian", Method::Cut(Cut::Strict)),
        ("mondrian_relaxed", Method::Cut(Cut::Relaxed)),
        ("layered", Method::Layered),
    ];
    for (name, method) in methods {
        for k in [2, 4] {
            let without = named(method, &Requirement::k(k));
            assert_eq!(without, [Some(0.0); TABLES as usize], "{name}, k = {k}");
            // Only in tables in which both can be kept.
            let both: Vec<[f64; 2]> = (named(method, &l(k)).into_iter())
                .zip(named(method, &alpha(k)))
                .filter_map(|(l, alpha)| Some([l?, alpha?]))
                .collect();
            let share =
                |at: usize| both.iter().map(|found| found[at]).sum::<f64>() / both.len() as f64;
            let (with_l, with_alpha) = (share(0), share(1));
            println!(
                "{name}, k = {k}, {} tables of {PERSONS}: l = 2 names {:.1} %, alpha = 0.5 {:.1} %",
                both.len(),
                100.0 * with_l,
                100.0 * with_alpha
            );
            assert!(both.len() > 10, "{name}, k = {k}: {}", both.len());
            assert!(with_alpha <= with_l, "{name}, k = {k}: {with_alpha} of {with_l}");
            // The attack works where classes are small.
            assert!(k > 2 || with_l > 0.05, "{name}, k = {k}: {with_l}");
        }
    }
}
