//! A request for a collection, or for something in a collection, by the ids in its path.

use std::collections::HashMap;

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use facescan_audit::{AuditError, AuditEvent};
use facescan_pipeline::context::RequestContext;
use facescan_recognition::error::RecognitionError;
use facescan_store::Collection;
use uuid::Uuid;

use crate::http::{AppState, error::ApiError, middleware::context::Context, respond::Accepted};

/// The names of ids in the path that follow the id of the collection.
const MEMBERS: [&str; 4] = ["subject", "enrollment", "person", "clustering"];

/// A request for a collection of the caller's tenant.
pub struct CollectionRequest {
    /// The application.
    pub state: AppState,
    /// The context of the request.
    pub context: RequestContext,
    /// The id of the collection.
    pub id: Uuid,
    /// The id of a subject, an enrollment, a person or a clustering, if the path has one.
    pub member: Option<Uuid>,
    /// The format that the caller accepts.
    pub accepted: Accepted,
}

impl CollectionRequest {
    /// Reads the collection.
    ///
    /// # Errors
    /// [`RecognitionError::NoCollection`] if the tenant has none with this id.
    pub async fn collection(&self) -> Result<Collection, RecognitionError> {
        self.state.collections.of(&self.context, self.id).await
    }

    /// Reads the collection, which is a library.
    ///
    /// # Errors
    /// As [`collection`](Self::collection), or [`RecognitionError::NoLibrary`].
    pub async fn library(&self) -> Result<Collection, RecognitionError> {
        self.state.libraries.of(&self.context, self.id).await
    }

    /// Records what the request reads, if the settings say so.
    ///
    /// # Errors
    /// [`AuditError`] if it cannot be recorded.
    pub async fn record_read(
        &self,
        action: &'static str,
        target: Uuid,
        details: serde_json::Value,
    ) -> Result<(), AuditError> {
        let event = AuditEvent::read(action, target).with(details);
        self.state.audit.record(&self.context, event).await
    }

    /// Returns the id of the subject, the enrollment, the person or the clustering.
    ///
    /// # Errors
    /// [`ApiError::Internal`] if the route has none.
    pub fn member(&self) -> Result<Uuid, ApiError> {
        let missing = || ApiError::Internal("the path of the route has one id only".to_owned());
        self.member.ok_or_else(missing)
    }
}

impl FromRequestParts<AppState> for CollectionRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let Context(context) = Context::from_request_parts(parts, state).await?;
        let path = Path::<HashMap<String, String>>::from_request_parts(parts, state).await;
        // A malformed id cannot belong to anything stored, so the answer is also 404.
        let Path(ids) = path.map_err(|_| {
            ApiError::NotFound("an id in the path is not valid text; ids are UUIDs".to_owned())
        })?;
        let parse = |text: &String| {
            text.parse()
                .map_err(|_| ApiError::NotFound(format!("`{text}` is not an id; ids are UUIDs")))
        };
        let id = ids.get("id").map(parse).transpose()?;
        let member = MEMBERS.iter().find_map(|name| ids.get(*name));
        Ok(Self {
            state: AppState::clone(state),
            context,
            id: id.unwrap_or_default(),
            member: member.map(parse).transpose()?,
            accepted: Accepted::structured(&parts.headers),
        })
    }
}
