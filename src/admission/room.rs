//! Memory for pictures that are fetched: taken before their size is known, and given back but for what they are.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::BYTES_A_PERMIT;

/// Room for so many pictures of the largest size; for more when they are smaller, but only so many are fetched at a time.
#[derive(Clone, Debug)]
pub struct Room {
    permits: Arc<Semaphore>,
    /// Permits of a picture of the largest size.
    largest: u32,
}

/// The room of one picture, given back on drop.
#[derive(Debug)]
pub struct Taken {
    permits: OwnedSemaphorePermit,
}

impl Room {
    /// Room for `pictures` pictures of at most `largest` bytes each.
    pub fn new(pictures: usize, largest: u64) -> Self {
        let largest = u32::try_from(largest.div_ceil(BYTES_A_PERMIT as u64)).unwrap_or(u32::MAX);
        let all = pictures.max(1).saturating_mul(largest as usize);
        Self {
            permits: Arc::new(Semaphore::new(all.min(Semaphore::MAX_PERMITS))),
            largest,
        }
    }

    /// Waits for the room of a picture of the largest size. Those who hold room get on without more, so that it comes.
    pub async fn enter(&self) -> Option<Taken> {
        let permits = Arc::clone(&self.permits).acquire_many_owned(self.largest);
        // It is never closed.
        permits.await.ok().map(|permits| Taken { permits })
    }

    /// The same without a wait; `None` when there is no room now.
    pub fn try_enter(&self) -> Option<Taken> {
        let permits = Arc::clone(&self.permits).try_acquire_many_owned(self.largest);
        permits.ok().map(|permits| Taken { permits })
    }
}

impl Taken {
    /// Gives back what a picture of `bytes` bytes does not need.
    pub fn keep(&mut self, bytes: usize) {
        let needed = bytes.div_ceil(BYTES_A_PERMIT);
        let spare = self.permits.num_permits().saturating_sub(needed);
        drop(self.permits.split(spare));
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const MEBIBYTE: u64 = 1 << 20;

    #[test]
    fn room_is_taken_for_the_largest_and_kept_for_what_came() {
        let room = Room::new(2, MEBIBYTE);
        let mut first = room.try_enter().unwrap();
        let second = room.try_enter().unwrap();
        assert!(room.try_enter().is_none());
        let waiting = room.enter();
        let mut waiting = std::pin::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        // Half a picture is not enough for another one of unknown size.
        first.keep(1 << 19);
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(second);
        let third = waiting.now_or_never().unwrap();
        assert!(third.is_some() && room.try_enter().is_none());
        drop((first, third));
        assert!(room.try_enter().is_some() && room.permits.available_permits() == 2048);
    }
}
