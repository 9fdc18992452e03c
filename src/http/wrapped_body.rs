//! Bodies that pass on another body, and see or change its frames.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
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
