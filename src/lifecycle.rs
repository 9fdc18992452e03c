//! Shutdown: stop accepting, finish what is in flight within a deadline, and say how it went.

use std::{future::Future, io, time::Duration};

use tokio_util::sync::CancellationToken;

/// Whether the server is on its way out.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle {
    stopping: CancellationToken,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Everything in flight was answered.
    Clean,
    /// The deadline passed, or a second signal came, with requests still in flight.
    Cut,
}

impl Lifecycle {
    /// Begins the shutdown: no new connections.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// Whether the shutdown has begun.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Resolves when the shutdown begins.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        self.stopping.clone().cancelled_owned()
    }

    /// Drives `server` until it ends by itself, which it does once the shutdown has begun and
    /// nothing is in flight, or until `deadline` has passed since then, or `forced` resolves.
    pub async fn drive(
        &self,
        server: impl Future<Output = ()>,
        deadline: Duration,
        forced: impl Future<Output = ()>,
    ) -> Ending {
        let cut = async {
            self.stopped().await;
            tokio::select! {
                () = tokio::time::sleep(deadline) => {}
                () = forced => {}
            }
        };
        tokio::select! {
            () = server => Ending::Clean,
            () = cut => Ending::Cut,
        }
    }
}

/// Resolves at the next interrupt or termination signal.
///
/// # Errors
/// When the process cannot listen for signals.
pub async fn signal() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

#[cfg(test)]
mod tests {
    use std::future;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_in_flight_is_finished() {
        let lifecycle = Lifecycle::default();
        let stopped = lifecycle.stopped();
        let server = async {
            stopped.await;
        };
        lifecycle.stop();
        let ending = lifecycle
            .drive(server, Duration::from_secs(30), future::pending())
            .await;
        assert_eq!(ending, Ending::Clean);
        assert!(lifecycle.is_stopping());
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_runs_from_the_first_signal() {
        let lifecycle = Lifecycle::default();
        let begun = tokio::time::Instant::now();
        lifecycle.stop();
        let ending = lifecycle
            .drive(
                future::pending(),
                Duration::from_secs(30),
                future::pending(),
            )
            .await;
        assert_eq!(ending, Ending::Cut);
        assert_eq!(begun.elapsed(), Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_does_not_wait() {
        let lifecycle = Lifecycle::default();
        let begun = tokio::time::Instant::now();
        lifecycle.stop();
        let ending = lifecycle
            .drive(
                future::pending(),
                Duration::from_secs(30),
                future::ready(()),
            )
            .await;
        assert_eq!(ending, Ending::Cut);
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
