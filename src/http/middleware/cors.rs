//! Allows web pages of other origins to send requests.

use std::time::Duration;

use axum::http::{
    HeaderName, HeaderValue, Method,
    header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER},
};
use facescan_telemetry::traces::TRACERESPONSE;
use tower_http::cors::CorsLayer;

use super::{access, access_log, context, deadline};
use crate::http::handlers::single_image;

/// How long a browser remembers what is allowed.
const MAX_AGE: Duration = Duration::from_secs(600);

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Returns the layer for some origins.
pub fn layer(origins: &[String]) -> CorsLayer {
    let origins: Vec<HeaderValue> = origins
        .iter()
        .filter_map(|origin| origin.parse().ok())
        .collect();
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers([
            AUTHORIZATION,
            CONTENT_TYPE,
            access::API_KEY,
            context::HEADER,
            deadline::HEADER,
            IDEMPOTENCY_KEY,
            LAST_EVENT_ID,
        ])
        .expose_headers([
            context::HEADER,
            RETRY_AFTER,
            access::POLICY,
            access::LEFT,
            access_log::TOTAL_TIME,
            single_image::STEPS,
            TRACERESPONSE,
        ])
        .max_age(MAX_AGE)
}
