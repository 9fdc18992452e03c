//! How large the answer of one request may become.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::pipeline::error::PipelineError;

/// Bytes of tensors and pictures that one request may be answered with.
const MOST_BYTES: usize = 256 << 20;

/// What is left of a request's bytes. Clones share it: a small request may ask for large rows, many times.
#[derive(Clone, Debug)]
pub struct Budget(Arc<AtomicUsize>);

impl Default for Budget {
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(MOST_BYTES)))
    }
}

impl Budget {
    /// Takes bytes out, before memory is made for them.
    ///
    /// # Errors
    /// [`PipelineError::AnswerTooLarge`] when there are not as many.
    pub fn take(&self, bytes: u64) -> Result<(), PipelineError> {
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(usize::try_from(bytes).ok()?)
            });
        taken
            .map(drop)
            .map_err(|_| PipelineError::AnswerTooLarge { limit: MOST_BYTES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_takes_another_has_no_more() {
        let budget = Budget::default();
        let other = budget.clone();
        let most = MOST_BYTES as u64;
        budget.take(most - 10).unwrap();
        assert!(other.take(11).is_err());
        other.take(10).unwrap();
        assert!(budget.take(1).is_err());
        assert!(budget.take(u64::MAX).is_err());
    }
}
