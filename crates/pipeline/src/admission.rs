//! Admission: which requests get in, and whose image is next.

use std::{sync::Arc, time::Duration};

use facescan_clock::Clock;
use facescan_telemetry::metrics::Metrics;

use self::{
    budget::{BYTES_A_PERMIT, Budget, Taken},
    priority_semaphore::{DecodePermit, PermitLimits, PrioritySemaphore},
    response_reservation::{ResponseReservation, SMALL_RESPONSE_BYTES},
};

mod budget;
pub(crate) mod byte_budget;
mod line;
mod priority;
pub mod priority_semaphore;
pub mod response_reservation;
mod tenant_shares;

pub use self::{
    budget::{AdmissionError, ByteReservation},
    priority::Priority,
};

/// Admits a request with all of its images.
///
/// HTTP refuses what cannot be admitted, images of interactive requests after a short wait. Callers that cannot send a request again
/// wait as long as it takes.
#[derive(Clone)]
pub struct Admission {
    requests: Budget,
    interactive: Budget,
    bulk: Budget,
    bytes: Budget,
    responses: Budget,
    large_bodies: PrioritySemaphore,
    large_responses: PrioritySemaphore,
    max_wait: Duration,
    metrics: Metrics,
}

/// The sizes of the budgets.
#[derive(Clone, Copy, Debug)]
pub struct Budgets {
    /// The number of requests.
    pub requests: usize,
    /// The number of images of interactive requests.
    pub interactive_images: usize,
    /// The number of images of bulk requests.
    pub bulk_images: usize,
    /// The number of bytes of request bodies and large responses.
    pub bytes: usize,
    /// How long the images of an interactive request wait for their part.
    pub max_wait: Duration,
}

/// The memory for responses that are complete and not read, beside that of the responses of requests in work.
const UNREAD_BYTES: usize = 16 << 20;

/// One tenant parses two large bodies at a time, and all tenants four to eight. Each takes a thread beside those of the CPU pool.
const LARGE_BODIES: PermitLimits = PermitLimits {
    tenant_images: 2,
    bytes: u64::MAX,
};

/// One tenant builds two pages of stored results at a time, and all tenants four to eight. Each page has some megabytes of vectors.
const LARGE_RESPONSES: PermitLimits = LARGE_BODIES;

impl Admission {
    /// Creates an admission that has admitted nothing.
    pub fn new(budgets: Budgets, metrics: Metrics, clock: &Arc<dyn Clock>) -> Self {
        Self {
            requests: Budget::new(budgets.requests, clock),
            interactive: Budget::new(budgets.interactive_images, clock),
            bulk: Budget::new(budgets.bulk_images, clock),
            bytes: Budget::new(budgets.bytes.div_ceil(BYTES_A_PERMIT), clock),
            responses: Budget::new(
                budgets
                    .requests
                    .saturating_mul(SMALL_RESPONSE_BYTES)
                    .saturating_add(UNREAD_BYTES)
                    / BYTES_A_PERMIT,
                clock,
            ),
            max_wait: budgets.max_wait,
            large_bodies: PrioritySemaphore::new(LARGE_BODIES, Duration::MAX, Arc::clone(clock)),
            large_responses: PrioritySemaphore::new(
                LARGE_RESPONSES,
                Duration::MAX,
                Arc::clone(clock),
            ),
            metrics,
        }
    }

    /// Admits a request of a tenant.
    ///
    /// # Errors
    /// Returns [`AdmissionError::Requests`] if the budget, or the part of the tenant, is used up.
    pub fn try_enter(&self, tenant: &Arc<str>) -> Result<RequestPermit, AdmissionError> {
        let taken = self.requests.try_take(tenant, 1);
        taken
            .map(|taken| RequestPermit { _taken: taken })
            .ok_or_else(|| self.refuse(AdmissionError::Requests))
    }

    /// Reserves the memory of a small response for a request of a tenant. Call it before the request is worked on, so that
    /// whoever reads no responses gets no more of them.
    ///
    /// # Errors
    /// Returns [`AdmissionError::Responses`] if the responses that are not read yet use up the budget, or the part of the tenant.
    pub fn try_reserve_response(
        &self,
        tenant: &Arc<str>,
    ) -> Result<ResponseReservation, AdmissionError> {
        let small = SMALL_RESPONSE_BYTES / BYTES_A_PERMIT;
        let taken = self.responses.try_take(tenant, small);
        taken
            .map(|small| ResponseReservation::new(small, self.no_bytes(tenant)))
            .ok_or_else(|| self.refuse(AdmissionError::Responses))
    }

