//! Headers that tell browsers what a response may do.

use axum::{
    extract::Request,
    http::{
        HeaderName, HeaderValue,
        header::{
            CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
        },
    },
    middleware::Next,
    response::Response,
};

/// The policy of all responses but the pages of the API: they load nothing, and no page shows them in a frame.
const OF_DATA: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");

/// The policy of the pages below `/docs`. They load only files of this server and send requests only to it. Swagger UI sets
/// styles in its elements, and shows images of responses from `blob:` and `data:`.
const OF_PAGES: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; \
     font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// Adds the headers to a response. A browser neither guesses its type nor puts it into a frame, and names its address to no
/// other site.
pub async fn add(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let policy = match path == "/docs" || path.starts_with("/docs/") {
        true => OF_PAGES,
        false => OF_DATA,
    };
    let mut response = next.run(request).await;
    let headers: [(HeaderName, HeaderValue); 4] = [
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    response.headers_mut().extend(headers);
    response
}
