//! Limits of the requests, the bytes and the pixels that a key and a tenant may send in a second.
//!
//! Each limit is a token bucket (GCRA, from the crate `governor`). It holds the tokens of `rate_limits.burst_s` seconds. What is
//! known only after the work, such as pixels, is charged then. What the bucket does not have is a debt, and requests wait until
//! it is paid.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use facescan_clock::Clock;
use facescan_config::RateLimits as Settings;
use facescan_pipeline::context::Principal;
use governor::{
    Quota, RateLimiter,
    clock::Clock as GovernorClock,
    middleware::{StateInformationMiddleware, StateSnapshot},
    nanos::Nanos,
    state::keyed::DashMapStateStore,
};

use super::error::AccessError;

/// The bytes that one token stands for.
const BYTES_A_TOKEN: usize = 1024;

/// The pixels that one token stands for.
const PIXELS_A_TOKEN: u64 = 1000;

/// The number of keys or tenants after which those that sent nothing lately are forgotten.
const MAX_REMEMBERED: usize = 10_000;

/// The limits of every key and every tenant.
pub struct RateLimits {
    limits: Vec<Limit>,
}

/// One kind of limit.
struct Limit {
    /// The name in headers.
    name: &'static str,
    subject: Subject,
    cost: Cost,
    burst: NonZeroU32,
    window: u32,
    buckets:
        RateLimiter<Arc<str>, DashMapStateStore<Arc<str>>, PassedClock, StateInformationMiddleware>,
    /// The tokens that were used without being in the bucket.
    debts: Mutex<HashMap<Arc<str>, u64>>,
}

/// What a limit belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    Key,
    Tenant,
}

/// What a limit counts.
#[derive(Clone, Copy)]
enum Cost {
    Requests,
    Bytes,
    Pixels,
}

/// What a request has used, if that is known only afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// The bytes of a body without a stated length.
    Bytes(u64),
    /// The pixels that were decoded.
    Pixels(u64),
}

/// What is left of the limits after a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateLimitState {
    /// `RateLimit-Policy`: each limit with its tokens and seconds.
    pub policy: String,
    /// `RateLimit`: what is left of each limit.
    pub left: String,
}

/// The clock of the application, for `governor`.
#[derive(Clone)]
struct PassedClock(Arc<dyn Clock>);

impl GovernorClock for PassedClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.0.monotonic().into()
    }
}

impl RateLimits {
    /// Creates the limits that the settings name.
    pub fn new(settings: &Settings, clock: &Arc<dyn Clock>) -> Self {
        let kib = |megabytes: u32| megabytes.saturating_mul(1_000_000 / BYTES_A_TOKEN as u32);
        let kilo = |mega: u32| mega.saturating_mul(1000);
        let of_key = [
            ("key-requests", settings.key_requests_per_s),
            ("key-kib", kib(settings.key_megabytes_per_s)),
            ("key-kilopixels", kilo(settings.key_megapixels_per_s)),
        ];
        let of_tenant = [
            ("tenant-requests", settings.tenant_requests_per_s),
            ("tenant-kib", kib(settings.tenant_megabytes_per_s)),
            ("tenant-kilopixels", kilo(settings.tenant_megapixels_per_s)),
        ];
        let limit = |subject, cost, (name, rate)| {
            let rate = NonZeroU32::new(rate)?;
            let burst = NonZeroU32::new(settings.burst_s).map_or(rate, |s| rate.saturating_mul(s));
            let quota = Quota::per_second(rate).allow_burst(burst);
            let clock = PassedClock(Arc::clone(clock));
            Some(Limit {
                name,
                subject,
                cost,
                burst,
                window: settings.burst_s,
                buckets: RateLimiter::new(quota, DashMapStateStore::default(), clock),
                debts: Mutex::default(),
            })
        };
        let mut limits = Vec::new();
        for (subject, rates) in [(Subject::Key, of_key), (Subject::Tenant, of_tenant)] {
            for (cost, rate) in [Cost::Requests, Cost::Bytes, Cost::Pixels]
                .into_iter()
                .zip(rates)
            {
                limits.extend(limit(subject, cost, rate));
            }
        }
        Self { limits }
    }

