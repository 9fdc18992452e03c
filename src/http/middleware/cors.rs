//! Allows web pages of other origins to send requests.

use std::{collections::BTreeSet, time::Duration};

use axum::http::{
    HeaderName, HeaderValue, Method,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use facescan_telemetry::traces::TRACERESPONSE;
use tower_http::cors::CorsLayer;
use utoipa::openapi::{OpenApi, RefOr, Response};

use super::{access, access_log, context, deadline};
use crate::http::openapi::routes::by_method;

/// How long a browser remembers what is allowed.
const MAX_AGE: Duration = Duration::from_secs(600);

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Returns the layer for some origins, whose pages may read the headers of responses.
pub fn layer(origins: &[String], response_headers: Vec<HeaderName>) -> CorsLayer {
    let origins: Vec<HeaderValue> = origins
        .iter()
        .filter_map(|origin| origin.parse().ok())
        .collect();
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
        ])
        .allow_headers([
            AUTHORIZATION,
            CONTENT_TYPE,
            access::API_KEY,
            context::HEADER,
            deadline::HEADER,
            IDEMPOTENCY_KEY,
            LAST_EVENT_ID,
        ])
        .expose_headers(response_headers)
        .max_age(MAX_AGE)
}

/// Returns the headers that a document has for the responses of any route, and those that every response can have.
pub fn response_headers(document: &OpenApi) -> Vec<HeaderName> {
    let operations = document.paths.paths.values().flat_map(by_method);
    let own = operations.flat_map(|(_, operation)| operation.responses.responses.values());
    let components = document.components.iter();
    let shared = components.flat_map(|components| components.responses.values());
    let mut names: BTreeSet<&str> = own.chain(shared).flat_map(header_names).collect();
    let always = [
        context::HEADER,
        access::POLICY,
        access::LEFT,
        access_log::TOTAL_TIME,
        TRACERESPONSE,
    ];
    names.extend(always.iter().map(HeaderName::as_str));
    names
        .into_iter()
        .filter_map(|name| name.parse().ok())
        .collect()
}

fn header_names(response: &RefOr<Response>) -> impl Iterator<Item = &str> {
    let headers = match response {
        RefOr::T(response) => Some(&response.headers),
        RefOr::Ref(_) => None,
    };
    headers.into_iter().flatten().map(|(name, _)| name.as_str())
}
