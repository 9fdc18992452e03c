//! The context that a request carries through every layer.

use std::{fmt, sync::Arc, time::Duration};

use facescan_clock::Clock;
use facescan_config::scope::{Scope, Scopes};
use tracing::{Span, field::Empty, info_span};

use crate::admission::{Priority, response_reservation::ResponseReservation};

/// The context of one request, of one chunk of a batch, or of one run of the command line.
///
/// It is created once, at the edge, and passed down. No layer keeps a part of it in a global or in its own state.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The identifier that appears in the response and in every log line.
    pub id: RequestId,
    /// The principal that the work is done for.
    pub principal: Principal,
    /// The queue that the images wait in.
    pub priority: Priority,
    /// The monotonic time by which the response must be ready. `None` means no limit.
    pub deadline: Option<Duration>,
    /// The memory of the response. `None` if the response is stored, or if no caller waits for it.
    pub response: Option<ResponseReservation>,
    /// The span of every log line that the request causes, on every thread.
    pub span: Span,
}

/// The identifier of a request: the caller's identifier or a new one. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

/// The party that a request is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The tenant whose stored rows are read and written.
    pub tenant: Arc<str>,
    /// The id of the key that the caller sent. `None` if access is not controlled.
    pub key_id: Option<Arc<str>>,
    /// What the caller may do.
    pub scopes: Scopes,
}

impl RequestContext {
    /// Creates an interactive context with a new span and without a deadline.
    pub fn new(id: RequestId, principal: Principal) -> Self {
        let span = info_span!(
            "request",
            request_id = %id,
            tenant = Empty,
            key = Empty,
            trace_id = Empty,
            otel.name = Empty,
            otel.kind = Empty,
        );
        Self {
            id,
            principal,
            priority: Priority::Interactive,
            deadline: None,
            response: None,
            span,
        }
    }
}

impl RequestId {
    /// Uses the identifier that a caller sent.
    pub fn from_caller(id: &str) -> Self {
        Self(id.into())
    }

    /// Generates an identifier. Identifiers sort by time.
    pub fn generate(clock: &dyn Clock) -> Self {
        Self(clock.new_id().to_string().into())
    }

    /// Returns the identifier as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Principal {
    /// Creates the principal of work that no key is needed for. It may do everything for its tenant.
    pub fn of_tenant(tenant: &str) -> Self {
        Self {
            tenant: tenant.into(),
            key_id: None,
            scopes: Scope::ALL.into(),
        }
    }
}