    /// Takes the tokens of a request with a body of `bytes` bytes. Returns `None` if there are no limits.
    ///
    /// # Errors
    /// Returns [`AccessError::RateLimited`] if a bucket has too few tokens. Buckets before it have lost theirs.
    pub fn take(
        &self,
        principal: &Principal,
        bytes: usize,
    ) -> Result<Option<RateLimitState>, AccessError> {
        let mut state = RateLimitState::default();
        for limit in &self.limits {
            let Some(bucket) = limit.bucket(principal) else {
                continue;
            };
            limit.pay_debt(bucket)?;
            if let Some(left) = limit.take(bucket, bytes)? {
                limit.describe(&left, &mut state);
            }
        }
        Ok((!state.left.is_empty()).then_some(state))
    }

    /// Takes the tokens of what a request has used. Requests wait for tokens that are missing.
    pub fn charge(&self, principal: &Principal, usage: Usage) {
        for limit in &self.limits {
            let cost = match (limit.cost, usage) {
                (Cost::Bytes, Usage::Bytes(bytes)) => bytes.div_ceil(BYTES_A_TOKEN as u64),
                (Cost::Pixels, Usage::Pixels(pixels)) => pixels.div_ceil(PIXELS_A_TOKEN),
                _ => continue,
            };
            if let Some(bucket) = limit.bucket(principal).filter(|_| cost > 0) {
                *limit.debts().entry(Arc::clone(bucket)).or_default() += cost;
                // What is missing stays as a debt.
                limit.pay_debt(bucket).ok();
            }
        }
    }
}

