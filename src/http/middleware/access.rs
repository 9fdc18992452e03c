//! Authenticates requests, and refuses those that may not use their route.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION},
    middleware::Next,
    response::{IntoResponse, Response},
};

use http_body_util::BodyExt;
use hyper::body::Body as _;

use crate::{
    access::{error::AccessError, rate_limit::Usage},
    context::{Principal, RequestContext},
    http::{
        AppState,
        error::ApiError,
        extract::admitted::stated_length,
        middleware::local,
        route_scopes::{Requirement, RouteScopes},
    },
    telemetry::metrics::labels::Refusal,
};

/// A header that can have the key.
pub const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The limits of the caller: see draft-ietf-httpapi-ratelimit-headers.
pub const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// What is left of the limits.
pub const LEFT: HeaderName = HeaderName::from_static("ratelimit");

/// Puts the principal into the context of a request.
pub async fn authorize(
    State((state, scopes)): State<(AppState, Arc<RouteScopes>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    // A request without a route is answered with 404.
    let requirement = path.map_or(Requirement::Open, |path| {
        scopes.requirement(request.method(), path.as_str())
    });
    let mut limits = None;
    let principal = match requirement {
        Requirement::Open => Ok(None),
        _ => match local::check(&request, &state.config) {
            Ok(()) => principal(&state, requirement, request.headers()).await,
            Err(error) => Err(error),
        },
    };
    match principal {
        Ok(None) => {}
        Ok(Some(principal)) => {
            let stated = stated_length(request.headers());
            match state.rate_limits.take(&principal, stated.unwrap_or(0)) {
                Ok(state) => limits = state,
                Err(error) => return rate_limited(&state, error),
            }
            if stated.is_none() {
                request = charge_body(request, &state, &principal);
            }
            if let Some(context) = request.extensions_mut().get_mut::<RequestContext>() {
                if let Some(key) = &principal.key_id {
                    context.span.record("tenant", &*principal.tenant);
                    context.span.record("key", &**key);
                }
                context.principal = principal;
            }
        }
        Err(error) => return ApiError::from(error).into_response(),
    }
    let mut response = next.run(request).await;
    if let Some(limits) = limits {
        for (name, value) in [(POLICY, limits.policy), (LEFT, limits.left)] {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
    }
    response
}

/// Returns the answer to a request beyond a limit, with the header that names the limit and the seconds to wait.
fn rate_limited(state: &AppState, error: AccessError) -> Response {
    state.metrics.refused(Refusal::RateLimit);
    let left = match &error {
        AccessError::RateLimited { limit, retry_after } => {
            let seconds = retry_after.as_secs_f64().ceil().max(1.0);
            HeaderValue::from_str(&format!("\"{limit}\";r=0;t={seconds}")).ok()
        }
        _ => None,
    };
    let mut response = ApiError::from(error).into_response();
    if let Some(left) = left {
        response.headers_mut().insert(LEFT, left);
    }
    response
}

/// Takes the bytes of a body without a stated length from the limits of the caller, as they arrive.
fn charge_body(request: Request, state: &AppState, principal: &Principal) -> Request {
    if request.body().is_end_stream() {
        return request;
    }
    let (state, principal) = (AppState::clone(state), principal.clone());
    request.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
            state.rate_limits.charge(&principal, Usage::Bytes(bytes));
            frame
        }))
    })
}

/// Returns the principal of a request, or `None` if its route is open.
async fn principal(
    state: &AppState,
    requirement: Requirement,
    headers: &HeaderMap,
) -> Result<Option<Principal>, AccessError> {
    if requirement == Requirement::Open {
        return Ok(None);
    }
    let principal = state.access.authenticate(credential(headers)).await?;
    if let Requirement::Scope(scope) = requirement {
        principal.require(scope)?;
    }
    Ok(Some(principal))
}

/// Returns the credential of a request. The scheme of `authorization` has any case.
pub(in crate::http) fn credential(headers: &HeaderMap) -> Option<&str> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok();
    text(AUTHORIZATION)
        .and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        })
        .or_else(|| text(API_KEY))
}
