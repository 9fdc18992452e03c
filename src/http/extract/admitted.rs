//! Letting a request in: its body before it is read, its images before they are worked on.

use axum::{
    body::Body,
    extract::Request,
    http::{
        HeaderMap,
        header::{CONTENT_LENGTH, EXPECT},
    },
};
use futures::StreamExt;

use crate::{
    admission::{BodyTicket, Full, ImageTicket, Priority},
    http::AppState,
    http::error::ApiError,
};

/// The body of a refused request is read over up to this size, so that its connection can be used again.
const READ_OVER: usize = 1 << 20;

/// Held as long as a request is in the server.
pub struct Ticket {
    _body: BodyTicket,
    _images: ImageTicket,
}

/// A request whose body may be read.
pub struct Admitted {
    body: BodyTicket,
}

impl Admitted {
    /// Lets a request's body in; `priority` is the one its images will wait in, where that is known before it is read.
    ///
    /// # Errors
    /// [`ApiError::Overloaded`] when there is no room for it or for any image; [`ApiError::BodyTooLarge`] when it says so itself.
    pub async fn body(
        request: Request,
        state: &AppState,
        priority: Option<Priority>,
    ) -> Result<(Self, Request), ApiError> {
        let limit = state.config.server.max_body_bytes;
        let stated = stated_length(request.headers());
        if stated.is_some_and(|stated| stated > limit) {
            return Err(ApiError::BodyTooLarge { limit });
        }
        let admission = &state.admission;
        let admitted = admission
            .has_room(priority)
            .and_then(|()| admission.body(stated.unwrap_or(limit)));
        match admitted {
            Ok(body) => Ok((Self { body }, request)),
            Err(full) => Err(refuse(request, stated, full).await),
        }
    }

    /// Lets the request's images in, and says at which priority; many of them are bulk, and those that have to be fetched, unless the request says
    /// otherwise.
    ///
    /// # Errors
    /// [`ApiError::Overloaded`].
    pub fn images(
        self,
        state: &AppState,
        named: Option<Priority>,
        images: usize,
        are_fetched: bool,
    ) -> Result<(Ticket, Priority), ApiError> {
        // Hosts that do not answer keep images here for seconds, which would leave no room for those with bytes.
        let named = named.or(are_fetched.then_some(Priority::Bulk));
        let priority = priority_of(state, named, images);
        let ticket = Ticket {
            _images: state.admission.images(priority, images)?,
            _body: self.body,
        };
        Ok((ticket, priority))
    }
}

/// The priority of a request: the one it names, or by the number of its images.
pub fn priority_of(state: &AppState, named: Option<Priority>, images: usize) -> Priority {
    let is_bulk = images >= state.config.admission.bulk_min_images;
    named.unwrap_or(if is_bulk {
        Priority::Bulk
    } else {
        Priority::Interactive
    })
}

/// How long a request says its body is.
pub(super) fn stated_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads a small body over before the answer. One that waits to be asked for is not.
async fn refuse(request: Request, stated: Option<usize>, full: Full) -> ApiError {
    let is_small = stated.is_some_and(|stated| stated <= READ_OVER);
    if is_small && !request.headers().contains_key(EXPECT) {
        drain(request.into_body()).await;
    }
    ApiError::Overloaded(full)
}

async fn drain(body: Body) {
    let mut parts = body.into_data_stream();
    while let Some(Ok(_)) = parts.next().await {}
}
