//! Reads a request with images or faces: the query, the body, and what the request may use.

use axum::extract::Request;
use facescan_fields::{FieldErrors, Shape};
use facescan_pipeline::{context::RequestContext, core::options::RequestOptions};

use super::{
    BodyFormat,
    admitted::{Admitted, RequestReservations, priority_of},
    content::{Content, ReadBody, read_body},
    options::SentOptions,
};
use crate::http::{AppState, error::ApiError, middleware::context};

/// A request that has been read. Its images are not admitted yet.
pub(super) struct ReadRequest<C, O> {
    context: RequestContext,
    /// What the body has.
    pub content: C,
    options: O,
    admitted: Admitted,
}

/// A request whose images may be processed.
pub(super) struct AdmittedRequest<C, O> {
    /// The context of the request, with the priority that its images have.
    pub context: RequestContext,
    /// What the body has.
    pub content: C,
    /// The options as sent.
    pub options: O,
    /// The reservations of the request.
    pub reservations: RequestReservations,
}

/// Reads the query and the body of a request.
///
/// # Errors
/// The error of a body that is refused or cannot be parsed, or one with everything that is wrong with its fields and with the
/// options.
pub(super) async fn read_request<C: Content, O: RequestOptions>(
    request: Request,
    state: &AppState,
) -> Result<ReadRequest<C, O>, ApiError> {
    let format = BodyFormat::of(request.headers())?;
    let query = SentOptions::from_query(request.uri().query().unwrap_or_default())?;
    // A request with one image can be refused before its body is read. Invalid options are reported after the body.
    let priority = match format {
        BodyFormat::Raw => {
            let options = query.clone().read::<O>().ok();
            options.map(|options| priority_of(state, options.priority(), 1))
        }
        BodyFormat::Multipart | BodyFormat::Json | BodyFormat::Msgpack => None,
    };
    let context = context::from_request(&request)?;
    let (admitted, request) = Admitted::admit_body(request, state, priority).await?;
    let mut body: ReadBody<C> = read_body(format, request, state, admitted.body()).await?;
    let mut errors = FieldErrors::from_fields(body.field_errors(&Shape::from_schema::<O>()));
    let options = query.overridden_by(body.options).read::<O>();
    let options = match (options, errors.errors.is_empty()) {
        (Ok(options), true) => options,
        (Err(options), true) => return Err(options.into()),
        (options, false) => {
            errors.errors.extend(
                options
                    .err()
                    .map_or_else(Vec::new, |options| options.errors),
            );
            return Err(errors.into());
        }
    };
    Ok(ReadRequest {
        context,
        content: body.content,
        options,
        admitted,
    })
}

impl<C, O: RequestOptions> ReadRequest<C, O> {
    /// Admits the images. `are_fetched` is whether one of them has a URL.
    ///
    /// # Errors
    /// [`ApiError::Overloaded`] if too many images wait.
    pub(super) fn admit(
        self,
        state: &AppState,
        images: usize,
        are_fetched: bool,
    ) -> Result<AdmittedRequest<C, O>, ApiError> {
        let Self {
            mut context,
            content,
            options,
            admitted,
        } = self;
        let (reservations, priority) =
            admitted.admit_images(state, options.priority(), images, are_fetched)?;
        context.priority = priority;
        Ok(AdmittedRequest {
            context,
            content,
            options,
            reservations,
        })
    }
}
