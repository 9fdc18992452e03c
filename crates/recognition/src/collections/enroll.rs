//! Enrollment: faces are added to a subject, if they are good enough and belong to nobody else.

use facescan_audit::AuditEvent;
use facescan_pipeline::{context::RequestContext, core::error::InvalidOption};
use facescan_store::{Collection, CollectionKind, Enrolled, NewEnrollment};
use serde_json::json;
use uuid::Uuid;

use super::{
    Collections,
    disclosure::round_down,
    key,
    search::has_vector_space,
    similar::{SimilarFace, Wanted},
};
use crate::{error::RecognitionError, verify::FaceVector};

pub use super::rejection::Rejection;

/// The most similar faces that are looked at for a conflict. All but one can belong to the subject itself.
const NEIGHBORS: usize = 2;

/// A vector to be enrolled.
#[derive(Clone, Debug, PartialEq)]
pub struct FaceToEnroll {
    /// The vector.
    pub vector: FaceVector,
    /// The stored face that it belongs to.
    pub face_id: Option<Uuid>,
}

/// What becomes of a face: it is enrolled with this id, or not enrolled.
pub type EnrollOutcome = Result<Uuid, Rejection>;

/// A subject of a collection, and how its faces are enrolled.
#[derive(Clone, Copy, Debug)]
pub struct EnrollTarget<'a> {
    /// The collection.
    pub collection: &'a Collection,
    /// The subject.
    pub subject: Uuid,
    /// Whether a face that is similar to one of another subject is enrolled nevertheless.
    pub allow_conflicts: bool,
}

impl Collections {
    /// Checks that faces of a subject can be enrolled now.
    ///
    /// # Errors
    /// Returns an error if the settings do not allow the purpose, or the subject does not exist or may not be enrolled.
    pub async fn check_target(&self, target: EnrollTarget<'_>) -> Result<(), RecognitionError> {
        self.check_purpose(target.collection)?;
        let now = self.clock.now();
        let of = key(target.collection);
        let checked = self.store.check_subject(of, target.subject, now).await?;
        done(checked, target.subject)
    }

    /// Enrolls the faces that are not rejected. Returns one outcome for each face, in order. The audit trail has the outcomes
    /// before this returns. Each face that is compared with other people is a search of the caller.
    ///
    /// # Errors
    /// Returns an error, and enrolls nothing, if the subject does not exist, may not be enrolled, the caller has not so many
    /// searches left, or the database fails.
    pub async fn enroll(
        &self,
        context: &RequestContext,
        target: EnrollTarget<'_>,
        faces: Vec<Result<FaceToEnroll, Rejection>>,
    ) -> Result<Vec<EnrollOutcome>, RecognitionError> {
        let faces = faces.into_iter().map(|face| match face {
            Ok(face) => match has_vector_space(target.collection, &face.vector)? {
                true => Ok(Ok(face)),
                false => Ok(Err(Rejection::VectorSpaceMismatch)),
            },
            Err(rejection) => Ok(Err(rejection)),
        });
        let faces: Vec<Result<FaceToEnroll, Rejection>> =
            faces.collect::<Result<_, InvalidOption>>()?;
        let comparison = self.comparison(target).await?;
        let searches = match comparison.compares() {
            true => faces.iter().filter(|face| face.is_ok()).count(),
            false => 0,
        };
        self.take_searches(context, searches).await?;
        let mut outcomes = Vec::with_capacity(faces.len());
        let mut accepted = Vec::new();
        for face in faces {
            let checked = match face {
                Ok(face) => self.check(target, &comparison, face).await?,
                Err(rejection) => Err(rejection),
            };
            outcomes.push(checked.map(|face| {
                let id = self.clock.new_id();
                accepted.push(NewEnrollment {
                    id,
                    face_id: face.face_id,
                    image_id: None,
                    is_acceptable: true,
                    vector: face.vector.values,
                });
                id
            }));
        }
        let event = enroll_event(target, searches, &outcomes);
        let event = self.audit.entry(context, event);
        let subject = (key(target.collection), Some(target.subject));
        let now = self.clock.now();
        let enrolled = self.store.enroll(subject, &accepted, now, event).await?;
        done(enrolled, target.subject)?;
        Ok(outcomes)
    }

