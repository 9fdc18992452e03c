//! Libraries: collections whose faces are grouped into people.
//!
//! The faces of a library belong to no subject. [`enroll`] adds faces of images, [`clustering`] groups them, and users merge,
//! split and name the people that it finds. `worker` runs the clusterings that were requested.
//!
//! A decision of a user pins faces to a person, and no clustering changes pinned faces.

pub mod clustering;
pub mod enroll;
pub mod neighbors;
pub(crate) mod worker;

use facescan_audit::AuditEvent;
use facescan_pipeline::{context::RequestContext, core::error::InvalidOption};
use facescan_store::{Collection, CollectionKind, Decided, Decision};
use serde_json::json;
use uuid::Uuid;

use super::{
    collections::{Collections, key},
    error::RecognitionError,
};

impl Collections {
    /// Returns a library of the caller's tenant.
    ///
    /// # Errors
    /// [`RecognitionError::NoCollection`] if there is none with this id, or [`RecognitionError::NoLibrary`] if it is another
    /// kind of collection.
    pub async fn library(
        &self,
        context: &RequestContext,
        id: Uuid,
    ) -> Result<Collection, RecognitionError> {
        let collection = self.of(context, id).await?;
        match collection.kind {
            CollectionKind::Library => Ok(collection),
            CollectionKind::Gallery | CollectionKind::Suppression => {
                Err(RecognitionError::NoLibrary(id))
            }
        }
    }

    /// Stores what a user decides about people.
    ///
    /// # Errors
    /// Returns an error if a person or a face does not exist, or if the database fails.
    pub async fn decide(
        &self,
        context: &RequestContext,
        library: &Collection,
        decision: &Decision,
    ) -> Result<(), RecognitionError> {
        let event = decision_event(library, decision);
        let event = self.audit.entry(context, event);
        let now = self.clock.now();
        let decided = self
            .store
            .decide(key(library), decision, now, event)
            .await?;
        match decided {
            Decided::Done => Ok(()),
            Decided::NoCollection => Err(RecognitionError::NoCollection(library.id)),
            Decided::NoPerson(id) => Err(RecognitionError::NoPerson(id)),
            Decided::NobodyLeft => {
                let detail = "must leave the person a face; rename the person instead";
                Err(InvalidOption::new("faces", detail).into())
            }
            Decided::NoFace(id) => Err(RecognitionError::NoEnrollment(id)),
        }
    }
}

/// Returns the audit entry of a decision. It has no name of a person.
fn decision_event(library: &Collection, decision: &Decision) -> AuditEvent {
    let (action, details) = match decision {
        Decision::Rename { person, .. } => ("rename_person", json!({"person": person})),
        Decision::Merge { into, people } => {
            ("merge_people", json!({"into": into, "people": people}))
        }
        Decision::Split { person, faces, new } => (
            "split_person",
            json!({"person": person, "faces": faces, "new": new}),
        ),
        Decision::Assign { face, person } => {
            ("assign_face", json!({"face": face, "person": person}))
        }
        Decision::Unpin { face } => ("unpin_face", json!({"face": face})),
    };
    AuditEvent::change(action, library.id).with(details)
}
