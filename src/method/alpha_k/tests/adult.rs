//! The findings on 10 000 rows of Adult. They depend on how often each occupation occurs, and on nothing else.

use super::*;
use crate::measure::LevelWeights;

/// Classes, suppressed rows, and the mean sensitivity distance of the classes with a value of level 1 or 2.
fn found(k: u32, model: Model, best: bool) -> (usize, usize, f64) {
    let values = counted(&OCCUPATIONS.map(|(_, rows)| rows));
    let codes = distinct(values.len());
    let mut input = Input::new(&codes, &values);
    input.key = input.key.filter(|_| best);
    let (classes, suppressed) = input.compositions(k, model).unwrap_or_default();
    let weights = LevelWeights::even(5);
    let distance = |class: &Vec<u32>| {
        let mut on_level = [0; 5];
        class.iter().for_each(|value| on_level[OCCUPATIONS[*value as usize].0 as usize - 1] += 1);
        (on_level[0] + on_level[1] > 0).then(|| weights.class_distance(&on_level))
    };
    let distances: Vec<f64> = classes.iter().filter_map(distance).collect();
    let mean = distances.iter().sum::<f64>() / distances.len() as f64;
    (classes.len(), suppressed.len(), mean)
}

#[test]
fn graded_classes_of_adult_are_as_many_as_there_can_be_and_mix_levels_best() {
    for k in [2, 3, 4, 5, 6, 8, 10] {
        let graded = occupations();
        let (classes, suppressed, distance) = found(k, graded.clone(), true);
        let (paper_classes, paper_suppressed, paper) = found(k, graded, false);
        let (_, _, one_alpha) = found(k, share(0.5), true);
        println!(
            "k = {k}: {classes} classes, {suppressed} suppressed, Ds {distance:.3}; one alpha {one_alpha:.3}; the \
             paper {paper_classes} classes, {paper_suppressed} suppressed, Ds {paper:.3}"
        );
        assert_eq!(suppressed, 0);
        assert!(distance > one_alpha && distance > paper, "k = {k}");
        if k >= 5 {
            assert_eq!(classes, 10_000 / k as usize);
        }
    }
}
