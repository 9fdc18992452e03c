//! The body of a response that takes its memory from that of the request.

use std::io::{self, Write};

use facescan_pipeline::admission::{AdmissionError, response_reservation::ResponseReservation};

use crate::http::error::ApiError;

/// The least that is reserved at a time.
const LEAST_BYTES: usize = 64 << 10;

/// Collects a response. Reserves memory before it grows.
pub(super) struct ReservedBody {
    body: Vec<u8>,
    response: Option<ResponseReservation>,
    refused: Option<AdmissionError>,
}

impl ReservedBody {
    /// Creates an empty body. Without a reservation it has no limit.
    pub fn new(response: Option<ResponseReservation>) -> Self {
        Self {
            body: Vec::new(),
            response,
            refused: None,
        }
    }

    /// Returns the body if `written` is a success.
    ///
    /// # Errors
    /// [`ApiError::Overloaded`] if the memory was refused, or the error of `written`.
    pub fn finish(self, written: Result<(), ApiError>) -> Result<Vec<u8>, ApiError> {
        match self.refused {
            Some(full) => Err(full.into()),
            None => written.map(|()| self.body),
        }
    }

    fn reserve(&mut self, bytes: usize) -> io::Result<()> {
        let spare = self.body.capacity() - self.body.len();
        if bytes <= spare {
            return Ok(());
        }
        // A quarter more, so that a long body is not moved often and little of it is spare.
        let more = bytes.max(LEAST_BYTES).max(self.body.len() / 4);
        if let Some(response) = &self.response
            && let Err(full) = response.add(more)
        {
            self.refused = Some(full);
            return Err(io::Error::other(full));
        }
        self.body.reserve_exact(more);
        Ok(())
    }
}

impl Write for ReservedBody {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.reserve(bytes.len())?;
        self.body.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use facescan_clock::SystemClock;

    use super::*;
    use facescan_pipeline::admission::{Admission, Budgets};
    use facescan_telemetry::metrics::Metrics;

    #[test]
    fn a_body_beyond_the_byte_budget_is_refused_before_it_is_written() {
        let budgets = Budgets {
            requests: 4,
            interactive_images: 1,
            bulk_images: 1,
            bytes: 1 << 20,
            max_wait: Duration::ZERO,
        };
        let clock: Arc<dyn facescan_clock::Clock> = Arc::new(SystemClock::start());
        let admission = Admission::new(budgets, Metrics::default(), &clock);
        let tenant: Arc<str> = "one".into();
        let response = admission.try_reserve_response(&tenant).unwrap();
        let _others = admission.try_reserve_body(&tenant, 512 << 10).unwrap();
        let mut body = ReservedBody::new(Some(response.clone()));
        let part = [0; 1000];
        let refused = std::iter::repeat_with(|| body.write_all(&part))
            .take(2000)
            .find_map(Result::err);
        assert!(refused.is_some());
        assert!((256 << 10..1 << 20).contains(&body.body.capacity()));
        let error = body.finish(Ok(())).unwrap_err();
        assert!(matches!(error, ApiError::Overloaded(AdmissionError::Bytes)));
    }
}
