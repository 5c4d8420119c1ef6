//! The version of the paper, row by row.

use super::*;

fn as_printed<'a>(codes: &'a [[u32; 2]], values: &'a [u32]) -> Input<'a> {
    Input { key: None, ..Input::new(codes, values) }
}

fn table_1(from: usize, alphas: &[f64]) -> Outcome {
    let codes: Vec<[u32; 2]> = AGES[from..].iter().map(|age| [*age, 0]).collect();
    let model = graded(&TABLE_1_LEVELS, alphas, AlphaScope::Value);
    let input = Input { cardinality: 6, ..as_printed(&codes, &TABLE_1[from..]) };
    let (classes, suppressed) = input.run(3, model)?;
    let number = |ids: &[u32]| ids.iter().map(|id| id + 1 + from as u32).collect::<Vec<u32>>();
    Ok((classes.iter().map(|class| number(class)).collect(), number(&suppressed)))
}

#[test]
fn table_1_of_the_paper_gives_the_classes_of_its_table_8() {
    let outcome = table_1(0, &[0.34, 0.35, 0.4, 0.45, 0.5]);
    let classes = vec![vec![1, 2, 7], vec![3, 5, 8], vec![4, 9, 10], vec![6, 11, 12]];
    assert_eq!(outcome, Ok((classes, vec![])));
}

#[test]
fn table_1_of_the_paper_keeps_an_alpha_that_its_table_8_breaks() {
    // `run` verifies the shares; a class with a level-1 value now has at least four rows.
    let outcome = table_1(0, &[0.3, 0.35, 0.4, 0.45, 0.5]);
    let (classes, suppressed) = outcome.unwrap_or_default();
    assert!(classes.iter().all(|class| class.len() >= 4));
    assert_eq!(classes.iter().map(Vec::len).sum::<usize>() + suppressed.len(), 12);
    assert_eq!(suppressed, Vec::<u32>::new());
}

#[test]
fn rows_left_over_join_a_class_that_stays_valid() {
    let outcome = table_1(6, &[0.34, 0.35, 0.4, 0.45, 0.5]);
    assert_eq!(outcome, Ok((vec![vec![7, 8, 10, 12]], vec![9, 11])));
}

#[test]
fn with_one_level_every_value_gives_in_turn() {
    // Four values with 4, 3, 2 and 1 rows, α = 1/2, k = 2: the two largest groups, again and again.
    let values = [0, 0, 0, 0, 1, 1, 1, 2, 2, 3];
    let codes: Vec<[u32; 2]> = (0..10).map(|row| [row, 0]).collect();
    let outcome = as_printed(&codes, &values).run(2, share(0.5));
    let classes = vec![vec![0, 4], vec![1, 5], vec![2, 7], vec![3, 6], vec![8, 9]];
    assert_eq!(outcome, Ok((classes, vec![])));
}

#[test]
fn a_class_grows_to_the_size_at_which_its_shares_come_out_even() {
    // Three values at 0.34 each: four rows cannot be shared out, six can.
    let values: Vec<u32> = (0..12).map(|row| row % 3).collect();
    let codes = [[0, 0]; 12];
    let outcome = as_printed(&codes, &values).run(4, share(0.34));
    let sizes = outcome.map(|(classes, left)| (classes.iter().map(Vec::len).collect(), left.len()));
    assert_eq!(sizes, Ok((vec![6, 6], 0)));
}

#[test]
fn a_value_that_fits_nowhere_does_not_stop_the_others() {
    // The value of level 1 would need a class of 100 rows.
    let values = [0, 1, 2, 1, 2];
    let codes = [[0, 0], [1, 0], [2, 0], [3, 0], [4, 0]];
    let model = graded(&[1, 2, 3], &[0.01, 0.5, 0.5], AlphaScope::Value);
    assert_eq!(
        as_printed(&codes, &values).run(2, model),
        Ok((vec![vec![1, 2], vec![3, 4]], vec![0]))
    );
}

#[test]
fn leftovers_prefer_classes_far_from_their_level() {
    // One value per level. Level 4 is too rare for classes of two; its row joins levels 1 and 2
    // rather than 1 and 3, although that class was made first.
    let values = [0, 0, 1, 2, 3];
    let codes: Vec<[u32; 2]> = (0..5).map(|row| [row, 0]).collect();
    let model = graded(&[1, 2, 3, 4], &[0.5, 0.5, 0.5, 0.34], AlphaScope::Value);
    assert_eq!(
        as_printed(&codes, &values).run(2, model),
        Ok((vec![vec![0, 3], vec![1, 2, 4]], vec![]))
    );
}
