//! Work on several threads, compiled once.
//!
//! A parallel iterator brings the whole machinery of rayon into every function that uses one, once per shape of rows.
//! Here work is behind a pointer, which costs nothing as long as a part is a class, a block or a chunk, not a row.

use std::sync::Mutex;

use rayon::prelude::*;

/// Works on all parts on the current rayon pool; the results are in the order of the parts.
pub(crate) fn map_parts<T: Send, R: Send>(parts: Vec<T>, work: &(dyn Fn(T) -> R + Sync)) -> Vec<R> {
    let parts: Vec<Mutex<Option<T>>> =
        parts.into_iter().map(|part| Mutex::new(Some(part))).collect();
    let results: Vec<Mutex<Option<R>>> = parts.iter().map(|_| Mutex::new(None)).collect();
    for_each_index(parts.len(), &|at| {
        if let Some(part) = take(&parts[at]) {
            put(&results[at], work(part));
        }
    });
    results.iter().filter_map(take).collect()
}

fn take<T>(place: &Mutex<Option<T>>) -> Option<T> {
    place.lock().ok().and_then(|mut place| place.take())
}

fn put<T>(place: &Mutex<Option<T>>, value: T) {
    if let Ok(mut place) = place.lock() {
        *place = Some(value);
    }
}

fn for_each_index(count: usize, work: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().for_each(work);
}

/// Both on the current rayon pool, at once if a thread is free.
pub(crate) fn join(left: &mut (dyn FnMut() + Send), right: &mut (dyn FnMut() + Send)) {
    rayon::join(left, right);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_parts() {
        let parts: Vec<String> = (0..1000).map(|at: u32| at.to_string()).collect();
        assert_eq!(map_parts(parts.clone(), &|part| part + "!"), {
            parts.iter().map(|part| format!("{part}!")).collect::<Vec<_>>()
        });
        let (mut left, mut right) = (0, 0);
        join(&mut || left += 1, &mut || right += 2);
        assert_eq!((left, right), (1, 2));
    }
}
