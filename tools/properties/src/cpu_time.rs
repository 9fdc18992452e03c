//! The processor's time, which other programs of the machine do not change.

use std::{
    fs,
    future::{Future, poll_fn},
    pin::pin,
    sync::LazyLock,
    time::{Duration, Instant},
};

/// What a system has that does not tell the processor's time: the time of the clock.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The ticks of a second in `/proc`.
const TICKS_PER_S: u64 = 100;

/// Returns the time that all threads of the process have worked.
pub fn process_time() -> Duration {
    let ticks = || {
        let line = fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program can have spaces. The 12th and 13th field behind it are the times for the program and for the system.
        let (_, fields) = line.rsplit_once(')')?;
        let fields = fields.split_whitespace().skip(11).take(2);
        fields
            .map(|field| field.parse::<u64>().ok())
            .sum::<Option<u64>>()
    };
    match ticks() {
        Some(ticks) => Duration::from_millis(ticks * 1000 / TICKS_PER_S),
        None => START.elapsed(),
    }
}

/// Returns the time that this thread has worked.
fn thread_time() -> Duration {
    let nanoseconds = || {
        let line = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        line.split_whitespace().next()?.parse().ok()
    };
    match nanoseconds() {
        Some(nanoseconds) => Duration::from_nanos(nanoseconds),
        None => START.elapsed(),
    }
}

/// Returns what a future returns, and the longest time that it has kept its thread.
pub async fn with_longest_poll<F: Future>(future: F) -> (F::Output, Duration) {
    let mut future = pin!(future);
    let mut longest = Duration::ZERO;
    let output = poll_fn(|cx| {
        let before = thread_time();
        let polled = future.as_mut().poll(cx);
        longest = longest.max(thread_time().saturating_sub(before));
        polled
    });
    (output.await, longest)
}
