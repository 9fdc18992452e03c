//! Admits requests: the body before it is read, and the images before they are processed.

use axum::{body::Body, extract::Request, http::header::EXPECT};
use facescan_pipeline::admission::{AdmissionError, ImageReservation, Priority};
use futures::StreamExt;

use super::arriving::{self, SharedReservation, stated_length};
use crate::http::{AppState, error::ApiError, middleware::context};

/// The server drains the body of a refused request up to this size, so that the connection can be reused.
const MAX_DRAINED_BYTES: usize = 1 << 20;

/// The reservations that a request holds until its response is complete.
pub struct RequestReservations {
    pub(super) _body: SharedReservation,
    pub(super) _images: ImageReservation,
}

/// Admits the body of a request. `priority` is the priority of its images, if it is known before the body is read.
///
/// # Errors
/// [`ApiError::Overloaded`] if the byte budget cannot hold the body now, or if no image of the priority can be admitted.
/// [`ApiError::BodyTooLarge`] if the stated length is too large.
pub(super) async fn admit_body(
    mut request: Request,
    state: &AppState,
    priority: Option<Priority>,
) -> Result<(SharedReservation, Request), ApiError> {
    let limit = state.config.server.max_body_bytes;
    let stated = stated_length(request.headers());
    if stated.is_some_and(|stated| stated > limit) {
        return Err(ApiError::BodyTooLarge { limit });
    }
    let admission = &state.admission;
    let tenant = context::from_request(&request)?.principal.tenant;
    if let Err(full) = admission.check_capacity(&tenant, priority) {
        return Err(refuse(request, stated, full).await);
    }
    match arriving::reserve(&mut request, admission, limit) {
        Ok(reservation) => Ok((reservation, request)),
        Err(ApiError::Overloaded(full)) => Err(refuse(request, stated, full).await),
        Err(error) => Err(error),
    }
}

/// Returns the priority of a request: the one it names, or the one for its number of images.
pub(super) fn priority_of(state: &AppState, named: Option<Priority>, images: usize) -> Priority {
    let is_bulk = images >= state.config.admission.bulk_min_images;
    named.unwrap_or(if is_bulk {
        Priority::Bulk
    } else {
        Priority::Interactive
    })
}

/// Drains a small body, then returns the error. Does not drain a body that the client sends only after `100 Continue`.
async fn refuse(request: Request, stated: Option<usize>, full: AdmissionError) -> ApiError {
    let is_small = stated.is_some_and(|stated| stated <= MAX_DRAINED_BYTES);
    if is_small && !request.headers().contains_key(EXPECT) {
        drain(request.into_body()).await;
    }
    ApiError::Overloaded(full)
}

async fn drain(body: Body) {
    let mut parts = body.into_data_stream();
    while let Some(Ok(_)) = parts.next().await {}
}
