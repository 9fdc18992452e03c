//! Retries requests that may succeed later, within one time limit for all attempts.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::failure::Failure;

/// The limits of retries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// The maximum number of retries.
    pub retries: u32,
    /// The time limit for all requests and the pauses between them.
    pub timeout: Duration,
    /// The longest pause before the first retry. It doubles each time.
    pub first_pause: Duration,
}

/// The pause before the first retry.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Upper bound of a pause.
const MAX_PAUSE: Duration = Duration::from_secs(2);

impl Policy {
    /// Returns the pause before a retry, the first of which is number 0. Half of it is random, so that many clients
    /// that failed together do not retry together.
    pub fn pause(&self, number: u32, rng: &mut fastrand::Rng) -> Duration {
        let whole = self
            .first_pause
            .saturating_mul(2u32.saturating_pow(number))
            .min(MAX_PAUSE);
        whole.mul_f64(0.5 + 0.5 * rng.f64())
    }

    /// Makes a request, and retries it while its failure may pass and there is time. Calls `repeating` before each
    /// retry.
    ///
    /// # Errors
    /// Returns the last failure if no attempt succeeds, or [`Failure::Timeout`] if the time is over.
    pub async fn run<T, F>(
        &self,
        mut rng: fastrand::Rng,
        repeating: impl Fn(&Failure),
        mut request: impl FnMut() -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let deadline = Instant::now() + self.timeout;
        let mut number = 0;
        loop {
            let Ok(outcome) = timeout_at(deadline, request()).await else {
                return Err(Failure::Timeout {
                    time_budget: self.timeout,
                });
            };
            let failure = match outcome {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            let pause = self
                .pause(number, &mut rng)
                .max(failure.retry_after().unwrap_or_default());
            // Waiting until the time is over would only delay the error.
            let in_time = deadline.saturating_duration_since(Instant::now()) > pause;
            if number == self.retries || !failure.may_pass() || !in_time {
                return Err(failure);
            }
            repeating(&failure);
            sleep(pause).await;
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use http::StatusCode;

    use super::*;

    const POLICY: Policy = Policy {
        retries: 2,
        timeout: Duration::from_secs(10),
        first_pause: FIRST_PAUSE,
    };

    fn status(status: StatusCode, retry_after: Option<u64>) -> Failure {
        Failure::Status {
            status,
            detail: String::new(),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    fn busy(retry_after: Option<u64>) -> Failure {
        status(StatusCode::SERVICE_UNAVAILABLE, retry_after)
    }

    /// Returns the outcome when each request fails with the next failure until they succeed, the number of requests,
    /// and the time they took.
    async fn run(policy: Policy, failures: Vec<Failure>) -> (Result<(), Failure>, u32, Duration) {
        let (failures, requests) = (RefCell::new(failures), Cell::new(0));
        let repeats = Cell::new(0);
        let started = Instant::now();
        let outcome = policy
            .run(
                fastrand::Rng::with_seed(7),
                |_| repeats.set(repeats.get() + 1),
                || {
                    requests.set(requests.get() + 1);
                    let mut failures = failures.borrow_mut();
                    let failure = (!failures.is_empty()).then(|| failures.remove(0));
                    async move { failure.map_or(Ok(()), Err) }
                },
            )
            .await;
        assert_eq!(repeats.get() + 1, requests.get(), "each repeat is told");
        (outcome, requests.get(), started.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_repeated_after_growing_pauses() {
        let (outcome, requests, took) = run(POLICY, vec![busy(None), busy(None)]).await;
        outcome.unwrap();
        assert_eq!(requests, 3);
        let (least, most) = (FIRST_PAUSE * 3 / 2, FIRST_PAUSE * 3);
        // Paused time advances in whole milliseconds, rounded up for each pause.
        assert!(
            took >= least && took <= most + Duration::from_millis(2),
            "{took:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_failure_is_returned_when_no_retry_is_left() {
        let failures = vec![
            busy(None),
            busy(None),
            status(StatusCode::BAD_GATEWAY, None),
        ];
        let (outcome, requests, _) = run(POLICY, failures).await;
        assert!(outcome.unwrap_err().to_string().contains("502"));
        assert_eq!(requests, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn what_will_not_pass_is_not_repeated() {
        for failure in [
            status(StatusCode::BAD_REQUEST, None),
            status(StatusCode::NOT_FOUND, Some(1)),
            status(StatusCode::INTERNAL_SERVER_ERROR, None),
            status(StatusCode::FOUND, None),
            Failure::Malformed(String::new()),
            Failure::TooLarge { limit: 1 },
            Failure::Connection {
                detail: String::new(),
                may_pass: false,
            },
        ] {
            let told = failure.to_string();
            let (outcome, requests, took) = run(POLICY, vec![failure]).await;
            assert_eq!(outcome.unwrap_err().to_string(), told);
            assert_eq!((requests, took), (1, Duration::ZERO), "{told}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_left_alone_for_as_long_as_it_asks_where_there_is_time() {
        let (outcome, requests, took) = run(POLICY, vec![busy(Some(3))]).await;
        outcome.unwrap();
        assert_eq!(requests, 2);
        assert_eq!(took.as_secs(), 3);

        let (outcome, requests, took) = run(POLICY, vec![busy(Some(10))]).await;
        outcome.unwrap_err();
        assert_eq!((requests, took), (1, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn all_requests_have_one_time_together() {
        let started = Instant::now();
        let requests = Cell::new(0);
        let outcome: Result<(), Failure> = POLICY
            .run(
                fastrand::Rng::with_seed(7),
                |_| (),
                || {
                    requests.set(requests.get() + 1);
                    async {
                        sleep(Duration::from_secs(6)).await;
                        Err(busy(None))
                    }
                },
            )
            .await;
        assert!(matches!(outcome, Err(Failure::Timeout { .. })));
        assert_eq!((requests.get(), started.elapsed().as_secs()), (2, 10));
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_differ_by_chance() {
        let mut rng = fastrand::Rng::with_seed(7);
        for number in 0..40 {
            let whole = (FIRST_PAUSE * 2u32.pow(number.min(10))).min(MAX_PAUSE);
            let pause = POLICY.pause(number, &mut rng);
            assert!(pause >= whole / 2 && pause <= whole, "{number}: {pause:?}");
        }
        assert_ne!(POLICY.pause(0, &mut rng), POLICY.pause(0, &mut rng));
    }
}
