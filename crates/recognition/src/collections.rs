//! Collections: people whose faces were enrolled, with a purpose, a legal basis and a retention.
//!
//! A scan never adds to a collection. [`enroll`] adds faces, [`search`] compares a face with all faces of a collection, and
//! [`terms`] checks what a caller wants to write. The server erases them.

pub mod candidates;
pub(crate) mod disclosure;
pub mod enroll;
mod quota;
pub(crate) mod rejection;
pub mod search;
pub mod similar;
pub(crate) mod sweep;
pub mod terms;

use std::sync::Arc;

use facescan_audit::AuditLog;
use facescan_clock::Clock;
use facescan_pipeline::context::RequestContext;
use facescan_store::{Collection, CollectionKey, CollectionKind, Store};
use uuid::Uuid;

use super::{calibration::Calibrations, error::RecognitionError, index::FaceIndex};

/// The collections of all tenants. Cheap to clone.
#[derive(Clone)]
pub struct Collections {
    /// The collections in the database.
    pub store: Store,
    /// The index of their faces.
    pub index: Arc<dyn FaceIndex>,
    /// The error rates of the embedders.
    pub calibrations: Arc<Calibrations>,
    /// Records who changes and searches collections.
    pub audit: AuditLog,
    /// The purposes that the settings allow.
    pub purposes: Arc<[String]>,
    /// The highest false accept rate of a search. It decides the lowest threshold.
    pub max_search_far: f64,
    /// The most searches of a caller in 24 hours. 0 is no limit.
    pub max_searches_per_day: u32,
    /// The clock that decides whose time is over.
    pub clock: Arc<dyn Clock>,
}

impl Collections {
    /// Returns a collection of the caller's tenant.
    ///
    /// # Errors
    /// [`RecognitionError::NoCollection`] if there is none with this id, or an error of the database.
    pub async fn of(
        &self,
        context: &RequestContext,
        id: Uuid,
    ) -> Result<Collection, RecognitionError> {
        let key = CollectionKey {
            tenant: &context.principal.tenant,
            id,
        };
        let collection = self.store.collection(key).await?;
        collection.ok_or(RecognitionError::NoCollection(id))
    }

    /// Checks that the settings still allow the purpose of a collection.
    ///
    /// # Errors
    /// [`RecognitionError::PurposeNotAllowed`] if they do not.
    pub fn check_purpose(&self, collection: &Collection) -> Result<(), RecognitionError> {
        let purpose = &collection.terms.purpose;
        match self.purposes.contains(purpose) {
            true => Ok(()),
            false => Err(RecognitionError::PurposeNotAllowed(purpose.clone())),
        }
    }

    /// Returns the cosine from which a face is that of a person in a collection, at the rate of the collection. `None` if its
    /// vector space has no calibration.
    fn own_threshold(&self, collection: &Collection) -> Option<f32> {
        let calibration = self.calibrations.of(&collection.vector_space)?;
        let threshold = calibration.threshold(collection.terms.far)?;
        let step = match collection.kind {
            // In doubt, a person who objected is recognized.
            CollectionKind::Suppression => disclosure::round_down(threshold),
            CollectionKind::Gallery | CollectionKind::Library => disclosure::round_up(threshold),
        };
        Some(step.max(self.lowest_threshold(collection)))
    }

    /// Returns the lowest threshold at which faces are compared with those of a collection.
    fn lowest_threshold(&self, collection: &Collection) -> f32 {
        let calibration = self.calibrations.of(&collection.vector_space);
        disclosure::floor(calibration, self.max_search_far)
    }
}

/// Returns the key of a collection.
pub fn key(collection: &Collection) -> CollectionKey<'_> {
    CollectionKey {
        tenant: &collection.tenant,
        id: collection.id,
    }
}
