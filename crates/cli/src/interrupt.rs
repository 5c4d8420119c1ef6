//! Ctrl-C, and the signals of service managers and batch systems.

use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{io, thread};

use datafusion_anonymize::until_published;
use tokio::runtime::Builder;
use tokio::sync::Notify;

use crate::progress::warn;

/// The exit code after Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// Tells when the program is asked to stop, from now on.
///
/// Whoever is told drops what runs, which removes its spilled data and its files. A computation that never comes up
/// for air would not notice, so the program ends regardless when it is asked again, or when the grace period is over.
///
/// Signals are heard on a thread of their own: all threads that statements run on may be busy.
pub fn watch(grace: Option<Duration>) -> Arc<Notify> {
    let asked = Arc::new(Notify::new());
    let (ready, is_ready) = mpsc::channel();
    let told = Arc::clone(&asked);
    let listener = move || listen(&told, grace, &ready);
    // Without a thread or a handler the system's default remains: the program ends at once.
    if thread::Builder::new().name("signals".to_owned()).spawn(listener).is_ok() {
        let _ = is_ready.recv();
    }
    asked
}

/// Hears signals; says when it begins to.
fn listen(asked: &Notify, grace: Option<Duration>, ready: &mpsc::Sender<()>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let signal = asked_to_stop()?;
        let _ = ready.send(());
        signal.await;
        asked.notify_one();
        let again = asked_to_stop()?;
        tokio::select! {
            () = again => {}
            () = over(grace) => {}
        }
        warn("interrupted");
        std::process::exit(INTERRUPTED.into())
    })
}

/// Waits for the end of the grace period. Files that are about to become visible come together.
async fn over(grace: Option<Duration>) {
    match grace {
        Some(grace) => {
            tokio::time::sleep(grace).await;
            until_published().await;
        }
        None => std::future::pending().await,
    }
}

#[cfg(unix)]
fn asked_to_stop() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn asked_to_stop() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}
