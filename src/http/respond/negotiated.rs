//! Typed responses. The document describes what a handler returns by its type: see
//! [`Documented`](crate::http::openapi::documented::Documented).

use std::{io, marker::PhantomData};

use axum::{
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{CONTENT_TYPE, VARY},
    },
    response::{IntoResponse, Response},
};
use facescan_pipeline::context::RequestContext;
use serde::Serialize;

use super::{Accepted, on_own_thread, reserved_body::ReservedBody};
use crate::http::error::ApiError;

/// A written body `T`, as JSON or as msgpack. The status is 200.
pub struct Negotiated<T> {
    response: Response,
    body: PhantomData<fn() -> T>,
}

/// A body `T` with the status 201.
pub struct Created<T>(pub Negotiated<T>);

/// A body `T` with the status 202: the work goes on in the background.
pub struct Queued<T>(pub Negotiated<T>);

/// A body `T` whose status says whether the work is done.
pub enum DoneOrQueued<T> {
    /// The work is done: 200.
    Done(Negotiated<T>),
    /// The work goes on in the background: 202.
    Queued(Negotiated<T>),
}

/// A body `T`, or its content as a file for callers that accept only a file.
pub enum FileOr<T> {
    /// The file, with one of the types of [`InFile`].
    File(Response),
    /// The body.
    Body(Negotiated<T>),
}

/// A body whose content can also be a file.
pub trait InFile {
    /// The media types of the file.
    const TYPES: &'static [&'static str];
}

/// No body, with the status 204.
pub struct NoContent;

/// No body, with a status that says whether something is deleted.
pub enum Deletion {
    /// It is deleted: 204.
    Done,
    /// It is hidden, and deleted in the background: 202.
    Queued,
}

impl<T> Negotiated<T> {
    /// Adds headers.
    #[must_use]
    pub fn with_headers<const N: usize>(mut self, headers: [(HeaderName, HeaderValue); N]) -> Self {
        self.response.headers_mut().extend(headers);
        self
    }
}

impl<T: Serialize> Negotiated<T> {
    /// Writes a body of a few kilobytes on this thread, because that is faster than another thread.
    ///
    /// # Errors
    /// [`ApiError::Internal`] if it cannot be serialized.
    pub fn small(accepted: Accepted, body: &T) -> Result<Self, ApiError> {
        let mut written = Vec::new();
        write(accepted, body, &mut written)?;
        Ok(Self::from_written(accepted, written))
    }

    fn from_written(accepted: Accepted, body: Vec<u8>) -> Self {
        let media_type = match accepted {
            Accepted::Msgpack => "application/msgpack",
            Accepted::Json | Accepted::Image(_) | Accepted::Npy | Accepted::Parts => {
                "application/json"
            }
        };
        let headers = [(CONTENT_TYPE, media_type), (VARY, "accept")];
        Self {
            response: (headers, body).into_response(),
            body: PhantomData,
        }
    }
}

impl<T: Serialize + Send + 'static> Negotiated<T> {
    /// Writes a large body on a thread of its own, which work on images cannot take. Admission limits how many there are. The
    /// body takes its memory from that of the request.
    ///
    /// # Errors
    /// [`ApiError::Overloaded`] if the tenant's part of the memory is used up, or [`ApiError::Internal`] if the body cannot be
    /// serialized.
    pub async fn large(
        context: &RequestContext,
        accepted: Accepted,
        body: T,
    ) -> Result<Self, ApiError> {
        let mut reserved = ReservedBody::new(context.response.clone());
        let written = on_own_thread(move || {
            let written = write(accepted, &body, &mut reserved);
            reserved.finish(written)
        });
        Ok(Self::from_written(accepted, written.await??))
    }
}

fn write<T: Serialize>(
    accepted: Accepted,
    body: &T,
    to: &mut impl io::Write,
) -> Result<(), ApiError> {
    match accepted {
        Accepted::Msgpack => body
            .serialize(&mut rmp_serde::Serializer::new(to).with_struct_map())
            .map_err(|error| ApiError::Internal(error.to_string())),
        Accepted::Json | Accepted::Image(_) | Accepted::Npy | Accepted::Parts => {
            serde_json::to_writer(to, body).map_err(|error| ApiError::Internal(error.to_string()))
        }
    }
}

impl<T> IntoResponse for Negotiated<T> {
    fn into_response(self) -> Response {
        self.response
    }
}

impl<T> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, self.0).into_response()
    }
}

impl<T> IntoResponse for Queued<T> {
    fn into_response(self) -> Response {
        (StatusCode::ACCEPTED, self.0).into_response()
    }
}

impl<T> IntoResponse for DoneOrQueued<T> {
    fn into_response(self) -> Response {
        match self {
            Self::Done(body) => body.into_response(),
            Self::Queued(body) => Queued(body).into_response(),
        }
    }
}

impl<T> IntoResponse for FileOr<T> {
    fn into_response(self) -> Response {
        match self {
            Self::File(file) => file,
            Self::Body(body) => body.into_response(),
        }
    }
}

impl IntoResponse for NoContent {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl IntoResponse for Deletion {
    fn into_response(self) -> Response {
        match self {
            Self::Done => NoContent.into_response(),
            Self::Queued => StatusCode::ACCEPTED.into_response(),
        }
    }
}
