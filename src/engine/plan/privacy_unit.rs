//! Where the privacy unit stands among the columns that models look at: behind the sensitive ones.

/// The columns that models look at.
pub(in crate::engine) fn with_unit<T>(mut sensitive: Vec<T>, unit: Option<T>) -> Vec<T> {
    sensitive.extend(unit);
    sensitive
}

/// Splits the columns that models look at, or anything listed in their order, into sensitive ones and the privacy unit.
pub(in crate::engine) fn split_unit<T>(modelled: &[T], has_unit: bool) -> (&[T], Option<&T>) {
    match modelled.split_last() {
        Some((unit, sensitive)) if has_unit => (sensitive, Some(unit)),
        _ => (modelled, None),
    }
}
