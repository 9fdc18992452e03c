//! Bodies whose reservation grows as they arrive.
//!
//! A client states the length of its body, or none, and can then send it slowly or not at all. So a body reserves only its
//! beginning at first. A slow client then holds little more of the byte budget than what it has sent.

use std::{
    error::Error,
    mem,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::Request,
};
use hyper::body::{Frame, SizeHint};

use super::admitted::stated_length;
use crate::{
    admission::{Admission, AdmissionError, body_reservation::BodyReservation},
    context::RequestContext,
    http::error::ApiError,
};

/// The bytes that a body reserves before it arrives, unless it is shorter. Most photographs are not much larger.
const FIRST_BYTES: usize = 1 << 20;

/// The reservation of a body, which the body and its request share.
pub type SharedReservation = Arc<Mutex<BodyReservation>>;

/// Reserves the beginning of a body. The body of the request then reserves the rest as it arrives, up to `most` bytes, which are
/// those that the server holds at a time.
///
/// # Errors
/// [`ApiError::Overloaded`] if the byte budget cannot hold the stated length now.
pub(super) fn reserve(
    request: &mut Request,
    admission: &Admission,
    most: usize,
) -> Result<SharedReservation, ApiError> {
    let tenant = RequestContext::of(request)?.principal.tenant;
    let stated = stated_length(request.headers());
    let most = stated.unwrap_or(most).min(most);
    let first = most.min(FIRST_BYTES);
    if stated.is_some() && first < most {
        admission.check_body(&tenant, most)?;
    }
    let reservation = admission.try_reserve_body(&tenant, first)?;
    let reservation = Arc::new(Mutex::new(reservation));
    let arriving = ArrivingBody {
        body: mem::take(request.body_mut()),
        reservation: Arc::clone(&reservation),
        arrived: 0,
        reserved: first,
        most,
    };
    *request.body_mut() = Body::new(arriving);
    Ok(reservation)
}

/// Returns the reason if a body ended because the byte budget has no more bytes for it.
pub(super) fn refused_by_budget(error: &(dyn Error + 'static)) -> Option<AdmissionError> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(full) = error.downcast_ref::<AdmissionError>() {
            return Some(*full);
        }
        cause = error.source();
    }
    None
}

/// Returns the error of a body that has not arrived as a whole.
pub(super) fn incomplete(error: &axum::Error) -> ApiError {
    match refused_by_budget(error) {
        Some(full) => ApiError::Overloaded(full),
        None => {
            ApiError::InvalidBody("the connection closed before the end of the body".to_owned())
        }
    }
}

/// A body that reserves what arrives.
struct ArrivingBody {
    body: Body,
    reservation: SharedReservation,
    arrived: usize,
    reserved: usize,
    /// The largest reservation.
    most: usize,
}

impl ArrivingBody {
    /// Counts bytes that have arrived. The reservation doubles, so that it grows only a few times.
    fn count(&mut self, bytes: usize) -> Result<(), AdmissionError> {
        self.arrived += bytes;
        if self.arrived > self.reserved && self.reserved < self.most {
            let doubled = self.reserved.saturating_mul(2);
            self.reserved = self.arrived.max(doubled).min(self.most);
            let reservation = self.reservation.lock();
            reservation
                .unwrap_or_else(PoisonError::into_inner)
                .grow_to(self.reserved)?;
        }
        Ok(())
    }
}

impl HttpBody for ArrivingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            let bytes = frame.data_ref().map_or(0, |data| data.len());
            if let Err(full) = self.count(bytes) {
                return Poll::Ready(Some(Err(axum::Error::new(full))));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
