//! Enrolment: faces are added to a subject, if they are good enough and belong to nobody else.

use facescan_imaging::quality::acceptance::Reason;
use facescan_store::{Collection, CollectionKind, Enrolled, NewEnrolment};
use serde_json::json;
use uuid::Uuid;

use super::{
    Collections, key,
    search::check_vector,
    similar::{SimilarFace, Wanted},
};
use crate::{
    audit::AuditEvent,
    config::AuditLevel,
    context::RequestContext,
    pipeline::answer::ErrorEntry,
    recognition::{error::RecognitionError, verify::FaceVector},
};

/// The most similar faces that are looked at for a conflict. All but one can belong to the subject itself.
const NEIGHBOURS: usize = 2;

/// A vector to be enrolled.
#[derive(Clone, Debug, PartialEq)]
pub struct FaceToEnrol {
    /// The vector.
    pub vector: FaceVector,
    /// The stored face that it belongs to.
    pub face_id: Option<Uuid>,
}

/// What becomes of a face.
#[derive(Clone, Debug, PartialEq)]
pub enum EnrolOutcome {
    /// It is enrolled, with this id.
    Enrolled(Uuid),
    /// It is not enrolled.
    Rejected(Rejection),
}

/// Why a face is not enrolled.
#[derive(Clone, Debug, PartialEq)]
pub enum Rejection {
    /// No face was found in the image.
    NoFace,
    /// The image shows several faces, and the options do not say which one is meant.
    SeveralFaces {
        /// The number of faces.
        faces: usize,
    },
    /// The quality is too low for the preset.
    LowQuality {
        /// The measures that are out of range.
        reasons: Vec<Reason>,
    },
    /// The vector has another contract than the collection.
    ContractMismatch,
    /// Another subject of the collection has a similar face.
    Conflict {
        /// The subject.
        subject_id: Uuid,
        /// The cosine.
        similarity: f32,
    },
    /// The person is in a suppression collection.
    Suppressed,
    /// The image has no result.
    Image(ErrorEntry),
}

impl Rejection {
    /// Returns the name in answers.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoFace => "no_face",
            Self::SeveralFaces { .. } => "several_faces",
            Self::LowQuality { .. } => "low_quality",
            Self::ContractMismatch => "contract_mismatch",
            Self::Conflict { .. } => "conflict",
            Self::Suppressed => "suppressed",
            Self::Image(_) => "image",
        }
    }
}

/// A subject of a collection, and how its faces are enrolled.
#[derive(Clone, Copy, Debug)]
pub struct EnrolTarget<'a> {
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
    pub async fn check_target(&self, target: EnrolTarget<'_>) -> Result<(), RecognitionError> {
        self.check_purpose(target.collection)?;
        let now = self.clock.now();
        let of = key(target.collection);
        let checked = self.store.check_subject(of, target.subject, now).await?;
        done(checked, target.subject)
    }

    /// Enrols the faces that are not rejected. Returns one outcome for each face, in order. The audit trail has the outcomes
    /// before this returns.
    ///
    /// # Errors
    /// Returns an error, and enrols nothing, if the subject does not exist, may not be enrolled, or the database fails.
    pub async fn enrol(
        &self,
        context: &RequestContext,
        target: EnrolTarget<'_>,
        faces: Vec<Result<FaceToEnrol, Rejection>>,
    ) -> Result<Vec<EnrolOutcome>, RecognitionError> {
        let mut outcomes = Vec::with_capacity(faces.len());
        let mut accepted = Vec::new();
        for face in faces {
            let checked = match face {
                Ok(face) => self.check(target, face).await?,
                Err(rejection) => Err(rejection),
            };
            outcomes.push(match checked {
                Ok(face) => {
                    let id = self.clock.new_id();
                    accepted.push(NewEnrolment {
                        id,
                        face_id: face.face_id,
                        image_id: None,
                        is_acceptable: true,
                        vector: face.vector.values,
                    });
                    EnrolOutcome::Enrolled(id)
                }
                Err(rejection) => EnrolOutcome::Rejected(rejection),
            });
        }
        let event = self.audit.entry(context, enrol_event(target, &outcomes));
        let subject = (key(target.collection), Some(target.subject));
        let now = self.clock.now();
        let enrolled = self.store.enrol(subject, &accepted, now, event).await?;
        done(enrolled, target.subject)?;
        Ok(outcomes)
    }

    /// Checks a face against the collection and the suppression collections.
    async fn check(
        &self,
        target: EnrolTarget<'_>,
        face: FaceToEnrol,
    ) -> Result<Result<FaceToEnrol, Rejection>, RecognitionError> {
        let collection = target.collection;
        match check_vector(collection, &face.vector) {
            Ok(()) => {}
            Err(RecognitionError::CollectionContract { .. }) => {
                return Ok(Err(Rejection::ContractMismatch));
            }
            Err(error) => return Err(error),
        }
        if collection.kind == CollectionKind::Suppression {
            return Ok(Ok(face));
        }
        let suppressions = self.suppressions(collection).await?;
        let suppressed = self
            .suppressed(&suppressions, &[&face.vector.values])
            .await?;
        if suppressed.contains(&true) {
            return Ok(Err(Rejection::Suppressed));
        }
        if !target.allow_conflicts
            && let Some(conflict) = self.conflict(target, &face.vector).await?
        {
            return Ok(Err(conflict));
        }
        Ok(Ok(face))
    }

    /// Returns the most similar other subject, if it reaches the threshold of the collection.
    async fn conflict(
        &self,
        target: EnrolTarget<'_>,
        vector: &FaceVector,
    ) -> Result<Option<Rejection>, RecognitionError> {
        let collection = target.collection;
        let Some(threshold) = self.threshold_of(collection) else {
            // Without a calibration nobody knows which similarity is too high.
            return Ok(None);
        };
        let wanted = Wanted {
            threshold,
            limit: NEIGHBOURS,
            by_subject: true,
            must_be_exact: false,
        };
        let found = self.similar(collection, &vector.values, wanted).await?;
        let conflict = |face: &SimilarFace| {
            let subject_id = face.row.enrolment.subject_id?;
            (subject_id != target.subject).then_some(Rejection::Conflict {
                subject_id,
                similarity: face.similarity,
            })
        };
        Ok(found.faces.iter().find_map(conflict))
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

/// Returns the entry of an enrolment. A face that is similar to another person was searched for, so it is recorded as searches
/// are: whatever the settings say.
fn enrol_event(target: EnrolTarget<'_>, outcomes: &[EnrolOutcome]) -> AuditEvent {
    let (mut enrolments, mut conflicts, mut suppressed) = (Vec::new(), Vec::new(), 0);
    for outcome in outcomes {
        match outcome {
            EnrolOutcome::Enrolled(id) => enrolments.push(*id),
            EnrolOutcome::Rejected(Rejection::Conflict { subject_id, .. }) => {
                conflicts.push(*subject_id);
            }
            EnrolOutcome::Rejected(Rejection::Suppressed) => suppressed += 1,
            EnrolOutcome::Rejected(_) => {}
        }
    }
    let is_search = !conflicts.is_empty() || suppressed > 0;
    let details = json!({
        "subject": target.subject,
        "enrolments": enrolments,
        "conflicts": conflicts,
        "suppressed": suppressed,
    });
    let event = AuditEvent::change("enrol", target.collection.id).with(details);
    match is_search {
        true => AuditEvent {
            level: AuditLevel::Off,
            ..event
        },
        false => event,
    }
}
