//! The time that an HTTP/1 connection has for its next head: long while nothing of it has arrived, and short from its first bytes on.
//!
//! hyper has one limit for both. A proxy keeps idle connections for a minute, and a short limit would close one just as the proxy
//! sends a request on it.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::rt::{Sleep, Timer};
use tokio::time::{Sleep as TokioSleep, sleep_until};

/// The number of bytes that a client has sent.
pub(super) type Arrived = Arc<AtomicU64>;

/// The timer of a connection. hyper asks it for the idle limit.
#[derive(Clone)]
pub(super) struct HeadTimer {
    arrived: Arrived,
    /// The time from the first bytes of a head to its end, and that of a new connection for its first head.
    head_timeout: Duration,
    has_begun: Arc<AtomicBool>,
}

impl HeadTimer {
    pub(super) fn new(arrived: Arrived, head_timeout: Duration) -> Self {
        Self {
            arrived,
            head_timeout,
            has_begun: Arc::default(),
        }
    }
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, idle: Instant) -> Pin<Box<dyn Sleep>> {
        let deadline = match self.has_begun.swap(true, Ordering::Relaxed) {
            true => idle,
            false => idle.min(self.now() + self.head_timeout),
        };
        Box::pin(HeadSleep {
            arrived_before: self.arrived.load(Ordering::Relaxed),
            timer: self.clone(),
            has_begun: false,
            sleep: Box::pin(sleep_until(deadline.into())),
        })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

/// Ends when a connection has been idle for too long, or has taken too long for a head.
struct HeadSleep {
    timer: HeadTimer,
    arrived_before: u64,
    has_begun: bool,
    sleep: Pin<Box<TokioSleep>>,
}

impl Future for HeadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // hyper polls it after each part of a head.
        let arrived = self.timer.arrived.load(Ordering::Relaxed);
        if !self.has_begun && arrived != self.arrived_before {
            self.has_begun = true;
            let due = tokio::time::Instant::now() + self.timer.head_timeout;
            self.sleep.as_mut().reset(due);
        }
        self.sleep.as_mut().poll(context)
    }
}

impl Sleep for HeadSleep {}
