//! Checkpoints: where long work on pixels can pause or end.
//!
//! Work on a large image takes seconds, and the thread that does it has other work, too. So every function of this crate
//! that can take longer than a few milliseconds divides its work into strips, and tells [`passed`] how large each strip
//! was. The owner of a thread [installs](install) a hook that is called after about a millisecond of work. The hook
//! can let other work run first, or end this work by [`stop`]. On a thread without a hook, checkpoints do nothing.
//!
//! Ending is an unwinding of the stack, as of a panic, but without a message. A result type would reach into every loop of
//! this crate, for an outcome that only the owner of the thread can cause and that nobody waits for.

use std::{
    any::Any,
    cell::Cell,
    io::{self, Write},
    ops::Range,
    panic::resume_unwind,
};

/// The work between two calls of the hook, in samples of a plain pass over an image. It takes up to a millisecond.
const INTERVAL: usize = 1 << 18;

/// The samples of a strip. It is smaller than the interval, because most work on a sample takes longer than a plain pass.
pub(crate) const STRIP: usize = 1 << 16;

thread_local! {
    static HOOK: Cell<Option<fn()>> = const { Cell::new(None) };
    /// The work since the hook was called last.
    static WORK: Cell<usize> = const { Cell::new(0) };
}

/// Work that a hook has ended. It is the payload of the unwinding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Sets the hook of this thread.
pub fn install(hook: fn()) {
    HOOK.set(Some(hook));
}

/// Ends the current work by unwinding. Call it from a hook, on a thread that catches [`Stopped`].
pub fn stop() -> ! {
    resume_unwind(Box::new(Stopped))
}

/// Continues the unwinding if a caught payload is [`Stopped`]. Whoever catches panics on the way calls this.
pub(crate) fn resume_stop(payload: &(dyn Any + Send)) {
    if payload.is::<Stopped>() {
        stop();
    }
}

/// Reports work, in samples of a plain pass over an image. Costs about a nanosecond unless the hook is due.
#[inline]
pub fn passed(samples: usize) {
    let work = WORK.get().saturating_add(samples);
    WORK.set(work);
    if work >= INTERVAL {
        call_hook();
    }
}

#[cold]
fn call_hook() {
    WORK.set(0);
    if let Some(hook) = HOOK.get() {
        hook();
    }
}

/// Divides rows of `samples` samples each into strips, and reports each strip after it.
pub(crate) fn strips(rows: u32, samples: usize) -> impl Iterator<Item = Range<u32>> {
    let height = u32::try_from(STRIP / samples.max(1))
        .unwrap_or(u32::MAX)
        .max(1);
    let mut last = 0;
    (0..rows).step_by(height as usize).map(move |start| {
        passed(last);
        let end = rows.min(start.saturating_add(height));
        last = (end - start) as usize * samples;
        start..end
    })
}

/// Fills values, with checkpoints.
pub(crate) fn fill<T: Copy>(values: &mut [T], value: T) {
    for strip in values.chunks_mut(STRIP) {
        strip.fill(value);
        passed(strip.len());
    }
}

/// A writer that reports the bytes that an encoder writes, each as `weight` samples.
pub(crate) struct CheckedWriter<W> {
    pub(crate) inner: W,
    pub(crate) weight: usize,
}

impl<W: Write> Write for CheckedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        passed(bytes.len() * self.weight);
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    //! Counts checkpoints in tests.

    use super::{Cell, install};

    thread_local! {
        static CALLS: Cell<usize> = const { Cell::new(0) };
    }

    fn count() {
        CALLS.set(CALLS.get() + 1);
    }

    /// Returns how often `work` calls the hook.
    pub fn checkpoints_of(work: impl FnOnce()) -> usize {
        install(count);
        CALLS.set(0);
        work();
        CALLS.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hook_is_called_once_for_each_interval() {
        let calls = testing::checkpoints_of(|| {
            for _ in 0..10 {
                passed(INTERVAL / 4);
            }
        });
        assert!((2..=3).contains(&calls), "{calls}");
    }

    #[test]
    fn strips_cover_all_rows_and_report_them() {
        for (rows, samples) in [(0, 5), (1, 1 << 20), (1000, 1000), (7, 0)] {
            let strips: Vec<_> = strips(rows, samples).collect();
            let covered: Vec<u32> = strips.into_iter().flatten().collect();
            assert_eq!(covered, (0..rows).collect::<Vec<_>>());
        }
        let calls = testing::checkpoints_of(|| strips(1000, 3000).for_each(drop));
        assert!((8..=12).contains(&calls), "{calls}");
    }
}
