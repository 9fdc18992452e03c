//! Authenticates requests, and refuses those that may not use their route.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::AUTHORIZATION},
    middleware::Next,
    response::{IntoResponse, Response},
};
use facescan_audit::refusals::{RefusalKind, RefusedRequest};
use facescan_config::scope::Scope;
use facescan_pipeline::{
    admission::{AdmissionError, RequestPermit, response_reservation::ResponseReservation},
    context::{Principal, RequestContext, RequestId},
};
use facescan_telemetry::metrics::labels::Refusal;

use http_body_util::BodyExt;
use hyper::body::Body as _;

use crate::{
    access::{
        authenticator::require,
        error::AccessError,
        rate_limit::{RateLimitState, Usage},
    },
    http::{
        AppState,
        error::ApiError,
        extract::arriving::stated_length,
        middleware::local,
        route_scopes::{Requirement, RouteScopes},
        wrapped_body,
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
    let mut seen = Seen::new(&request);
    let mut admitted = Admitted::default();
    let principal = match requirement {
        Requirement::Open => Ok(None),
        _ => match local::check(&request, &state.config) {
            Ok(()) => {
                let sent = credential(request.headers());
                state.access.authenticate(sent).await.map(Some)
            }
            Err(error) => Err(error),
        },
    };
    seen.principal = principal.as_ref().ok().cloned().flatten();
    match principal.and_then(|principal| permitted(principal, requirement)) {
        Ok(None) => {}
        Ok(Some(principal)) => match Admitted::new(&state, &request, &principal, requirement) {
            Ok(new) => {
                if stated_length(request.headers()).is_none() {
                    request = charge_body(request, &state, &principal);
                }
                if let Some(context) = request.extensions_mut().get_mut::<RequestContext>() {
                    if let Some(key) = &principal.key_id {
                        context.span.record("tenant", &*principal.tenant);
                        context.span.record("key", &**key);
                    }
                    context.principal = principal;
                    context.response.clone_from(&new.response);
                }
                admitted = new;
            }
            Err(refused) => return *refused,
        },
        Err(error) => {
            let response = ApiError::from(error).into_response();
            seen.record(&state, response.status());
            return response;
        }
    }
    let response = next.run(request).await;
    seen.record(&state, response.status());
    admitted.finish(response)
}

/// What a request holds, and the limits of its caller.
#[derive(Default)]
struct Admitted {
    permit: Option<RequestPermit>,
    response: Option<ResponseReservation>,
    limits: Option<RateLimitState>,
}

impl Admitted {
    /// Lets a request in, with memory for its response. Figures are needed most when the server is full, so they need neither.
    ///
    /// Returns the response to a request that is refused.
    fn new(
        state: &AppState,
        request: &Request,
        principal: &Principal,
        requirement: Requirement,
    ) -> Result<Self, Box<Response>> {
        let mut admitted = Self::default();
        if !matches!(requirement, Requirement::Scope(Scope::Metrics)) {
            let entered = enter(state, &principal.tenant);
            let (permit, response) =
                entered.map_err(|full| Box::new(ApiError::from(full).into_response()))?;
            admitted.permit = Some(permit);
            admitted.response = Some(response);
        }
        let stated = stated_length(request.headers());
        let taken = state.rate_limits.take(principal, stated.unwrap_or(0));
        admitted.limits = taken.map_err(|error| Box::new(rate_limited(state, error)))?;
        Ok(admitted)
    }

    /// Adds the limits to a response. The client may take its time to read it: the request no longer counts then, and the
    /// response has memory of its own.
    fn finish(self, mut response: Response) -> Response {
        drop(self.permit);
        if let Some(reservation) = self.response {
            response = wrapped_body::hold(response, reservation);
        }
        if let Some(limits) = self.limits {
            for (name, value) in [(POLICY, limits.policy), (LEFT, limits.left)] {
                if let Ok(value) = HeaderValue::from_str(&value) {
                    response.headers_mut().insert(name, value);
                }
            }
        }
        response
    }
}

/// Lets a request of a tenant in, with memory for its response.
fn enter(
    state: &AppState,
    tenant: &Arc<str>,
) -> Result<(RequestPermit, ResponseReservation), AdmissionError> {
    let permit = state.admission.try_enter(tenant)?;
    Ok((permit, state.admission.try_reserve_response(tenant)?))
}

/// What the audit trail needs of a request if it is refused.
struct Seen {
    id: Option<RequestId>,
    route: Option<String>,
    principal: Option<Principal>,
}

impl Seen {
    fn new(request: &Request) -> Self {
        let path = request.extensions().get::<MatchedPath>();
        let context = request.extensions().get::<RequestContext>();
        Self {
            id: context.map(|context| context.id.clone()),
            route: path.map(|path| format!("{} {}", request.method(), path.as_str())),
            principal: None,
        }
    }

    /// Records the request if its status says that the caller was refused.
    fn record(&self, state: &AppState, status: StatusCode) {
        let kind = match status {
            StatusCode::UNAUTHORIZED => RefusalKind::Unauthorized,
            StatusCode::FORBIDDEN => RefusalKind::Forbidden,
            _ => return,
        };
        let (Some(id), Some(route)) = (&self.id, &self.route) else {
            return;
        };
        state.refusals.add(&RefusedRequest {
            principal: self.principal.as_ref(),
            kind,
            id,
            route,
        });
    }
}

/// Returns the response to a request beyond a limit, with the header that names the limit and the seconds to wait.
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

/// Checks that the principal, if the route is not open, has the scope of the route.
fn permitted(
    principal: Option<Principal>,
    requirement: Requirement,
) -> Result<Option<Principal>, AccessError> {
    if let (Some(principal), Requirement::Scope(scope)) = (&principal, requirement) {
        require(principal, scope)?;
    }
    Ok(principal)
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
