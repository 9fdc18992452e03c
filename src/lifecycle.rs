//! Shutdown: stop accepting, finish the requests in flight within a deadline, and report how the server ended.

use std::{future::Future, io, time::Duration};

use tokio_util::sync::CancellationToken;

/// The shutdown state of the server.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle {
    stopping: CancellationToken,
}

/// How the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every request in flight was answered.
    Clean,
    /// The deadline passed, or a second signal came, while requests were still in flight.
    Cut,
}

impl Lifecycle {
    /// Begins the shutdown. The server then accepts no new connections.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// Returns whether the shutdown has begun.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Resolves when the shutdown begins.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        self.stopping.clone().cancelled_owned()
    }

    /// Returns a token that is cancelled when the shutdown begins.
    pub fn stop_token(&self) -> CancellationToken {
        self.stopping.child_token()
    }

    /// Drives `server` to its end. The server ends by itself when the shutdown has begun and no request is in flight.
    ///
    /// Stops earlier if `deadline` has passed since the beginning of the shutdown or if `forced` resolves.
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

/// Waits for the next interrupt or termination signal.
///
/// # Errors
/// Returns an error if the process cannot listen for signals.
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
    async fn requests_in_flight_are_finished() {
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

    /// Stops a server that has a request in flight. Returns how long it still ran.
    async fn cut(forced: impl Future<Output = ()>) -> Duration {
        let lifecycle = Lifecycle::default();
        let begun = tokio::time::Instant::now();
        lifecycle.stop();
        let deadline = Duration::from_secs(30);
        let ending = lifecycle.drive(future::pending(), deadline, forced).await;
        assert_eq!(ending, Ending::Cut);
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_and_a_second_signal_end_the_wait() {
        assert_eq!(cut(future::pending()).await, Duration::from_secs(30));
        assert_eq!(cut(future::ready(())).await, Duration::ZERO);
    }
}
