//! A pool of buffers for decoded images.
//!
//! An image takes a few megabytes. The system maps fresh memory of that size page by page, and each page fault takes
//! longer than clearing memory that is mapped already. A buffer that was in use a moment ago is also still in the CPU's
//! caches.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum number of buffers in the pool.
const MAX_BUFFERS: usize = 16;

/// Buffers of earlier images. The pool is bounded in bytes and in number.
#[derive(Debug)]
pub struct PixelMemory {
    /// A stack: the buffer that was returned last is the most likely to be in a cache.
    spare: Mutex<Vec<Vec<u8>>>,
    max_bytes: usize,
}

impl PixelMemory {
    /// Creates a pool of up to `max_bytes` bytes; 0 disables it.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            spare: Mutex::default(),
            max_bytes,
        }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        // Each change is one operation, so a panic leaves no inconsistent state.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a buffer of `len` bytes. It may contain the bytes of an earlier image.
    pub fn take(&self, len: usize) -> Vec<u8> {
        let found = {
            let mut spare = self.spare();
            // A much larger buffer would waste memory on a small image.
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

    /// Returns a buffer to the pool.
    pub fn keep(&self, buffer: Vec<u8>) {
        let mut dropped = Vec::new();
        let mut spare = self.spare();
        spare.push(buffer);
        let mut bytes: usize = spare.iter().map(Vec::capacity).sum();
        while bytes > self.max_bytes || spare.len() > MAX_BUFFERS {
            let oldest = spare.remove(0);
            bytes -= oldest.capacity();
            dropped.push(oldest);
        }
        drop(spare);
        // The buffers are dropped outside the lock, because returning megabytes to the system takes a while.
        drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_reused_for_an_image_of_a_similar_size() {
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
        let full = memory.take(300);
        assert_eq!(full.as_ptr(), address, "all of it");
        let other = memory.take(300);
        assert_ne!(other.as_ptr(), address, "the buffer is in use");
    }

    #[test]
    fn the_pool_is_bounded_and_keeps_the_newest_buffers() {
        let memory = PixelMemory::new(1000);
        for _ in 0..3 {
            memory.keep(vec![0; 400]);
        }
        assert_eq!(memory.spare().len(), 2);
        memory.keep(vec![0; 4000]);
        assert!(memory.spare().is_empty());
        for _ in 0..2 * MAX_BUFFERS {
            memory.keep(vec![0; 1]);
        }
        assert_eq!(memory.spare().len(), MAX_BUFFERS);
        let off = PixelMemory::new(0);
        off.keep(vec![0; 1]);
        assert!(off.spare().is_empty());
    }
}
