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
        route_scopes::{Requirement, RouteScopes},
    },
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
    match principal(&state, requirement, request.headers()).await {
        Ok(None) => {}
        Ok(Some(principal)) => {
            let stated = stated_length(request.headers());
            match state.rate_limits.take(&principal, stated.unwrap_or(0)) {
                Ok(state) => limits = state,
                Err(error) => return ApiError::from(error).into_response(),
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
fn credential(headers: &HeaderMap) -> Option<&str> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok();
    text(AUTHORIZATION)
        .and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        })
        .or_else(|| text(API_KEY))
}
