//! Bodies that pass on another body, and see or change its frames.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use facescan_pipeline::admission::response_reservation::ResponseReservation;
use hyper::body::{Frame, SizeHint};

/// What a body returns when it is polled.
pub(super) type PolledFrame = Poll<Option<Result<Frame<Bytes>, axum::Error>>>;

/// Returns a body whose frames `poll` takes from `body`. It ends where `body` ends, and states its length.
pub(super) fn wrap(
    body: Body,
    poll: impl FnMut(Pin<&mut Body>, &mut Context<'_>) -> PolledFrame + Send + Unpin + 'static,
) -> Body {
    Body::new(WrappedBody { body, poll })
}

struct WrappedBody<F> {
    body: Body,
    poll: F,
}

impl<F> HttpBody for WrappedBody<F>
where
    F: FnMut(Pin<&mut Body>, &mut Context<'_>) -> PolledFrame + Unpin,
{
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> PolledFrame {
        let Self { body, poll } = &mut *self;
        poll(Pin::new(body), context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

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
