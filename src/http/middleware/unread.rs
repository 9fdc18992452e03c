//! Keeps the memory of an answer reserved until the client has read it.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use facescan_pipeline::admission::answer_reservation::AnswerReservation;
use hyper::body::{Frame, SizeHint};

/// Returns a response that holds `answer` until its last byte is sent. A body of unknown length reserves each of its parts as it
/// is made.
pub(super) fn hold(response: Response, answer: AnswerReservation) -> Response {
    if let Some(bytes) = response.body().size_hint().exact() {
        answer.complete(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    response.map(|body| Body::new(Unread { body, answer }))
}

/// The body of an answer.
struct Unread {
    body: Body,
    answer: AnswerReservation,
}

/// A part of an answer. The transport drops it when it is sent, which can be long after it has taken the part.
struct Part {
    bytes: Bytes,
    _answer: AnswerReservation,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for Unread {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let Some(Ok(frame)) = frame else {
            return Poll::Ready(frame);
        };
        let held = match frame.into_data() {
            Ok(bytes) => match self.answer.grow_to(bytes.len()) {
                Ok(()) => Ok(Frame::data(Bytes::from_owner(Part {
                    bytes,
                    _answer: self.answer.clone(),
                }))),
                Err(full) => Err(axum::Error::new(full)),
            },
            Err(frame) => Ok(frame),
        };
        Poll::Ready(Some(held))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
