//! The memory of one response, until the client has read it.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::budget::{AdmissionError, BYTES_A_PERMIT, ByteReservation, Taken};

/// The memory that every request has for its response. A response of this size is never refused, because the work is done.
pub(crate) const SMALL_RESPONSE_BYTES: usize = 64 << 10;

/// The reservation of one response. Clones share it, and dropping the last one releases the bytes.
///
/// A small response has a budget of its own. A larger one takes from the byte budget of request bodies, as it grows.
#[derive(Clone)]
pub struct ResponseReservation(Arc<Mutex<Held>>);

struct Held {
    /// The bytes that the response takes so far.
    bytes: usize,
    small: Taken,
    large: ByteReservation,
}

impl ResponseReservation {
    pub(super) fn new(small: Taken, large: ByteReservation) -> Self {
        Self(Arc::new(Mutex::new(Held {
            bytes: 0,
            small,
            large,
        })))
    }

    /// Reserves `bytes` bytes more. Call it before they are allocated.
    ///
    /// # Errors
    /// Returns [`AdmissionError::Bytes`] if the byte budget, or the part of the tenant, is used up.
    pub fn add(&self, bytes: usize) -> Result<(), AdmissionError> {
        let mut held = self.held();
        let total = held.bytes.saturating_add(bytes);
        held.grow_to(total)
    }

    /// Grows the reservation to `bytes` bytes. It never shrinks.
    ///
    /// # Errors
    /// The errors of [`add`](Self::add).
    pub fn grow_to(&self, bytes: usize) -> Result<(), AdmissionError> {
        self.held().grow_to(bytes)
    }

    /// Sets the size of the response, which is complete, and returns the rest of the reservation. A response in memory is never
    /// refused, because the request may have changed something.
    pub fn complete(&self, bytes: usize) {
        let mut held = self.held();
        held.bytes = bytes;
        if bytes > SMALL_RESPONSE_BYTES {
            held.large.shrink_to(bytes);
            held.large.count(bytes);
            held.small.shrink_to(0);
        } else {
            held.large.shrink_to(0);
            held.small.shrink_to(bytes.div_ceil(BYTES_A_PERMIT));
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // A panic elsewhere leaves at most too many bytes reserved.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn grow_to(&mut self, bytes: usize) -> Result<(), AdmissionError> {
        if bytes > SMALL_RESPONSE_BYTES {
            self.large.grow_to(bytes)?;
        }
        self.bytes = self.bytes.max(bytes);
        Ok(())
    }
}

impl fmt::Debug for ResponseReservation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.held().bytes;
        formatter
            .debug_tuple("ResponseReservation")
            .field(&bytes)
            .finish()
    }
}
