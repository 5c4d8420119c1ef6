//! Which constraints matter, and which can be solved apart from each other.

use super::Constraint;
use crate::error::{Error, Result};

/// An independent subset of the constraints: no other constraint shares a column with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// The columns of its constraints, as declared.
    pub(super) columns: Vec<usize>,
    /// Its constraints with their columns as declared, the smallest K first, equal ones as written.
    pub(super) constraints: Vec<Constraint>,
}

impl Part {
    /// The largest K, below which open rows are not worth generalizing any further.
    pub(super) fn max_k(&self) -> u32 {
        self.constraints.iter().map(|constraint| constraint.k).max().unwrap_or(0)
    }

    /// The one constraint that implies all others: every column, the largest K.
    pub(super) fn union(&self) -> Constraint {
        Constraint { columns: self.columns.clone(), k: self.max_k() }
    }
}

/// Checks the constraints over a table of `columns` columns and cuts them into independent parts,
/// in the order of their first columns.
pub(super) fn plan(constraints: &[Constraint], columns: usize) -> Result<Vec<Part>> {
    let sorted = constraints.iter().enumerate().map(|(index, constraint)| {
        check(index, constraint, columns)?;
        let mut sorted = constraint.clone();
        sorted.columns.sort_unstable();
        Ok(sorted)
    });
    let sorted = sorted.collect::<Result<Vec<_>>>()?;
    if sorted.is_empty() {
        return Err(Error::invalid("there are no constraints: give at least one {columns, k}"));
    }
    for (index, constraint) in sorted.iter().enumerate() {
        if let Some(earlier) = sorted[..index].iter().position(|other| other == constraint) {
            return Err(Error::invalid(format!(
                "constraints {} and {} are identical: remove one of them",
                earlier + 1,
                index + 1
            )));
        }
    }
    Ok(independent(without_contained(&sorted)))
}

fn check(index: usize, constraint: &Constraint, columns: usize) -> Result<()> {
    let number = index + 1;
    let Constraint { columns: listed, k } = constraint;
    if *k < 2 {
        return Err(Error::invalid(format!("constraint {number} has k = {k}: write 2 or more")));
    }
    if listed.is_empty() {
        return Err(Error::invalid(format!(
            "constraint {number} has no columns: list at least one quasi-identifier"
        )));
    }
    if let Some(column) = listed.iter().find(|column| **column >= columns) {
        return Err(Error::invalid(format!(
            "constraint {number} names quasi-identifier {}, there are {columns}",
            column + 1
        )));
    }
    if (1..listed.len()).any(|at| listed[..at].contains(&listed[at])) {
        return Err(Error::invalid(format!(
            "constraint {number} names a column twice: list every column once"
        )));
    }
    Ok(())
}

/// The constraints that no other one implies by more columns and a K at least as large.
fn without_contained(constraints: &[Constraint]) -> Vec<Constraint> {
    let contains = |outer: &Constraint, inner: &Constraint| {
        outer != inner
            && inner.k <= outer.k
            && inner.columns.iter().all(|column| outer.columns.contains(column))
    };
    let implied = |inner: &Constraint| constraints.iter().any(|outer| contains(outer, inner));
    constraints.iter().filter(|constraint| !implied(constraint)).cloned().collect()
}

/// The connected components of "share a column".
fn independent(constraints: Vec<Constraint>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for constraint in constraints {
        let shares = |part: &Part| part.columns.iter().any(|c| constraint.columns.contains(c));
        let (linked, mut apart): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(shares);
        let mut part = Part { columns: constraint.columns.clone(), constraints: vec![constraint] };
        for mut other in linked {
            part.columns.append(&mut other.columns);
            part.constraints.append(&mut other.constraints);
        }
        apart.push(part);
        parts = apart;
    }
    for part in &mut parts {
        part.columns.sort_unstable();
        part.columns.dedup();
        part.constraints.sort_by(|a, b| (a.k, &a.columns).cmp(&(b.k, &b.columns)));
    }
    parts.sort_by(|a, b| a.columns.cmp(&b.columns));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constraint(columns: &[usize], k: u32) -> Constraint {
        Constraint { columns: columns.to_vec(), k }
    }

    #[test]
    fn constraints_contained_in_another_are_dropped() {
        let listed = [
            constraint(&[0, 1], 3),
            constraint(&[0], 3),
            constraint(&[1], 4),
            constraint(&[0, 1], 2),
            constraint(&[2, 1], 3),
        ];
        let kept = [constraint(&[0, 1], 3), constraint(&[1], 4), constraint(&[2, 1], 3)];
        assert_eq!(without_contained(&listed), kept);
    }

    // Figure 1 of the paper: Race, Birth, ZIP, Salary, Height, Edu, Sex, Work_Hrs.
    #[test]
    fn figure_1_of_the_paper_falls_into_three_independent_parts() {
        let constraints = [
            constraint(&[0, 1], 3),
            constraint(&[1, 2], 2),
            constraint(&[3, 4], 4),
            constraint(&[4, 5], 3),
            constraint(&[6, 7], 2),
        ];
        let expected = vec![
            Part {
                columns: vec![0, 1, 2],
                constraints: vec![constraint(&[1, 2], 2), constraint(&[0, 1], 3)],
            },
            Part {
                columns: vec![3, 4, 5],
                constraints: vec![constraint(&[4, 5], 3), constraint(&[3, 4], 4)],
            },
            Part { columns: vec![6, 7], constraints: vec![constraint(&[6, 7], 2)] },
        ];
        assert_eq!(plan(&constraints, 8), Ok(expected));
    }

    #[test]
    fn a_constraint_can_link_two_parts() {
        let constraints = [constraint(&[3, 4], 2), constraint(&[0], 2), constraint(&[0, 4], 2)];
        let parts = plan(&constraints, 5).map(|parts| {
            parts.into_iter().map(|part| (part.columns, part.constraints.len())).collect::<Vec<_>>()
        });
        assert_eq!(parts, Ok(vec![(vec![0, 3, 4], 2)]));
    }

    #[test]
    fn bad_constraints_are_refused_by_number() {
        let message = |constraints: &[Constraint]| match plan(constraints, 3) {
            Err(Error::Invalid(message)) => message,
            other => format!("{other:?}"),
        };
        let good = constraint(&[0], 2);
        assert!(message(&[]).contains("no constraints"));
        assert!(message(&[good.clone(), constraint(&[1], 1)]).contains("constraint 2 has k = 1"));
        assert!(message(&[constraint(&[], 2)]).contains("no columns"));
        assert!(message(&[constraint(&[3], 2)]).contains("quasi-identifier 4, there are 3"));
        assert!(message(&[constraint(&[1, 1], 2)]).contains("twice"));
        let twice = [good, constraint(&[1, 0], 2), constraint(&[0, 1], 2)];
        assert!(message(&twice).contains("constraints 2 and 3 are identical"));
    }
}
