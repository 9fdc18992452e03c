//! Memory of decoded images, used again.
//!
//! An image is a few megabytes. Fresh memory of that size comes from the system page by page, each with a fault, which
//! takes longer than clearing memory that is there already; and what was written a moment ago is still in the caches.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Buffers that are kept at most.
const MOST_BUFFERS: usize = 16;

/// Buffers that images were in. Bounded in bytes, whatever comes.
#[derive(Debug)]
pub struct PixelMemory {
    /// The last one in is the first one out: it is the likeliest to be in a cache.
    spare: Mutex<Vec<Vec<u8>>>,
    max_bytes: usize,
}

impl PixelMemory {
    /// Keeps up to `max_bytes` bytes; 0 for none.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            spare: Mutex::default(),
            max_bytes,
        }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        // Every change to it is one step.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer of `len` bytes, whose values are whatever an image left there.
    pub fn take(&self, len: usize) -> Vec<u8> {
        let found = {
            let mut spare = self.spare();
            // One that is much too large would be held by a small image.
            let fits =
                |buffer: &Vec<u8>| (len..=len.saturating_mul(4)).contains(&buffer.capacity());
            spare.iter().rposition(fits).map(|at| spare.remove(at))
        };
        let mut buffer = found.unwrap_or_default();
        if buffer.capacity() < len {
            return vec![0; len];
        }
        buffer.resize(len, 0);
        buffer
    }

    /// Takes a buffer back.
    pub fn keep(&self, buffer: Vec<u8>) {
        let mut gone = Vec::new();
        let mut spare = self.spare();
        spare.push(buffer);
        let mut bytes: usize = spare.iter().map(Vec::capacity).sum();
        while bytes > self.max_bytes || spare.len() > MOST_BUFFERS {
            let oldest = spare.remove(0);
            bytes -= oldest.capacity();
            gone.push(oldest);
        }
        drop(spare);
        // Outside the lock: giving megabytes back takes a while.
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_by_an_image_that_it_fits() {
        let memory = PixelMemory::new(1000);
        let mut buffer = memory.take(300);
        assert_eq!(buffer, [0; 300]);
        buffer.fill(7);
        let address = buffer.as_ptr();
        memory.keep(buffer);
        let small = memory.take(60);
        assert_ne!(small.as_ptr(), address, "much too large");
        let again = memory.take(200);
        assert_eq!((again.len(), again.as_ptr()), (200, address));
        memory.keep(again);
        let whole = memory.take(300);
        assert_eq!(whole.as_ptr(), address, "all of it");
        let other = memory.take(300);
        assert_ne!(other.as_ptr(), address, "it is out");
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_newest_stays() {
        let memory = PixelMemory::new(1000);
        for _ in 0..3 {
            memory.keep(vec![0; 400]);
        }
        assert_eq!(memory.spare().len(), 2);
        memory.keep(vec![0; 4000]);
        assert!(memory.spare().is_empty());
        for _ in 0..2 * MOST_BUFFERS {
            memory.keep(vec![0; 1]);
        }
        assert_eq!(memory.spare().len(), MOST_BUFFERS);
        let none = PixelMemory::new(0);
        none.keep(vec![0; 1]);
        assert!(none.spare().is_empty());
    }
}
