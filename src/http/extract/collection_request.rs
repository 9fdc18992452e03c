//! A request for a collection, or for something in a collection, by the ids in its path.

use std::{collections::HashMap, ops::Deref};

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use facescan_audit::AuditEvent;
use facescan_recognition::error::RecognitionError;
use facescan_store::Collection;
use uuid::Uuid;

use super::api_request::{ApiRequest, id};
use crate::http::{AppState, error::ApiError};

/// The names of ids in the path that follow the id of the collection.
const MEMBERS: [&str; 4] = ["subject", "enrollment", "person", "clustering"];

/// A request for a collection of the caller's tenant.
pub struct CollectionRequest {
    request: ApiRequest,
    /// The id of the collection.
    pub id: Uuid,
    /// The id of a subject, an enrollment, a person or a clustering, if the path has one.
    member: Option<Uuid>,
}

impl Deref for CollectionRequest {
    type Target = ApiRequest;

    fn deref(&self) -> &ApiRequest {
        &self.request
    }
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
        self.state.collections.library(&self.context, self.id).await
    }

    /// Records what the request reads, if the settings say so.
    ///
    /// # Errors
    /// Returns an error if the audit trail cannot be written.
    pub async fn record_read(
        &self,
        action: &'static str,
        target: Uuid,
        details: serde_json::Value,
    ) -> Result<(), ApiError> {
        self.record(AuditEvent::read(action, target).with(details))
            .await
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
        let request = ApiRequest::from_request_parts(parts, state).await?;
        let path = Path::<HashMap<String, String>>::from_request_parts(parts, state).await;
        let Path(ids) = path.map_err(|_| {
            ApiError::NotFound("an id in the path is not valid text; ids are UUIDs".to_owned())
        })?;
        let collection = ids.get("id").map(|text| id(text)).transpose()?;
        let member = MEMBERS.iter().find_map(|name| ids.get(*name));
        Ok(Self {
            request,
            id: collection.unwrap_or_default(),
            member: member.map(|text| id(text)).transpose()?,
        })
    }
}
