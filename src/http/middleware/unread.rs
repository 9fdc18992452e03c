//! Keeps the memory of a response reserved until the client has read it.

use std::task::{Poll, ready};

use axum::{body::HttpBody as _, response::Response};
use bytes::Bytes;
use facescan_pipeline::admission::response_reservation::ResponseReservation;
use hyper::body::Frame;

use crate::http::wrapped_body::wrap;

/// Returns a response that holds `reservation` until its last byte is sent. A body of unknown length reserves each of its parts as it
/// is made.
pub(super) fn hold(response: Response, reservation: ResponseReservation) -> Response {
    if let Some(bytes) = response.body().size_hint().exact() {
        reservation.complete(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    response.map(|body| {
        wrap(body, move |body, context| {
            let frame = ready!(body.poll_frame(context));
            let Some(Ok(frame)) = frame else {
                return Poll::Ready(frame);
            };
            let held = match frame.into_data() {
                Ok(bytes) => match reservation.grow_to(bytes.len()) {
                    Ok(()) => Ok(Frame::data(Bytes::from_owner(Part {
                        bytes,
                        _reservation: reservation.clone(),
                    }))),
                    Err(full) => Err(axum::Error::new(full)),
                },
                Err(frame) => Ok(frame),
            };
            Poll::Ready(Some(held))
        })
    })
}

/// A part of a response. The transport drops it when it is sent, which can be long after it has taken the part.
struct Part {
    bytes: Bytes,
    _reservation: ResponseReservation,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
