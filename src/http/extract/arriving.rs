//! The formats of bodies, and bodies whose reservation grows as they arrive.
//!
//! A client states the length of its body, or none, and can then send it slowly or not at all. So a body reserves what has
//! arrived and as much again, whatever its stated length. A slow client holds little of the byte budget.

use std::{
    error::Error,
    mem,
    sync::{Arc, Mutex, PoisonError},
    task::{Poll, ready},
};

use axum::{
    body::HttpBody as _,
    extract::Request,
    http::{
        HeaderMap,
        header::{CONTENT_LENGTH, CONTENT_TYPE},
    },
};
use bytes::{Bytes, BytesMut};
use facescan_outbound::causes;
use facescan_pipeline::admission::{Admission, AdmissionError, ByteReservation};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use mime::Mime;

use crate::http::{
    error::ApiError,
    middleware::{arrival::TooSlow, context},
    wrapped_body::wrap,
};

/// The four formats of a request body.
pub(in crate::http) enum BodyFormat {
    /// The bytes of one image.
    Raw,
    /// A form with a part for each image.
    Multipart,
    /// JSON with the images in base64, or their URLs.
    Json,
    /// The same tree as JSON.
    Msgpack,
}

impl BodyFormat {
    /// Returns the format that the content type names.
    pub(in crate::http) fn from_headers(headers: &HeaderMap) -> Result<Self, ApiError> {
        let accepted = "send image/* or application/octet-stream, multipart/form-data, application/json or \
                        application/msgpack";
        let Some(parsed) = content_type(headers) else {
            let wrong = match headers.contains_key(CONTENT_TYPE) {
                true => "the content-type cannot be read",
                false => "the request has no content-type",
            };
            let detail = format!("{wrong}; {accepted}");
            return Err(ApiError::UnsupportedMediaType(detail));
        };
        match (parsed.type_().as_str(), parsed.subtype().as_str()) {
            ("image", _) | ("application", "octet-stream") => Ok(Self::Raw),
            ("multipart", "form-data") => Ok(Self::Multipart),
            ("application", "json") => Ok(Self::Json),
            ("application", "msgpack" | "x-msgpack" | "vnd.msgpack") => Ok(Self::Msgpack),
            _ => Err(ApiError::UnsupportedMediaType(format!(
                "the content-type {} is not accepted; {accepted}",
                parsed.essence_str()
            ))),
        }
    }
}

/// Returns the content type of a request, if it has one that can be read.
pub(super) fn content_type(headers: &HeaderMap) -> Option<Mime> {
    headers.get(CONTENT_TYPE)?.to_str().ok()?.parse().ok()
}

/// The bytes that a body reserves before it arrives, unless it is shorter.
const FIRST_BYTES: usize = 16 << 10;

/// The reservation of a body, which the body and its request share.
pub type SharedReservation = Arc<Mutex<ByteReservation>>;

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
    let tenant = context::from_request(request)?.principal.tenant;
    let stated = stated_length(request.headers());
    let most = stated.unwrap_or(most).min(most);
    let first = most.min(FIRST_BYTES);
    if stated.is_some() && first < most {
        admission.check_body(&tenant, most)?;
    }
    let reservation = admission.try_reserve_body(&tenant, first)?;
    let reservation = Arc::new(Mutex::new(reservation));
    let mut arrived = Arrived {
        reservation: Arc::clone(&reservation),
        bytes: 0,
        reserved: first,
        most,
    };
    let body = mem::take(request.body_mut());
    *request.body_mut() = wrap(body, move |body, context| {
        let frame = ready!(body.poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            let bytes = frame.data_ref().map_or(0, |data| data.len());
            if let Err(full) = arrived.count(bytes) {
                return Poll::Ready(Some(Err(axum::Error::new(full))));
            }
        }
        Poll::Ready(frame)
    });
    Ok(reservation)
}

/// Reads a body of at most `limit` bytes. Copies each part at once, because it is still in the CPU's caches. Does not copy a
/// body that arrives in one part.
///
/// # Errors
/// [`ApiError::BodyTooLarge`] if the body is too large, [`ApiError::Overloaded`] if the byte budget is used up meanwhile, or the
/// error of a body that does not arrive as a whole.
pub(super) async fn body(request: Request, limit: usize) -> Result<Bytes, ApiError> {
    let stated = stated_length(request.headers()).unwrap_or(0).min(limit);
    let mut body = Limited::new(request.into_body(), limit);
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
            true => ApiError::BodyTooLarge { limit },
            false => incomplete(error.as_ref()),
        })?;
        // Trailers are not part of the body.
        let Ok(part) = frame.into_data() else {
            continue;
        };
        if whole.is_empty() {
            if body.is_end_stream() {
                return Ok(part);
            }
            whole.reserve(stated.max(part.len()));
        }
        whole.extend_from_slice(&part);
    }
    Ok(whole.freeze())
}

/// Returns the length of the body that the headers state.
pub(in crate::http) fn stated_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns the error of a body that has not arrived as a whole.
pub(super) fn incomplete(error: &(dyn Error + 'static)) -> ApiError {
    for cause in causes(error) {
        if let Some(full) = cause.downcast_ref::<AdmissionError>() {
            return ApiError::Overloaded(*full);
        }
        if let Some(slow) = cause.downcast_ref::<TooSlow>() {
            return ApiError::BodyTooSlow {
                bytes_per_s: slow.bytes_per_s,
            };
        }
    }
    ApiError::InvalidBody("the connection closed before the end of the body".to_owned())
}

/// What has arrived of a body, and what is reserved for it.
struct Arrived {
    reservation: SharedReservation,
    bytes: usize,
    reserved: usize,
    /// The largest reservation.
    most: usize,
}

impl Arrived {
    /// Counts bytes that have arrived. The reservation doubles, so that it grows only a few times.
    fn count(&mut self, bytes: usize) -> Result<(), AdmissionError> {
        self.bytes += bytes;
        if self.bytes > self.reserved && self.reserved < self.most {
            let doubled = self.reserved.saturating_mul(2);
            self.reserved = self.bytes.max(doubled).min(self.most);
            let reservation = self.reservation.lock();
            reservation
                .unwrap_or_else(PoisonError::into_inner)
                .grow_to(self.reserved)?;
        }
        Ok(())
    }
}
