//! The promises of ARCHITECTURE.md over generated tables, for every method, split and kind of range.
//!
//! Rows carry a unique kept column `id`, so that a published row can be put beside its original.

mod cells;
mod closed;
mod constraints;
mod covers;
mod documentation;
mod house;
mod layers;
mod order;
mod people;
mod promises;
mod release;
mod secrets;
mod slicing;
mod two_tables;

/// Runs a future to its end; generated cases are not asynchronous themselves.
fn wait<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}
