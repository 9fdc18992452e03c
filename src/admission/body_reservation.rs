//! The reservation of one body.

use std::sync::Arc;

use super::{AdmissionError, BYTES_A_PERMIT, Budget, Taken};
use crate::telemetry::metrics::Metrics;

/// The reservation of one body. Dropping it releases the bytes.
pub struct BodyReservation {
    pub(super) budget: Budget,
    pub(super) tenant: Arc<str>,
    pub(super) metrics: Metrics,
    pub(super) taken: Vec<Taken>,
    /// The sum of `taken`, in permits.
    pub(super) permits: usize,
}

impl BodyReservation {
    /// Grows the reservation to `bytes` bytes. It never shrinks.
    ///
    /// # Errors
    /// Returns [`AdmissionError::Bytes`] if the byte budget, or the part of the tenant, is used up.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), AdmissionError> {
        // A body that is larger than the budget has all of it.
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
}
