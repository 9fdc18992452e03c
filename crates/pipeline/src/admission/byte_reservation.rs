//! A part of the byte budget: that of a body, or of a large response.

use std::sync::Arc;

use facescan_telemetry::metrics::Metrics;

use super::{
    budget::{BYTES_A_PERMIT, Budget, Taken},
    error::AdmissionError,
};

/// The reservation of one body, or of one large response. Dropping it releases the bytes.
pub struct ByteReservation {
    pub(super) budget: Budget,
    pub(super) tenant: Arc<str>,
    pub(super) metrics: Metrics,
    pub(super) taken: Vec<Taken>,
    /// The sum of `taken`, in permits.
    pub(super) permits: usize,
}

impl ByteReservation {
    /// Grows the reservation to `bytes` bytes. `shrink_to` shrinks it.
    ///
    /// # Errors
    /// Returns [`AdmissionError::Bytes`] if the byte budget, or the part of the tenant, is used up.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), AdmissionError> {
        // What is larger than the budget has all of it.
        let permits = self.budget.bounded(bytes.div_ceil(BYTES_A_PERMIT)) as usize;
        let missing = permits.saturating_sub(self.permits);
        if missing == 0 {
            return Ok(());
        }
        match self.budget.try_take(&self.tenant, missing) {
            Some(taken) => {
                self.taken.push(taken);
                self.permits = permits;
                Ok(())
            }
            None => {
                self.metrics.refused(AdmissionError::Bytes.refusal());
                Err(AdmissionError::Bytes)
            }
        }
    }

    /// Grows the reservation to `bytes` bytes that are in memory already, also if the budget is used up.
    pub fn count(&mut self, bytes: usize) {
        let permits = bytes.div_ceil(BYTES_A_PERMIT);
        let missing = permits.saturating_sub(self.permits);
        if missing > 0 {
            self.taken.push(self.budget.count(&self.tenant, missing));
            self.permits = permits;
        }
    }

    /// Returns what is above `bytes` bytes to the budget.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let needed = bytes.div_ceil(BYTES_A_PERMIT);
        while self.permits > needed
            && let Some(mut last) = self.taken.pop()
        {
            let before = self.permits - last.amount();
            last.shrink_to(needed.saturating_sub(before));
            self.permits = before + last.amount();
            if last.amount() > 0 {
                self.taken.push(last);
                return;
            }
        }
    }
}
