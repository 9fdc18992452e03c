//! Enrollment in a library: faces of images are added without a subject.

use facescan_audit::AuditEvent;
use facescan_pipeline::context::RequestContext;
use facescan_store::{Collection, Enrolled, NewEnrollment};
use serde_json::json;
use uuid::Uuid;

use crate::{
    collections::{Collections, key, search::has_vector_space},
    error::RecognitionError,
    verify::FaceVector,
};

/// A face to be enrolled in a library.
#[derive(Clone, Debug, PartialEq)]
pub struct FaceForLibrary {
    /// The vector.
    pub vector: FaceVector,
    /// The stored face that it belongs to.
    pub face_id: Option<Uuid>,
    /// Whether the quality suffices to found a person. Other faces can only be added to people.
    pub is_acceptable: bool,
}

/// What becomes of a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LibraryOutcome {
    /// It is enrolled, with this id.
    Enrolled(Uuid),
    /// The vector has another vector space than the library.
    VectorSpaceMismatch,
    /// The person is in a suppression collection.
    Suppressed,
}

impl Collections {
    /// Enrolls the faces of images. Returns one outcome for each face of each image, in order.
    ///
    /// If the tenant has suppression collections, each face is a search of the caller.
    ///
    /// # Errors
    /// Returns an error, and enrolls nothing, if the settings do not allow the purpose, a stored face was erased, the caller has
    /// not so many searches left, or the database fails.
    pub async fn enroll_in_library(
        &self,
        context: &RequestContext,
        library: &Collection,
        images: Vec<Vec<FaceForLibrary>>,
    ) -> Result<Vec<Vec<LibraryOutcome>>, RecognitionError> {
        self.check_purpose(library)?;
        let suppressions = self.suppressions(library).await?;
        let searches = match suppressions.is_empty() {
            true => 0,
            false => comparable(library, images.iter().flatten()).count(),
        };
        self.take_searches(context, searches).await?;
        let mut outcomes = Vec::with_capacity(images.len());
        let mut accepted = Vec::new();
        for faces in images {
            // Faces of one image never show the same person.
            let image_id = (faces.len() > 1).then(|| self.clock.new_id());
            let suppressed = self.are_suppressed(library, &suppressions, &faces).await?;
            let mut of_image = Vec::with_capacity(faces.len());
            for (face, is_suppressed) in faces.into_iter().zip(suppressed) {
                let outcome = self.judge(library, (&face, is_suppressed))?;
                if let LibraryOutcome::Enrolled(id) = outcome {
                    accepted.push(NewEnrollment {
                        id,
                        face_id: face.face_id,
                        image_id,
                        is_acceptable: face.is_acceptable,
                        vector: face.vector.values,
                    });
                }
                of_image.push(outcome);
            }
            outcomes.push(of_image);
        }
        let event = enroll_event(library, searches, &outcomes);
        let event = self.audit.entry(context, event);
        let now = self.clock.now();
        let enrolled = self
            .store
            .enroll((key(library), None), &accepted, now, event)
            .await?;
        match enrolled {
            Enrolled::Done => Ok(outcomes),
            Enrolled::NoFace => Err(RecognitionError::FaceErased),
            Enrolled::NotFound | Enrolled::NotLive => {
                Err(RecognitionError::NoCollection(library.id))
            }
        }
    }

    /// Returns for each face whether it is that of a person in a suppression collection.
    async fn are_suppressed(
        &self,
        library: &Collection,
        suppressions: &[Collection],
        faces: &[FaceForLibrary],
    ) -> Result<Vec<bool>, RecognitionError> {
        let vectors = comparable(library, faces).map(|face| &face.vector.values[..]);
        let vectors: Vec<&[f32]> = vectors.collect();
        let suppressed = self.suppressed(suppressions, &vectors).await?;
        let mut suppressed = suppressed.into_iter();
        let mut of_face = |face| is_comparable(library, face) && suppressed.next().unwrap_or(false);
        Ok(faces.iter().map(&mut of_face).collect())
    }

    fn judge(
        &self,
        library: &Collection,
        (face, is_suppressed): (&FaceForLibrary, bool),
    ) -> Result<LibraryOutcome, RecognitionError> {
        Ok(match has_vector_space(library, &face.vector)? {
            false => LibraryOutcome::VectorSpaceMismatch,
            true if is_suppressed => LibraryOutcome::Suppressed,
            true => LibraryOutcome::Enrolled(self.clock.new_id()),
        })
    }
}

fn is_comparable(library: &Collection, face: &FaceForLibrary) -> bool {
    matches!(has_vector_space(library, &face.vector), Ok(true))
}

/// Returns the faces that can be compared with those of the suppression collections of a library.
fn comparable<'a>(
    library: &Collection,
    faces: impl IntoIterator<Item = &'a FaceForLibrary>,
) -> impl Iterator<Item = &'a FaceForLibrary> {
    let faces = faces.into_iter();
    faces.filter(|face| is_comparable(library, face))
}

/// Returns the entry of an enrollment.
fn enroll_event(
    library: &Collection,
    searches: usize,
    outcomes: &[Vec<LibraryOutcome>],
) -> AuditEvent {
    let outcomes = || outcomes.iter().flatten();
    let is_enrolled = |outcome: &&LibraryOutcome| matches!(outcome, LibraryOutcome::Enrolled(_));
    let suppressed = outcomes().filter(|outcome| **outcome == LibraryOutcome::Suppressed);
    let suppressed = suppressed.count();
    let details = json!({
        "enrolled": outcomes().filter(is_enrolled).count(),
        "suppressed": suppressed,
        "searches": searches,
    });
    let event = AuditEvent::change("enroll_in_library", library.id).with(details);
    event.with_searches(searches)
}
