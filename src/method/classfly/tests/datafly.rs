//! When Datafly stops: at most max K rows violate, and no more than may be suppressed.

use super::join::drawn;
use super::random::{WIDTHS, random_trees};
use super::*;
use crate::hierarchy::Axis;
use crate::method::testing::Table;
use crate::method::{Method, Settings, Unverified};
use crate::model::Secret;

#[test]
fn datafly_generalizes_all_rows_and_suppresses_a_few() {
    use figure_1::*;
    let method = |limit| move |rows: &RowTable, job: &Job| datafly(rows, job, limit);
    // Only t8 and t9 are outside the largest subset, and two may be suppressed.
    let run = |limit| run(&ROWS, &trees(), &constraints(), Variant::Paper, method(limit)).unwrap();
    let recoding = run(None);
    assert_eq!(recoding.components[0].suppressed, [7, 8]);
    assert_eq!(recoding.components[0].climbs, 0);
    let strict = run(Some(0));
    assert!(strict.components[0].suppressed.is_empty());
    let levels: Vec<u32> = strict.nodes[2].iter().map(|node| trees()[2].level(*node)).collect();
    assert!(levels[0] > 0 && levels.iter().all(|level| *level == levels[0]), "{levels:?}");
}

/// What the registered method makes of a table when this share of it may be suppressed.
fn form<const D: usize>(
    codes: &[[u32; D]],
    constraints: &[Constraint],
    variant: Variant,
    suppression_limit: f64,
) -> Recoding {
    let axes = random_trees().into_iter().zip([false, false, true, true]);
    let axes: Vec<Axis> = axes.take(D).map(|(tree, missing)| Axis::tree(tree, missing)).collect();
    let table = Table::new(axes, codes.to_vec(), 2);
    let settings = Settings::new(Secret::from_text("a secret").unwrap());
    let settings = Settings { constraints, variant, suppression_limit, ..settings };
    let formed = DATAFLY.form(&mut table.rows().unwrap(), &table.job(), &settings);
    match formed.unwrap() {
        Unverified::Recoded(recoding) => recoding,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn a_limit_of_all_rows_does_not_stop_it_before_the_first_step() {
    // Sixteen rows, all different: without a climb all of them would be suppressed.
    let codes: Vec<[u32; 4]> =
        (0..16).map(|row| [row % 2, row / 2 % 2, row / 4 % 2, row / 8]).collect();
    let constraints = [constraint(&[0, 1, 2, 3], 3)];
    for variant in [Variant::Best, Variant::Paper] {
        let Component { climbs, suppressed, joined, .. } =
            form(&codes, &constraints, variant, 1.0).components.remove(0);
        assert!(
            climbs > 0 && suppressed.len() - joined <= 3,
            "{variant:?}: {climbs} {suppressed:?}"
        );
    }
}

#[test]
fn rows_that_the_limit_does_not_cover_are_not_suppressed() {
    // Of 60 rows 0.05 are three, fewer than K = 5: as printed three may be suppressed; where two others would
    // have to join them, none.
    let mut codes = [[0u32, 0]; 60];
    codes[..4].copy_from_slice(&[[1, 0], [1, 1], [1, 2], [1, 3]]);
    let constraints = [constraint(&[0, 1], 5)];
    let suppressed = |variant| form(&codes, &constraints, variant, 0.05).suppressed_share();
    assert_eq!(suppressed(Variant::Best), 0.0);
    assert!(suppressed(Variant::Paper) <= 0.05);
    codes[3] = [0, 0];
    assert_eq!(form(&codes, &constraints, Variant::Paper, 0.05).suppressed_share(), 0.05);
    assert_eq!(form(&codes, &constraints, Variant::Best, 0.05).suppressed_share(), 0.0);
}

#[test]
fn it_climbs_until_few_enough_rows_violate() {
    let (mut climbing, mut suppressing) = (0, 0);
    for case in 0..400u64 {
        let mut seed = case;
        let rows = 20 + drawn(&mut seed, 60);
        let codes: Vec<[u32; 4]> =
            (0..rows).map(|_| WIDTHS.map(|width| drawn(&mut seed, width))).collect();
        let columns = 1 + drawn(&mut seed, 15);
        let columns: Vec<usize> = (0..4).filter(|column| columns >> column & 1 == 1).collect();
        let constraints = [constraint(&columns, 2 + drawn(&mut seed, 5))];
        let limit = f64::from(drawn(&mut seed, 5)) / 4.0;
        for variant in [Variant::Best, Variant::Paper] {
            let component = form(&codes, &constraints, variant, limit).components.remove(0);
            let rejected = component.suppressed.len() - component.joined;
            let target = (limit * f64::from(rows)) as usize;
            assert!(rejected <= target.min(component.max_k as usize), "case {case}");
            climbing += usize::from(component.climbs > 0);
            suppressing += usize::from(rejected > 0);
        }
    }
    println!("{climbing} of 800 climb, {suppressing} suppress");
    assert!(climbing > 400 && suppressing > 100, "{climbing} {suppressing}");
}
