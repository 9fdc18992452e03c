//! A byte budget for fetched images. A fetch reserves the largest size and later returns the part that its image does
//! not need.

use std::{iter, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{budget::BYTES_A_PERMIT, priority::Priority};

/// A budget for a number of images of the largest size. It holds more images if they are smaller.
///
/// Interactive images may use the whole budget. Bulk images leave the share of one image free, so that slow hosts of
/// bulk URLs do not delay interactive requests.
#[derive(Clone, Debug)]
pub(crate) struct ByteBudget {
    all: Arc<Semaphore>,
    /// The part that bulk images may use.
    bulk: Arc<Semaphore>,
    /// The number of permits for an image of the largest size.
    largest: u32,
}

/// The part of the budget that one image holds. Dropping it returns the part.
#[derive(Debug)]
pub struct Reservation {
    of_all: OwnedSemaphorePermit,
    of_bulk: Option<OwnedSemaphorePermit>,
}

impl ByteBudget {
    /// Creates a budget for `images` images of at most `largest` bytes each. A budget for one image also serves bulk
    /// images.
    pub(crate) fn new(images: usize, largest: u64) -> Self {
        let largest = u32::try_from(largest.div_ceil(BYTES_A_PERMIT as u64)).unwrap_or(u32::MAX);
        let semaphore_for = |images: usize| {
            let permits = images.max(1).saturating_mul(largest as usize);
            Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)))
        };
        Self {
            all: semaphore_for(images),
            bulk: semaphore_for(images.saturating_sub(1)),
            largest,
        }
    }

    /// Waits for the share of an image of the largest size. The wait ends, because a holder never waits for a second
    /// share.
    pub(crate) async fn reserve(&self, priority: Priority) -> Option<Reservation> {
        let wait = |budget: &Arc<Semaphore>| Arc::clone(budget).acquire_many_owned(self.largest);
        // Bulk images wait for each other first, so that few of them queue before an interactive image. The semaphores
        // are never closed.
        let of_bulk = match priority {
            Priority::Interactive => None,
            Priority::Bulk => Some(wait(&self.bulk).await.ok()?),
        };
        let of_all = wait(&self.all).await.ok()?;
        Some(Reservation { of_all, of_bulk })
    }

    /// Reserves the share of an image of the largest size. Returns `None` if the budget is used up.
    pub(crate) fn try_reserve(&self, priority: Priority) -> Option<Reservation> {
        let take =
            |budget: &Arc<Semaphore>| Arc::clone(budget).try_acquire_many_owned(self.largest);
        let of_bulk = match priority {
            Priority::Interactive => None,
            Priority::Bulk => Some(take(&self.bulk).ok()?),
        };
        let of_all = take(&self.all).ok()?;
        Some(Reservation { of_all, of_bulk })
    }
}

impl Reservation {
    /// Returns the part of the reservation that an image of `bytes` bytes does not need.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let needed = bytes.div_ceil(BYTES_A_PERMIT);
        for permits in iter::once(&mut self.of_all).chain(&mut self.of_bulk) {
            let spare = permits.num_permits().saturating_sub(needed);
            drop(permits.split(spare));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const MEBIBYTE: u64 = 1 << 20;

    #[test]
    fn a_fetch_reserves_the_largest_size_and_keeps_the_actual_size() {
        let budget = ByteBudget::new(2, MEBIBYTE);
        let mut first = budget.try_reserve(Priority::Interactive).unwrap();
        let second = budget.try_reserve(Priority::Interactive).unwrap();
        assert!(budget.try_reserve(Priority::Interactive).is_none());
        let waiting = budget.reserve(Priority::Interactive);
        let mut waiting = std::pin::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        // Half of a share is not enough for an image of unknown size.
        first.shrink_to(1 << 19);
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(second);
        let third = waiting.now_or_never().unwrap();
        assert!(third.is_some() && budget.try_reserve(Priority::Interactive).is_none());
        drop((first, third));
        assert!(
            budget.try_reserve(Priority::Interactive).is_some()
                && budget.all.available_permits() == 2048
        );
    }

    #[test]
    fn bulk_images_leave_budget_for_an_interactive_image() {
        let budget = ByteBudget::new(3, MEBIBYTE);
        let mut first = budget.try_reserve(Priority::Bulk).unwrap();
        let second = budget.try_reserve(Priority::Bulk).unwrap();
        assert!(budget.try_reserve(Priority::Bulk).is_none());
        let waiting = budget.reserve(Priority::Bulk);
        let mut waiting = std::pin::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        // A waiting bulk image does not block an interactive image.
        let interactive = budget.try_reserve(Priority::Interactive).unwrap();
        assert!(budget.try_reserve(Priority::Interactive).is_none());
        first.shrink_to(0);
        let third = waiting.now_or_never().unwrap();
        assert!(third.is_some() && budget.try_reserve(Priority::Interactive).is_none());
        drop((first, second, third, interactive));
        assert_eq!(budget.all.available_permits(), 3072);
        assert_eq!(budget.bulk.available_permits(), 2048);
    }

    #[test]
    fn interactive_images_may_use_the_whole_budget_and_bulk_images_the_only_share() {
        let budget = ByteBudget::new(2, MEBIBYTE);
        let all = [Priority::Interactive; 2].map(|priority| budget.try_reserve(priority).unwrap());
        assert!(budget.try_reserve(Priority::Bulk).is_none());
        drop(all);
        // The refused reservation holds no permit.
        assert!(budget.try_reserve(Priority::Bulk).is_some());
        assert!(
            ByteBudget::new(1, MEBIBYTE)
                .try_reserve(Priority::Bulk)
                .is_some()
        );
    }
}
