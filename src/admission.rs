//! How much work is in the server at a time: who is let in, and whose image is next.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use utoipa::ToSchema;

use crate::telemetry::metrics::Metrics;

pub mod byte_budget;
pub mod priority_semaphore;

/// Which of two queues a request's images wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Somebody waits for the answer.
    Interactive,
    /// Work that takes what interactive requests leave.
    Bulk,
}

impl Priority {
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
    /// The server holds as many images of this priority as it admits.
    #[error("the server holds as many {} images as it admits", .0.name())]
    Images(Priority),
    /// Too many pictures are fetched.
    #[error("the server fetches as many images from urls as it takes")]
    Fetches,
}

impl Full {
    /// The name in metrics.
    fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Images(priority) => priority.name(),
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

    /// Admits `images` of a priority.
    ///
    /// # Errors
    /// [`Full::Images`].
    pub fn images(&self, priority: Priority, images: usize) -> Result<ImageTicket, Full> {
        let permit = self
            .budget(priority)
            .take(images)
            .ok_or_else(|| self.refuse(Full::Images(priority)))?;
        self.metrics.admitted(priority.name(), signed(images));
        Ok(ImageTicket {
            priority,
            images,
            metrics: self.metrics.clone(),
            _permit: permit,
        })
    }

    /// Whether an image of this priority would be admitted now. Without a priority: whether one of either would be.
    ///
    /// # Errors
    /// [`Full::Images`] when not; it is counted as a refusal.
    pub fn has_room(&self, priority: Option<Priority>) -> Result<(), Full> {
        let is_full = |priority| self.budget(priority).permits.available_permits() == 0;
        let full = match priority {
            Some(priority) => is_full(priority).then_some(priority),
            None => (is_full(Priority::Interactive) && is_full(Priority::Bulk))
                .then_some(Priority::Interactive),
        };
        full.map_or(Ok(()), |priority| Err(self.refuse(Full::Images(priority))))
    }

    fn budget(&self, priority: Priority) -> &Budget {
        match priority {
            Priority::Interactive => &self.interactive,
            Priority::Bulk => &self.bulk,
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
    priority: Priority,
    images: usize,
    metrics: Metrics,
    _permit: OwnedSemaphorePermit,
}

impl Drop for ImageTicket {
    fn drop(&mut self) {
        self.metrics
            .admitted(self.priority.name(), -signed(self.images));
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
        let first = admission.images(Priority::Interactive, 3).unwrap();
        assert_eq!(
            admission.images(Priority::Interactive, 2).err(),
            Some(Full::Images(Priority::Interactive))
        );
        // The refused request holds nothing, and each priority has its own budget.
        let second = admission.images(Priority::Interactive, 1).unwrap();
        let bulk = admission.images(Priority::Bulk, 8).unwrap();
        assert!(admission.has_room(None).is_err());
        drop(first);
        admission.images(Priority::Interactive, 3).unwrap();
        drop(bulk);
        assert!(admission.has_room(None).is_ok());
        drop(second);
        let text = admission.metrics.text().unwrap();
        assert!(
            text.contains("facescan_images_in_flight{priority=\"interactive\"} 0"),
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
        let all = admission.images(Priority::Interactive, 100).unwrap();
        assert!(admission.images(Priority::Interactive, 1).is_err());
        drop(all);
        let one = admission.images(Priority::Interactive, 1).unwrap();
        assert!(admission.images(Priority::Interactive, 100).is_err());
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
