//! Ports for programs that must be told theirs.

use std::fs::File;
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Free ports, all different, that the system gives to nobody by itself. Each belongs to this process until it ends: tests that run
/// at the same time, in this process or in another, get others.
pub fn free_ports<const N: usize>() -> [u16; N] {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    static LOCKS: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let is_mine = |port: &u16| {
        let lock = File::create(std::env::temp_dir().join(format!("anonymize-tests-{port}.lock")));
        let lock = lock.ok().filter(|lock| lock.try_lock().is_ok());
        let is_free = lock.is_some() && TcpListener::bind(("127.0.0.1", *port)).is_ok();
        LOCKS.lock().unwrap().extend(lock);
        is_free
    };
    let begin = std::process::id().wrapping_mul(128);
    let next =
        || 10_000 + (begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % 20_000) as u16;
    [(); N].map(|()| std::iter::repeat_with(next).take(20_000).find(is_mine).unwrap())
}