    /// Checks that a body of `bytes` bytes could be reserved now.
    ///
    /// # Errors
    /// The errors of [`try_reserve_body`](Self::try_reserve_body).
    pub fn check_body(&self, tenant: &Arc<str>, bytes: usize) -> Result<(), AdmissionError> {
        // This takes nothing, not even for a moment, because another body could be refused in that moment.
        if self.bytes.has_room(tenant, bytes.div_ceil(BYTES_A_PERMIT)) {
            return Ok(());
        }
        self.metrics.refused(AdmissionError::Bytes.refusal());
        Err(AdmissionError::Bytes)
    }

    /// Reserves `bytes` bytes for a body of a tenant. Call it before they arrive.
    ///
    /// # Errors
    /// Returns [`AdmissionError::Bytes`] if the byte budget, or the part of the tenant, is used up.
    pub fn try_reserve_body(
        &self,
        tenant: &Arc<str>,
        bytes: usize,
    ) -> Result<ByteReservation, AdmissionError> {
        let mut reservation = self.no_bytes(tenant);
        reservation.grow_to(bytes)?;
        Ok(reservation)
    }

    fn no_bytes(&self, tenant: &Arc<str>) -> ByteReservation {
        ByteReservation {
            budget: self.bytes.clone(),
            tenant: Arc::clone(tenant),
            metrics: self.metrics.clone(),
            taken: Vec::new(),
            permits: 0,
        }
    }

    /// Waits until a large body of a tenant may be parsed. Drop the permit afterwards.
    pub async fn large_body(&self, tenant: &Arc<str>) -> DecodePermit {
        let line = &self.large_bodies;
        line.acquire(Priority::Interactive, tenant, 0).await
    }

    /// Waits until a page of stored results of a tenant may be loaded and written. Drop the permit afterwards.
    pub async fn large_response(&self, tenant: &Arc<str>) -> DecodePermit {
        let line = &self.large_responses;
        line.acquire(Priority::Interactive, tenant, 0).await
    }

    /// Admits `images` images of a tenant and a priority. Those of interactive requests wait a short time for it, in the order of
    /// their tenant.
    ///
    /// # Errors
    /// Returns [`AdmissionError::Images`] if the budget of the priority, or the part of the tenant, is too small for all of
    /// them, or if too many others wait.
    pub async fn admit_or_refuse(
        &self,
        tenant: &Arc<str>,
        priority: Priority,
        images: usize,
    ) -> Result<ImageReservation, AdmissionError> {
        let max_wait = self.max_wait(priority);
        let taken = self
            .budget(priority)
            .take_within(tenant, images, max_wait)
            .await
            .ok_or_else(|| self.refuse(AdmissionError::Images(priority)))?;
        Ok(self.reservation(priority, images, taken))
    }

    /// Returns how long images wait. Whoever sends bulk requests sends them again.
    fn max_wait(&self, priority: Priority) -> Duration {
        match priority {
            Priority::Interactive => self.max_wait,
            Priority::Bulk => Duration::ZERO,
        }
    }

    /// Waits until `images` images of a tenant and a priority are admitted. Drop the future to stop waiting.
    pub async fn admit(
        &self,
        tenant: &Arc<str>,
        priority: Priority,
        images: usize,
    ) -> ImageReservation {
        let taken = self.budget(priority).take(tenant, images).await;
        self.reservation(priority, images, taken)
    }

    fn reservation(&self, priority: Priority, images: usize, taken: Taken) -> ImageReservation {
        self.metrics.admitted(priority.name(), signed(images));
        ImageReservation {
            priority,
            images,
            metrics: self.metrics.clone(),
            _taken: taken,
        }
    }

    /// Checks that an image of this tenant and priority can be admitted now, or wait for it. Without a priority, one of the two budgets must
    /// be free.
    ///
    /// # Errors
    /// Returns [`AdmissionError::Images`] if the budget is used up. The error counts as a refusal in the metrics.
    pub fn check_capacity(
        &self,
        tenant: &Arc<str>,
        priority: Option<Priority>,
    ) -> Result<(), AdmissionError> {
        let is_full = |priority| {
            let max_wait = self.max_wait(priority);
            self.budget(priority).is_full(tenant, max_wait)
        };
        let full = match priority {
            Some(priority) => is_full(priority).then_some(priority),
            None => (is_full(Priority::Interactive) && is_full(Priority::Bulk))
                .then_some(Priority::Interactive),
        };
        full.map_or(Ok(()), |priority| {
            Err(self.refuse(AdmissionError::Images(priority)))
        })
    }

