//! Memory for pictures that are fetched: taken before their size is known, and given back but for what they are.

use std::{iter, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{BYTES_A_PERMIT, Priority};

/// ByteBudget for so many pictures of the largest size; for more when they are smaller, but only so many are fetched at a time.
/// Bulk requests leave that of one to interactive ones, so that hosts that do not answer them keep nobody else waiting.
#[derive(Clone, Debug)]
pub struct ByteBudget {
    all: Arc<Semaphore>,
    /// What bulk pictures may hold of it.
    bulk: Arc<Semaphore>,
    /// Permits of a picture of the largest size.
    largest: u32,
}

/// The room of one picture, given back on drop.
#[derive(Debug)]
pub struct Reservation {
    of_all: OwnedSemaphorePermit,
    of_bulk: Option<OwnedSemaphorePermit>,
}

impl ByteBudget {
    /// ByteBudget for `pictures` pictures of at most `largest` bytes each. Where it is for one alone, bulk pictures take it too.
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

    /// Waits for the room of a picture of the largest size. Those who hold room get on without more, so that it comes.
    pub async fn reserve(&self, priority: Priority) -> Option<Reservation> {
        let wait = |room: &Arc<Semaphore>| Arc::clone(room).acquire_many_owned(self.largest);
        // Bulk pictures wait for each other here, so that few of them stand in line before an interactive one. Neither is
        // ever closed.
        let of_bulk = match priority {
            Priority::Interactive => None,
            Priority::Bulk => Some(wait(&self.bulk).await.ok()?),
        };
        let of_all = wait(&self.all).await.ok()?;
        Some(Reservation { of_all, of_bulk })
    }

    /// The same without a wait; `None` when there is no room now.
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
    /// Gives back what a picture of `bytes` bytes does not need.
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
