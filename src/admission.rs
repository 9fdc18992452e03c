//! How much work is in the server at a time: who is let in, and whose image is next.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use utoipa::ToSchema;

use crate::telemetry::metrics::Metrics;

pub mod gate;
pub mod room;

/// Which of two queues a request's images wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    /// Somebody waits for the answer.
    Interactive,
    /// Work that takes what interactive requests leave.
    Bulk,
}

impl Lane {
    /// The name in metrics and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Bulk => "bulk",
        }
    }
}

/// What is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// Too many bytes of bodies are held.
    #[error("the server holds as many bytes of requests as it takes")]
    Bytes,
    /// Too many images of the lane are in the server.
    #[error("the {} lane has as many images as it takes", .0.name())]
    Images(Lane),
    /// Too many pictures are fetched.
    #[error("the server fetches as many images from urls as it takes")]
    Fetches,
}

impl Full {
    /// The name in metrics.
    fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Images(lane) => lane.name(),
            Self::Fetches => "fetches",
        }
    }
}

/// Lets requests in, all of a request or nothing, without a wait.
#[derive(Clone)]
pub struct Admission {
    interactive: Budget,
    bulk: Budget,
    bytes: Budget,
    metrics: Metrics,
}

#[derive(Clone)]
struct Budget {
    permits: Arc<Semaphore>,
    capacity: usize,
}

impl Budget {
    fn new(capacity: usize) -> Self {
        let capacity = capacity.min(Semaphore::MAX_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(capacity)),
            capacity,
        }
    }

    /// Takes `amount` permits; all there are for a request that is larger than the budget, which so gets in alone.
    fn take(&self, amount: usize) -> Option<OwnedSemaphorePermit> {
        let amount = u32::try_from(amount.min(self.capacity)).ok()?;
        Arc::clone(&self.permits)
            .try_acquire_many_owned(amount)
            .ok()
    }
}

/// The budgets.
#[derive(Clone, Copy, Debug)]
pub struct Budgets {
    /// Images of interactive requests.
    pub interactive_images: usize,
    /// Images of bulk requests.
    pub bulk_images: usize,
    /// Bytes of bodies.
    pub bytes: usize,
}

/// Bytes are counted in units of this many, as a semaphore counts to 2³² in one step.
const BYTES_A_PERMIT: usize = 1024;

impl Admission {
    /// An admission with nothing let in yet.
    pub fn new(budgets: Budgets, metrics: Metrics) -> Self {
        Self {
            interactive: Budget::new(budgets.interactive_images),
            bulk: Budget::new(budgets.bulk_images),
            bytes: Budget::new(budgets.bytes.div_ceil(BYTES_A_PERMIT)),
            metrics,
        }
    }

    /// Lets a body of `bytes` in, before it is read.
    ///
    /// # Errors
    /// [`Full::Bytes`].
    pub fn body(&self, bytes: usize) -> Result<BodyTicket, Full> {
        let permit = self.bytes.take(bytes.div_ceil(BYTES_A_PERMIT));
        let permit = permit.ok_or_else(|| self.refuse(Full::Bytes))?;
        Ok(BodyTicket { _permit: permit })
    }

    /// Lets `images` into a lane.
    ///
    /// # Errors
    /// [`Full::Images`].
    pub fn images(&self, lane: Lane, images: usize) -> Result<ImageTicket, Full> {
        let permit = self
            .budget(lane)
            .take(images)
            .ok_or_else(|| self.refuse(Full::Images(lane)))?;
        self.metrics.admitted(lane.name(), signed(images));
        Ok(ImageTicket {
            lane,
            images,
            metrics: self.metrics.clone(),
            _permit: permit,
        })
    }

    /// Whether an image would be let into a lane now; into either where the lane is not known.
    ///
    /// # Errors
    /// [`Full::Images`] when not; it is counted as a refusal.
    pub fn has_room(&self, lane: Option<Lane>) -> Result<(), Full> {
        let is_full = |lane| self.budget(lane).permits.available_permits() == 0;
        let full = match lane {
            Some(lane) => is_full(lane).then_some(lane),
            None => {
                (is_full(Lane::Interactive) && is_full(Lane::Bulk)).then_some(Lane::Interactive)
            }
        };
        full.map_or(Ok(()), |lane| Err(self.refuse(Full::Images(lane))))
    }

    fn budget(&self, lane: Lane) -> &Budget {
        match lane {
            Lane::Interactive => &self.interactive,
            Lane::Bulk => &self.bulk,
        }
    }

    fn refuse(&self, full: Full) -> Full {
        self.metrics.refused(full.name());
        full
    }
}

fn signed(images: usize) -> i64 {
    i64::try_from(images).unwrap_or(i64::MAX)
}

/// Held as long as a body is.
#[derive(Debug)]
pub struct BodyTicket {
    _permit: OwnedSemaphorePermit,
}

/// Held until a request's images are answered.
pub struct ImageTicket {
    lane: Lane,
    images: usize,
    metrics: Metrics,
    _permit: OwnedSemaphorePermit,
}

impl Drop for ImageTicket {
    fn drop(&mut self) {
        self.metrics
            .admitted(self.lane.name(), -signed(self.images));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission() -> Admission {
        let budgets = Budgets {
            interactive_images: 4,
            bulk_images: 8,
            bytes: 10 * BYTES_A_PERMIT,
        };
        Admission::new(budgets, Metrics::default())
    }

    #[test]
    fn all_images_of_a_request_get_in_or_none() {
        let admission = admission();
        let first = admission.images(Lane::Interactive, 3).unwrap();
        assert_eq!(
            admission.images(Lane::Interactive, 2).err(),
            Some(Full::Images(Lane::Interactive))
        );
        // The refused one has taken nothing, and the lanes are apart.
        let second = admission.images(Lane::Interactive, 1).unwrap();
        let bulk = admission.images(Lane::Bulk, 8).unwrap();
        assert!(admission.has_room(None).is_err());
        drop(first);
        admission.images(Lane::Interactive, 3).unwrap();
        drop(bulk);
        assert!(admission.has_room(None).is_ok());
        drop(second);
        let text = admission.metrics.text().unwrap();
        assert!(
            text.contains("facescan_images_in_flight{lane=\"interactive\"} 0"),
            "{text}"
        );
        assert!(
            text.contains("facescan_refused_total{reason=\"interactive\"} 2"),
            "{text}"
        );
    }

    #[test]
    fn a_request_larger_than_the_budget_gets_in_alone() {
        let admission = admission();
        let all = admission.images(Lane::Interactive, 100).unwrap();
        assert!(admission.images(Lane::Interactive, 1).is_err());
        drop(all);
        let one = admission.images(Lane::Interactive, 1).unwrap();
        assert!(admission.images(Lane::Interactive, 100).is_err());
        drop(one);
    }

    #[test]
    fn bytes_are_bounded_over_all_bodies() {
        let admission = admission();
        let first = admission.body(8 * BYTES_A_PERMIT).unwrap();
        assert_eq!(admission.body(3 * BYTES_A_PERMIT).err(), Some(Full::Bytes));
        drop(first);
        admission.body(3 * BYTES_A_PERMIT).unwrap();
    }
}