    fn budget(&self, priority: Priority) -> &Budget {
        match priority {
            Priority::Interactive => &self.interactive,
            Priority::Bulk => &self.bulk,
        }
    }

    fn refuse(&self, full: AdmissionError) -> AdmissionError {
        self.metrics.refused(full.refusal());
        full
    }
}

/// A request in work. Dropping it lets another one in.
pub struct RequestPermit {
    _taken: Taken,
}

fn signed(images: usize) -> i64 {
    i64::try_from(images).unwrap_or(i64::MAX)
}

/// The reservation of the images of one request. Dropping it releases them.
pub struct ImageReservation {
    priority: Priority,
    images: usize,
    metrics: Metrics,
    _taken: Taken,
}

impl Drop for ImageReservation {
    fn drop(&mut self) {
        self.metrics
            .admitted(self.priority.name(), -signed(self.images));
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use facescan_clock::SystemClock;
    use futures::{FutureExt as _, poll};

    use super::*;

    fn admission() -> Admission {
        admission_that_waits(Duration::ZERO)
    }

    fn admission_that_waits(max_wait: Duration) -> Admission {
        let budgets = Budgets {
            requests: 2,
            interactive_images: 4,
            bulk_images: 8,
            bytes: 10 * BYTES_A_PERMIT,
            max_wait,
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        Admission::new(budgets, Metrics::default(), &clock)
    }

    fn tenant() -> Arc<str> {
        "one".into()
    }

    /// Admits interactive images of the tenant without a wait.
    fn admit(admission: &Admission, images: usize) -> Result<ImageReservation, AdmissionError> {
        admit_as(admission, Priority::Interactive, images)
    }

    fn admit_as(
        admission: &Admission,
        priority: Priority,
        images: usize,
    ) -> Result<ImageReservation, AdmissionError> {
        let tenant = tenant();
        let admitted = admission.admit_or_refuse(&tenant, priority, images);
        admitted.now_or_never().unwrap()
    }

    const WAIT: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn interactive_images_wait_in_their_order_and_no_longer_than_allowed() {
        let admission = admission_that_waits(WAIT);
        let tenant = tenant();
        let wait = |images| admission.admit_or_refuse(&tenant, Priority::Interactive, images);
        let first = wait(3).await.unwrap();
        let (mut large, mut small) = (Box::pin(wait(4)), Box::pin(wait(1)));
        assert!(poll!(large.as_mut()).is_pending());
        // One place is free, and the large request came first.
        assert!(poll!(small.as_mut()).is_pending());
        drop(first);
        let large = large.await.unwrap();
        assert!(poll!(small.as_mut()).is_pending());
        drop(large);
        let _small = small.await.unwrap();
        let _rest = wait(3).await.unwrap();
        let begun = tokio::time::Instant::now();
        assert_eq!(
            wait(1).await.err(),
            Some(AdmissionError::Images(Priority::Interactive))
        );
        assert_eq!(begun.elapsed(), WAIT);
    }

    #[tokio::test(start_paused = true)]
    async fn another_tenant_does_not_wait_behind_the_line_of_one() {
        let admission = admission_that_waits(WAIT);
        let (flood, other): (Arc<str>, Arc<str>) = (tenant(), "other".into());
        let wait = |tenant| admission.admit_or_refuse(tenant, Priority::Interactive, 1);
        let _held: Vec<_> = futures::future::join_all([(); 4].map(|()| wait(&flood))).await;
        let mut behind = pin!(wait(&flood));
        assert!(poll!(behind.as_mut()).is_pending());
        assert!(
            wait(&other).now_or_never().unwrap().is_ok(),
            "of the reserve"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_up_lets_those_behind_move_up() {
        let admission = admission_that_waits(WAIT);
        let tenant = tenant();
        let wait = |images| admission.admit_or_refuse(&tenant, Priority::Interactive, images);
        let _held = wait(3).await.unwrap();
        let (mut large, mut small) = (Box::pin(wait(4)), Box::pin(wait(1)));
        assert!(poll!(large.as_mut()).is_pending());
        assert!(poll!(small.as_mut()).is_pending());
        drop(large);
        assert!(small.now_or_never().unwrap().is_ok(), "a place was free");
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_line_of_one_tenant_lets_another_one_wait() {
        let admission = admission_that_waits(WAIT);
        let (flood, other): (Arc<str>, Arc<str>) = (tenant(), "other".into());
        let wait = |tenant| admission.admit_or_refuse(tenant, Priority::Interactive, 4);
        let _held = wait(&flood).await.unwrap();
        let mut line: Vec<_> = [(); 8].map(|()| Box::pin(wait(&flood))).into();
        for waiting in &mut line {
            assert!(poll!(waiting.as_mut()).is_pending());
        }
        assert!(wait(&flood).now_or_never().unwrap().is_err());
        assert!(poll!(pin!(wait(&other))).is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_that_is_too_long_refuses_at_once_and_who_gave_up_leaves_it() {
        let admission = admission_that_waits(WAIT);
        let tenant = tenant();
        let wait = || Box::pin(admission.admit_or_refuse(&tenant, Priority::Interactive, 4));
        let held = wait().await.unwrap();
        let mut line: Vec<_> = std::iter::repeat_with(wait).take(8).collect();
        for waiting in &mut line {
            assert!(poll!(waiting.as_mut()).is_pending());
        }
        let full = AdmissionError::Images(Priority::Interactive);
        assert_eq!(wait().now_or_never().unwrap().err(), Some(full));
        let checked = admission.check_capacity(&tenant, Some(Priority::Interactive));
        assert_eq!(checked, Err(full));
        line.truncate(1);
        let checked = admission.check_capacity(&tenant, Some(Priority::Interactive));
        assert_eq!(checked, Ok(()));
        drop(held);
        line.remove(0).await.unwrap();
    }

    #[test]
    fn without_a_priority_one_of_the_two_budgets_must_be_free() {
        let admission = admission();
        let interactive = admit(&admission, 4).unwrap();
        assert!(admission.check_capacity(&tenant(), None).is_ok());
        let _bulk = admit_as(&admission, Priority::Bulk, 8).unwrap();
        let full = admission.check_capacity(&tenant(), None).err();
        assert_eq!(full, Some(AdmissionError::Images(Priority::Interactive)));
        drop(interactive);
        assert!(admission.check_capacity(&tenant(), None).is_ok());
    }

    #[tokio::test]
    async fn a_tenant_builds_two_large_responses_at_a_time() {
        let admission = admission();
        let first = admission.large_response(&tenant()).await;
        let _second = admission.large_response(&tenant()).await;
        let tenant = tenant();
        let mut third = pin!(admission.large_response(&tenant));
        assert!(poll!(third.as_mut()).is_pending());
        let _other = admission.large_response(&"other".into()).await;
        drop(first);
        assert!(poll!(third).is_ready());
    }

    #[test]
    fn a_request_larger_than_the_budget_is_admitted_alone() {
        let admission = admission();
        let all = admit(&admission, 100).unwrap();
        assert!(admit(&admission, 1).is_err());
        drop(all);
        let one = admit(&admission, 1).unwrap();
        assert!(admit(&admission, 100).is_err());
        drop(one);
    }

    #[test]
    fn a_small_response_keeps_only_its_size_and_a_large_one_is_in_the_byte_budget() {
        let admission = admission();
        let response = admission.try_reserve_response(&tenant()).unwrap();
        response.complete(3 * BYTES_A_PERMIT);
        let held = |budget: &Budget| budget.shares.held(&tenant());
        assert_eq!(held(&admission.responses), 3);
        assert_eq!(held(&admission.bytes), 0);
        let large = admission.try_reserve_response(&tenant()).unwrap();
        large.add(SMALL_RESPONSE_BYTES + 1).unwrap();
        assert_eq!(held(&admission.bytes), 10, "all of the budget");
        let refused = admission.try_reserve_body(&tenant(), 1).err();
        assert_eq!(refused, Some(AdmissionError::Bytes));
        let third = admission.try_reserve_response(&tenant()).unwrap();
        assert_eq!(third.add(1 << 20), Err(AdmissionError::Bytes));
        // What is in memory already counts in any case.
        third.complete(SMALL_RESPONSE_BYTES + BYTES_A_PERMIT);
        assert_eq!(held(&admission.bytes), 10 + 65);
        // It was written as a smaller one.
        large.complete(2 * BYTES_A_PERMIT);
        assert_eq!(held(&admission.bytes), 65);
        drop((response, large, third));
        assert_eq!(held(&admission.responses), 0);
    }

    #[test]
    fn a_tenant_that_reads_no_responses_gets_no_more_and_others_do() {
        let admission = admission();
        let unread: Vec<_> =
            std::iter::from_fn(|| admission.try_reserve_response(&tenant()).ok()).collect();
        assert_eq!(unread.len(), 2 + UNREAD_BYTES / SMALL_RESPONSE_BYTES);
        admission.try_reserve_response(&"other".into()).unwrap();
        drop(unread);
        admission.try_reserve_response(&tenant()).unwrap();
    }
}
