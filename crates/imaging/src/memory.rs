//! A pool of buffers for decoded images.
//!
//! An image takes a few megabytes. The system maps fresh memory of that size page by page, and each page fault takes
//! longer than clearing memory that is mapped already. A buffer that was in use a moment ago is also still in the CPU's
//! caches.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum number of buffers in the pool.
const MAX_BUFFERS: usize = 16;

/// A buffer that was not used for this number of images is freed. Otherwise the largest images that were ever in memory
/// at the same time would decide how much memory the pool keeps.
const MAX_IDLE_IMAGES: u64 = 64;

/// Buffers of earlier images. The pool is bounded in bytes and in number.
#[derive(Debug)]
pub struct PixelMemory {
    spare: Mutex<Spare>,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Spare {
    /// A stack: the buffer that was returned last is the most likely to be in a cache.
    buffers: Vec<SpareBuffer>,
    /// The number of buffers that were returned so far.
    returned: u64,
}

#[derive(Debug)]
struct SpareBuffer {
    memory: Vec<u8>,
    /// The value of [`Spare::returned`] when this buffer was returned.
    returned: u64,
}

impl Spare {
    /// Takes the newest buffer that fits an image of `len` bytes.
    fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        // A much larger buffer would waste memory on a small image.
        let fits = len..=len.saturating_mul(4);
        let fits = |spare: &SpareBuffer| fits.contains(&spare.memory.capacity());
        let at = self.buffers.iter().rposition(fits)?;
        Some(self.buffers.remove(at).memory)
    }

    fn put(&mut self, memory: Vec<u8>) {
        self.returned += 1;
        self.buffers.push(SpareBuffer {
            memory,
            returned: self.returned,
        });
    }

    /// Removes the oldest buffers until the rest is within the limits.
    fn remove_excess(&mut self, max_bytes: usize) -> Vec<SpareBuffer> {
        let mut bytes: usize = self
            .buffers
            .iter()
            .map(|spare| spare.memory.capacity())
            .sum();
        let mut count = 0;
        for spare in &self.buffers {
            let is_idle = self.returned - spare.returned >= MAX_IDLE_IMAGES;
            if !is_idle && bytes <= max_bytes && self.buffers.len() - count <= MAX_BUFFERS {
                break;
            }
            bytes -= spare.memory.capacity();
            count += 1;
        }
        self.buffers.drain(..count).collect()
    }
}

impl PixelMemory {
    /// Creates a pool of up to `max_bytes` bytes; 0 disables it.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            spare: Mutex::default(),
            max_bytes,
        }
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        // Each change is one operation, so a panic leaves no inconsistent state.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a buffer of `len` bytes. It may contain the bytes of an earlier image.
    pub fn take(&self, len: usize) -> Vec<u8> {
        let found = self.spare().take(len);
        let mut buffer = found.unwrap_or_default();
        if buffer.capacity() < len {
            return vec![0; len];
        }
        buffer.resize(len, 0);
        buffer
    }

    /// Returns a buffer to the pool.
    pub fn keep(&self, buffer: Vec<u8>) {
        let mut spare = self.spare();
        spare.put(buffer);
        let excess = spare.remove_excess(self.max_bytes);
        drop(spare);
        // The buffers are dropped outside the lock, because returning megabytes to the system takes a while.
        drop(excess);
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
        assert_eq!(memory.spare().buffers.len(), 2);
        memory.keep(vec![0; 4000]);
        assert!(memory.spare().buffers.is_empty());
        for _ in 0..2 * MAX_BUFFERS {
            memory.keep(vec![0; 1]);
        }
        assert_eq!(memory.spare().buffers.len(), MAX_BUFFERS);
        let off = PixelMemory::new(0);
        off.keep(vec![0; 1]);
        assert!(off.spare().buffers.is_empty());
    }

    #[test]
    fn a_buffer_that_is_not_used_for_a_while_is_freed() {
        let memory = PixelMemory::new(10_000);
        memory.keep(vec![0; 4000]);
        for _ in 1..MAX_IDLE_IMAGES {
            memory.keep(memory.take(100));
        }
        assert_eq!(
            memory.spare().buffers.len(),
            2,
            "the large buffer may be needed"
        );
        memory.keep(memory.take(100));
        let capacities = memory
            .spare()
            .buffers
            .iter()
            .map(|spare| spare.memory.capacity())
            .collect::<Vec<_>>();
        assert_eq!(capacities, [100]);
    }
}
