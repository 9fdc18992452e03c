//! Bounds the memory of fetched images. A fetch reserves the largest size and returns what its image does not need.

use std::{iter, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{BYTES_A_PERMIT, Priority};

/// A budget for a number of images of the largest size. It holds more images when they are smaller.
///
/// Bulk requests leave the share of one image to interactive ones, so that slow hosts of bulk URLs do not hold up
/// interactive requests.
#[derive(Clone, Debug)]
pub struct ByteBudget {
    all: Arc<Semaphore>,
    /// The part that bulk images may hold.
    bulk: Arc<Semaphore>,
    /// The permits of an image of the largest size.
    largest: u32,
}

/// The part of the budget that one image holds. Dropping it returns the part.
#[derive(Debug)]
pub struct Reservation {
    of_all: OwnedSemaphorePermit,
    of_bulk: Option<OwnedSemaphorePermit>,
}

impl ByteBudget {
    /// A budget for `pictures` images of at most `largest` bytes each. A budget for one image serves bulk images too.
    pub fn new(pictures: usize, largest: u64) -> Self {
        let largest = u32::try_from(largest.div_ceil(BYTES_A_PERMIT as u64)).unwrap_or(u32::MAX);
        let room_for = |pictures: usize| {
            let permits = pictures.max(1).saturating_mul(largest as usize);
            Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)))
        };
        Self {
            all: room_for(pictures),
            bulk: room_for(pictures.saturating_sub(1)),
            largest,
        }
    }

    /// Waits for the share of an image of the largest size. A holder never waits for a second share, so the wait ends.
    pub async fn reserve(&self, priority: Priority) -> Option<Reservation> {
        let wait = |room: &Arc<Semaphore>| Arc::clone(room).acquire_many_owned(self.largest);
        // Bulk images wait for each other first, so that few of them queue before an interactive image. Neither semaphore
        // is ever closed.
        let of_bulk = match priority {
            Priority::Interactive => None,
            Priority::Bulk => Some(wait(&self.bulk).await.ok()?),
        };
        let of_all = wait(&self.all).await.ok()?;
        Some(Reservation { of_all, of_bulk })
    }

    /// As [`reserve`](Self::reserve), without a wait. `None` when the budget is used up.
    pub fn try_reserve(&self, priority: Priority) -> Option<Reservation> {
        let take = |room: &Arc<Semaphore>| Arc::clone(room).try_acquire_many_owned(self.largest);
        let of_bulk = match priority {
            Priority::Interactive => None,
            Priority::Bulk => Some(take(&self.bulk).ok()?),
        };
        let of_all = take(&self.all).ok()?;
        Some(Reservation { of_all, of_bulk })
    }
}

impl Reservation {
    /// Returns what an image of `bytes` bytes does not need.
    pub fn shrink_to(&mut self, bytes: usize) {
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
    fn room_is_taken_for_the_largest_and_kept_for_what_came() {
        let room = ByteBudget::new(2, MEBIBYTE);
        let mut first = room.try_reserve(Priority::Interactive).unwrap();
        let second = room.try_reserve(Priority::Interactive).unwrap();
        assert!(room.try_reserve(Priority::Interactive).is_none());
        let waiting = room.reserve(Priority::Interactive);
        let mut waiting = std::pin::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        // Half a picture is not enough for another one of unknown size.
        first.shrink_to(1 << 19);
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(second);
        let third = waiting.now_or_never().unwrap();
        assert!(third.is_some() && room.try_reserve(Priority::Interactive).is_none());
        drop((first, third));
        assert!(
            room.try_reserve(Priority::Interactive).is_some()
                && room.all.available_permits() == 2048
        );
    }

    #[test]
    fn bulk_pictures_leave_room_for_an_interactive_one() {
        let room = ByteBudget::new(3, MEBIBYTE);
        let mut first = room.try_reserve(Priority::Bulk).unwrap();
        let second = room.try_reserve(Priority::Bulk).unwrap();
        assert!(room.try_reserve(Priority::Bulk).is_none());
        let waiting = room.reserve(Priority::Bulk);
        let mut waiting = std::pin::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        // One that waits is not in the way either.
        let interactive = room.try_reserve(Priority::Interactive).unwrap();
        assert!(room.try_reserve(Priority::Interactive).is_none());
        first.shrink_to(0);
        let third = waiting.now_or_never().unwrap();
        assert!(third.is_some() && room.try_reserve(Priority::Interactive).is_none());
        drop((first, second, third, interactive));
        assert_eq!(room.all.available_permits(), 3072);
        assert_eq!(room.bulk.available_permits(), 2048);
    }

    #[test]
    fn interactive_pictures_may_take_all_room_and_bulk_ones_the_only_room() {
        let room = ByteBudget::new(2, MEBIBYTE);
        let all = [Priority::Interactive; 2].map(|priority| room.try_reserve(priority).unwrap());
        assert!(room.try_reserve(Priority::Bulk).is_none());
        drop(all);
        // The refused one has taken nothing.
        assert!(room.try_reserve(Priority::Bulk).is_some());
        assert!(
            ByteBudget::new(1, MEBIBYTE)
                .try_reserve(Priority::Bulk)
                .is_some()
        );
    }
}
