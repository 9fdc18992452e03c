//! The limit on the size of one response.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::core::error::PipelineError;

/// The maximum number of bytes of tensors and images in one response.
pub(crate) const MAX_BYTES: usize = 256 << 20;

/// The bytes that are left for one response. Clones share them. Without this limit, a small request could ask for many
/// large rows.
#[derive(Clone, Debug)]
pub struct Budget(Arc<AtomicUsize>);

impl Default for Budget {
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(MAX_BYTES)))
    }
}

impl Budget {
    /// Reserves bytes. Call this before the memory is allocated.
    ///
    /// # Errors
    /// [`PipelineError::ResponseTooLarge`] if fewer bytes are left.
    pub fn take(&self, bytes: u64) -> Result<(), PipelineError> {
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(usize::try_from(bytes).ok()?)
            });
        taken
            .map(drop)
            .map_err(|_| PipelineError::ResponseTooLarge { limit: MAX_BYTES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_bytes() {
        let budget = Budget::default();
        let other = budget.clone();
        let most = MAX_BYTES as u64;
        budget.take(most - 10).unwrap();
        assert!(other.take(11).is_err());
        other.take(10).unwrap();
        assert!(budget.take(1).is_err());
        assert!(budget.take(u64::MAX).is_err());
    }
}