    /// Returns whom the faces of a target are compared with.
    async fn comparison(&self, target: EnrollTarget<'_>) -> Result<Comparison, RecognitionError> {
        let collection = target.collection;
        if collection.kind == CollectionKind::Suppression {
            return Ok(Comparison::default());
        }
        Ok(Comparison {
            suppressions: self.suppressions(collection).await?,
            // Without a calibration nobody knows which similarity is too high.
            conflict_from: match target.allow_conflicts {
                true => None,
                false => self.own_threshold(collection),
            },
        })
    }

    /// Checks a face against the collection and the suppression collections.
    async fn check(
        &self,
        target: EnrollTarget<'_>,
        comparison: &Comparison,
        face: FaceToEnroll,
    ) -> Result<Result<FaceToEnroll, Rejection>, RecognitionError> {
        let suppressed = self
            .suppressed(&comparison.suppressions, &[&face.vector.values])
            .await?;
        if suppressed.contains(&true) {
            return Ok(Err(Rejection::Suppressed));
        }
        let Some(threshold) = comparison.conflict_from else {
            return Ok(Ok(face));
        };
        let conflict = self.conflict(target, &face.vector, threshold).await?;
        Ok(conflict.map_or(Ok(face), Err))
    }

    /// Returns the most similar other subject, if it reaches the threshold.
    async fn conflict(
        &self,
        target: EnrollTarget<'_>,
        vector: &FaceVector,
        threshold: f32,
    ) -> Result<Option<Rejection>, RecognitionError> {
        let collection = target.collection;
        let wanted = Wanted {
            threshold,
            limit: NEIGHBORS,
            by_subject: true,
            must_be_exact: false,
        };
        let found = self.similar(collection, &vector.values, wanted).await?;
        let conflict = |face: &SimilarFace| {
            let subject_id = face.row.enrollment.subject_id?;
            (subject_id != target.subject).then_some(Rejection::Conflict {
                subject_id,
                similarity: round_down(face.similarity),
            })
        };
        Ok(found.faces.iter().find_map(conflict))
    }
}

/// Whom new faces are compared with.
#[derive(Debug, Default)]
struct Comparison {
    /// The people who must not be enrolled.
    suppressions: Vec<Collection>,
    /// The cosine from which a face of another subject is a conflict. `None` if conflicts are not looked for.
    conflict_from: Option<f32>,
}

impl Comparison {
    fn compares(&self) -> bool {
        !self.suppressions.is_empty() || self.conflict_from.is_some()
    }
}

fn done(enrolled: Enrolled, subject: Uuid) -> Result<(), RecognitionError> {
    match enrolled {
        Enrolled::Done => Ok(()),
        Enrolled::NoFace => Err(RecognitionError::FaceErased),
        Enrolled::NotLive => Err(RecognitionError::NotLive(subject)),
        Enrolled::NotFound => Err(RecognitionError::NoSubject(subject)),
    }
}

/// Returns the entry of an enrollment.
fn enroll_event(
    target: EnrollTarget<'_>,
    searches: usize,
    outcomes: &[EnrollOutcome],
) -> AuditEvent {
    let (mut enrollments, mut conflicts, mut suppressed) = (Vec::new(), Vec::new(), 0);
    for outcome in outcomes {
        match outcome {
            Ok(id) => enrollments.push(*id),
            Err(Rejection::Conflict { subject_id, .. }) => conflicts.push(*subject_id),
            Err(Rejection::Suppressed) => suppressed += 1,
            Err(_) => {}
        }
    }
    let details = json!({
        "subject": target.subject,
        "searches": searches,
        "enrollments": enrollments,
        "conflicts": conflicts,
        "suppressed": suppressed,
    });
    let event = AuditEvent::change("enroll", target.collection.id).with(details);
    event.with_searches(searches)
}
