//! Ports for programs that must be told theirs.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// Free ports, all different, that the system gives to nobody by itself. Tests that run at the same time, in this
/// process or in another, look for theirs elsewhere.
pub fn free_ports<const N: usize>() -> [u16; N] {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let begin = std::process::id().wrapping_mul(128);
    let next =
        || 10_000 + (begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % 20_000) as u16;
    [(); N].map(|()| std::iter::repeat_with(next).take(20_000).find(is_free).unwrap())
}