impl Limit {
    fn bucket<'a>(&self, principal: &'a Principal) -> Option<&'a Arc<str>> {
        match self.subject {
            Subject::Key => principal.key_id.as_ref(),
            Subject::Tenant => Some(&principal.tenant),
        }
    }

    /// Takes tokens from a bucket. A request that costs more than the bucket holds takes the whole bucket. Returns `None` if the
    /// request costs nothing.
    fn take(&self, bucket: &Arc<str>, bytes: usize) -> Result<Option<StateSnapshot>, AccessError> {
        let cost = match self.cost {
            Cost::Requests => 1,
            Cost::Bytes => u32::try_from(bytes.div_ceil(BYTES_A_TOKEN)).unwrap_or(u32::MAX),
            Cost::Pixels => 0,
        };
        let Some(cost) = NonZeroU32::new(cost.min(self.burst.get())) else {
            return Ok(None);
        };
        self.take_tokens(bucket, cost).map(Some)
    }

    /// Takes tokens that are not more than the bucket holds. Refuses the caller if it has too few now.
    fn take_tokens(
        &self,
        bucket: &Arc<str>,
        tokens: NonZeroU32,
    ) -> Result<StateSnapshot, AccessError> {
        if self.buckets.len() > MAX_REMEMBERED {
            self.buckets.retain_recent();
        }
        let retry_after = match self.buckets.check_key_n(bucket, tokens) {
            Ok(Ok(taken)) => return Ok(taken),
            Ok(Err(refused)) => refused.wait_time_from(self.buckets.clock().now()),
            Err(_) => Duration::from_secs(u64::from(self.window)),
        };
        Err(AccessError::RateLimited {
            limit: self.name,
            retry_after,
        })
    }

    fn debts(&self) -> MutexGuard<'_, HashMap<Arc<str>, u64>> {
        self.debts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pays a debt with the tokens that the bucket has now. Refuses the caller while some of it is left.
    fn pay_debt(&self, bucket: &Arc<str>) -> Result<(), AccessError> {
        let mut debts = self.debts();
        while let Some(debt) = debts.get_mut(bucket) {
            let part = u32::try_from(*debt)
                .unwrap_or(u32::MAX)
                .min(self.burst.get());
            let Some(part) = NonZeroU32::new(part) else {
                break;
            };
            self.take_tokens(bucket, part)?;
            *debt -= u64::from(part.get());
        }
        debts.remove(bucket);
        Ok(())
    }

    /// Adds the limit to the headers of a response.
    fn describe(&self, left: &StateSnapshot, state: &mut RateLimitState) {
        let separator = if state.left.is_empty() { "" } else { ", " };
        let (name, left) = (self.name, left.remaining_burst_capacity());
        let (burst, window) = (self.burst, self.window);
        state.policy += &format!("{separator}\"{name}\";q={burst};w={window}");
        state.left += &format!("{separator}\"{name}\";r={left}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use facescan_clock::testing::TestClock;

    fn limits(settings: Settings) -> (RateLimits, Arc<TestClock>) {
        let clock = Arc::new(TestClock::default());
        let passed: Arc<dyn Clock> = Arc::clone(&clock) as _;
        (RateLimits::new(&settings, &passed), clock)
    }

    fn caller(key: &str) -> Principal {
        Principal {
            key_id: Some(key.into()),
            ..Principal::of_tenant("tenant")
        }
    }

    fn settings() -> Settings {
        Settings {
            key_requests_per_s: 0,
            key_megabytes_per_s: 0,
            key_megapixels_per_s: 0,
            tenant_megapixels_per_s: 0,
            tenant_requests_per_s: 0,
            tenant_megabytes_per_s: 0,
            tenant_waiting_items: 0,
            burst_s: 5,
        }
    }

    fn wait(result: Result<Option<RateLimitState>, AccessError>) -> Duration {
        match result {
            Err(AccessError::RateLimited { retry_after, .. }) => retry_after,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_key_has_its_own_requests_and_a_tenant_those_of_all_its_keys() {
        let (limits, clock) = limits(Settings {
            key_requests_per_s: 2,
            tenant_requests_per_s: 3,
            ..settings()
        });
        for left in (0..10).rev() {
            let state = limits.take(&caller("a"), 0).unwrap().unwrap();
            assert!(
                state
                    .left
                    .starts_with(&format!("\"key-requests\";r={left},")),
                "{state:?}"
            );
            assert_eq!(
                state.policy,
                "\"key-requests\";q=10;w=5, \"tenant-requests\";q=15;w=5"
            );
        }
        assert_eq!(
            wait(limits.take(&caller("a"), 0)),
            Duration::from_millis(500)
        );
        for _ in 0..5 {
            limits.take(&caller("b"), 0).unwrap();
        }
        assert!(wait(limits.take(&caller("b"), 0)) <= Duration::from_millis(334));
        clock.advance(Duration::from_secs(1));
        limits.take(&caller("a"), 0).unwrap();
        limits.take(&caller("b"), 0).unwrap();
    }

    #[test]
    fn what_is_charged_afterwards_delays_the_next_request() {
        let (limits, clock) = limits(Settings {
            key_megapixels_per_s: 1,
            key_megabytes_per_s: 1,
            ..settings()
        });
        let key = caller("a");
        // The bucket has 5 megapixels, so 12 are a debt of 7, which is paid in parts of at most 5.
        limits.charge(&key, Usage::Pixels(12_000_000));
        assert!(wait(limits.take(&key, 0)) <= Duration::from_secs(5));
        clock.advance(Duration::from_secs(5));
        assert!(wait(limits.take(&key, 0)) <= Duration::from_secs(2));
        limits.take(&caller("b"), 0).unwrap();
        clock.advance(Duration::from_secs(2));
        limits.take(&key, 0).unwrap();
        limits.charge(&key, Usage::Bytes(5_500_000));
        assert!(wait(limits.take(&key, 0)) > Duration::ZERO);
    }

    #[test]
    fn a_body_larger_than_the_bucket_is_admitted_alone() {
        let (limits, clock) = limits(Settings {
            key_megabytes_per_s: 1,
            ..settings()
        });
        limits.take(&caller("a"), 100_000_000).unwrap();
        assert!(wait(limits.take(&caller("a"), 1)) > Duration::ZERO);
        clock.advance(Duration::from_secs(5));
        limits.take(&caller("a"), 4_000_000).unwrap();
        limits.take(&caller("a"), 900_000).unwrap();
        assert!(wait(limits.take(&caller("a"), 900_000)) > Duration::ZERO);
        // A request without a body takes no bytes.
        assert_eq!(limits.take(&caller("a"), 0).unwrap(), None);
    }
}
