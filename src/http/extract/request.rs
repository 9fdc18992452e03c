//! Reads a request with images or faces: the query, the body, and what the request may use. The body is admitted before it is
//! read, and the images before they are processed.

use axum::{
    extract::{FromRequest, Request},
    http::header::EXPECT,
};
use facescan_fields::{FieldErrors, MAX_ERRORS, Shape};
use facescan_pipeline::{
    admission::{AdmissionError, ImageReservation, Priority},
    context::RequestContext,
    core::options::RequestOptions,
    ingest::source::ImageInput,
};
use futures::StreamExt;

use super::{
    BodyFormat,
    arriving::{self, SharedReservation, stated_length},
    content::{Content, ReadBody, read_body},
    options::SentOptions,
};
use crate::http::{AppState, error::ApiError, middleware::context};

/// The server drains the body of a refused request up to this size, so that the connection can be reused.
const MAX_DRAINED_BYTES: usize = 1 << 20;

/// A request whose images may be processed. `C` is what its body has.
pub struct AdmittedRequest<C, O> {
    /// The context of the request, with the priority that its images have.
    pub context: RequestContext,
    /// What the body has: at least one image or face.
    pub content: C,
    /// The options as sent.
    pub options: O,
    /// The reservations of the request. Hold them until the response is written.
    pub reservations: RequestReservations,
}

/// The reservations that a request holds until its response is complete.
pub struct RequestReservations {
    _body: SharedReservation,
    _images: ImageReservation,
}

/// What a request is made of, when nothing of its body is missing.
pub(super) trait AdmittedContent: Sized + Send {
    /// What a body has.
    type Body: Content;

    /// Checks that nothing is missing, and that there is no mask unless the options take masks.
    fn from_body(body: Self::Body, takes_masks: bool) -> Result<Self, ApiError>;

    /// Returns the images.
    fn images(&self) -> impl Iterator<Item = &ImageInput>;

    /// Returns the number of images and faces to admit.
    fn count(&self) -> usize;
}

/// Reads the query and the body of a request, and admits its images.
///
/// The error is that of a body that is refused or cannot be parsed, one with everything that is wrong with its fields and with the
/// options, that of a body that lacks something, or [`ApiError::Overloaded`] if too many images wait.
impl<T: AdmittedContent, O: RequestOptions + Send> FromRequest<AppState> for AdmittedRequest<T, O> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let format = BodyFormat::from_headers(request.headers())?;
        let query = SentOptions::from_query(request.uri().query().unwrap_or_default())?;
        // A request with one image can be refused before its body is read. Invalid options are reported after the body.
        let priority = match format {
            BodyFormat::Raw => {
                let options = query.clone().read::<O>().ok();
                options.map(|options| priority_of(state, options.priority(), 1))
            }
            BodyFormat::Multipart | BodyFormat::Json | BodyFormat::Msgpack => None,
        };
        let mut context = context::from_request(&request)?;
        let (reservation, request) = admit_body(request, state, priority).await?;
        let mut body: ReadBody<T::Body> = read_body(format, request, state, &reservation).await?;
        let fields = body.field_errors(&Shape::from_schema::<O>());
        let options = match query.overridden_by(body.options).read::<O>() {
            Ok(options) if fields.is_empty() => options,
            Err(options) if fields.is_empty() => return Err(options.into()),
            options => {
                let mut errors = FieldErrors::from_fields(fields);
                errors
                    .errors
                    .extend(options.err().into_iter().flat_map(|of| of.errors));
                errors.errors.truncate(MAX_ERRORS);
                return Err(errors.into());
            }
        };
        let content = T::from_body(body.content, O::TAKES_MASKS)?;
        let (count, named) = (content.count(), options.priority());
        // Slow hosts can keep images waiting for seconds. As interactive images, they would block those that have bytes.
        let are_fetched = content.images().any(ImageInput::is_fetched);
        let named = named.or(are_fetched.then_some(Priority::Bulk));
        context.priority = priority_of(state, named, count);
        let tenant = &context.principal.tenant;
        let admission = &state.admission;
        let images = admission
            .admit_or_refuse(tenant, context.priority, count)
            .await?;
        Ok(Self {
            context,
            content,
            options,
            reservations: RequestReservations {
                _body: reservation,
                _images: images,
            },
        })
    }
}

/// Admits the body of a request. `priority` is the priority of its images, if it is known before the body is read.
///
/// # Errors
/// [`ApiError::Overloaded`] if the byte budget cannot hold the body now, or if no image of the priority can be admitted.
/// [`ApiError::BodyTooLarge`] if the stated length is too large.
async fn admit_body(
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
fn priority_of(state: &AppState, named: Option<Priority>, images: usize) -> Priority {
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
        let mut parts = request.into_body().into_data_stream();
        while let Some(Ok(_)) = parts.next().await {}
    }
    ApiError::Overloaded(full)
}
