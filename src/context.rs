//! What travels with a request from the edge down to the last stage.

use std::{fmt, sync::Arc, time::Duration};

use facescan_clock::Clock;
use tracing::{Span, info_span};

use crate::admission::Priority;

/// The context of one request, of one chunk of a batch or of one run of the command line.
///
/// It is made once at the edge and passed down. No layer keeps a part of it in a global or in its own state.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The identifier in the answer and in every log line.
    pub id: RequestId,
    /// On whose behalf the work is done.
    pub principal: Principal,
    /// Which queue the images wait in.
    pub priority: Priority,
    /// When the answer has to be there, on the clock's monotonic time. `None` has no limit.
    pub deadline: Option<Duration>,
    /// The span of every log line that the request causes, on whichever thread.
    pub span: Span,
}

/// The identifier of a request: the caller's own or a new one. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

/// Whoever a request is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Whose stored rows are read and written.
    pub tenant: Arc<str>,
}

impl RequestContext {
    /// A context with a span of its own, interactive and without a deadline.
    pub fn new(id: RequestId, principal: Principal) -> Self {
        let span = info_span!("request", request_id = %id);
        Self {
            id,
            principal,
            priority: Priority::Interactive,
            deadline: None,
            span,
        }
    }
}

impl RequestId {
    /// An identifier that a caller sent.
    pub fn from_caller(id: &str) -> Self {
        Self(id.into())
    }

    /// A new identifier, which sorts by time.
    pub fn generate(clock: &dyn Clock) -> Self {
        Self(clock.new_id().to_string().into())
    }

    /// The identifier as text.
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
    /// The tenant's own principal.
    pub fn of_tenant(tenant: &str) -> Self {
        Self {
            tenant: tenant.into(),
        }
    }
}
