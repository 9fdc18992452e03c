//! Searches: a face is compared with all faces of a collection.
//!
//! A search returns candidates for a person to decide, and never a decision: with a million faces, strangers reach any
//! threshold that can be measured.

use facescan_audit::AuditEvent;
use facescan_config::DetectionRequest;
use facescan_fields::request_options;
use facescan_pipeline::{
    admission::Priority,
    context::RequestContext,
    core::{error::InvalidOption, options::RequestOptions},
};
use facescan_store::{Collection, CollectionKind};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    Collections,
    disclosure::round_up,
    similar::{SimilarFace, Wanted, disclose},
    terms::{Text, check_text},
};
use crate::{
    calibration::FarEstimate,
    error::RecognitionError,
    index::IndexKind,
    verify::{Criterion, FaceChoice, FaceVector, VerifyRequest, threshold},
};

/// The candidates beyond the limit that take the places of suppressed ones.
const SPARE: usize = 20;

/// The candidates of a search that does not say how many.
const DEFAULT_LIMIT: usize = 10;

request_options! {
    /// Options of a search.
    #[schema(as = SearchOptions)]
    pub struct SearchRequest {
        /// Why the face is searched for. It must be the purpose of the collection. Required.
        #[schema(value_type = Option<Text>)]
        pub purpose: Option<String>,
        /// A reference to the case that the search belongs to. The audit trail has it.
        #[schema(value_type = Option<Text>)]
        pub case: Option<String>,
        /// The most candidates, 1 to 50; by default 10.
        #[schema(minimum = 1, maximum = 50)]
        pub limit: Option<usize>,
        /// Whether a subject is a candidate once, with its most similar face (`subject`, the default), or each face is one.
        pub by: Option<CandidateKind>,
        /// Whether every face is compared, so that no similar one is missing. With `recognition.index: exact` every search does so;
        /// with the others, large collections take longer. By default false.
        pub exact: Option<bool>,
        /// The false accept rate of one comparison that the threshold is chosen for; by default that of the collection.
        #[schema(exclusive_minimum = 0, maximum = 1)]
        pub far: Option<f64>,
        /// The cosine from which a face is a candidate, -1 to 1, rounded up to hundredths. It has a lower limit, the cosine at the
        /// rate `recognition.max_search_far`. Not together with `far`.
        #[schema(minimum = -1, maximum = 1)]
        pub threshold: Option<f32>,
        /// Which face of an image is searched for: `largest` (default), or `central`.
        pub face: Option<FaceChoice>,
        /// Whether the image is an aligned 112×112 crop. It is not searched for faces.
        pub aligned: Option<bool>,
    }
    with {
        detection: DetectionRequest only [min_score, det_size],
    }
}

/// What is a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CandidateKind {
    /// A subject, with its most similar face.
    #[default]
    Subject,
    /// A face.
    Face,
}

impl RequestOptions for SearchRequest {
    fn priority(&self) -> Option<Priority> {
        None
    }
}

/// A search with every range checked.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchPlan {
    purpose: String,
    case: Option<String>,
    limit: usize,
    by: CandidateKind,
    must_be_exact: bool,
    criterion: Option<Criterion>,
}

impl SearchPlan {
    /// Checks that a collection may be searched for the purpose.
    ///
    /// # Errors
    /// [`RecognitionError::NotSearchable`] or [`RecognitionError::OtherPurpose`].
    pub fn check(&self, collection: &Collection) -> Result<(), RecognitionError> {
        if collection.kind == CollectionKind::Suppression {
            return Err(RecognitionError::NotSearchable(collection.id));
        }
        match collection.terms.purpose == self.purpose {
            true => Ok(()),
            false => Err(RecognitionError::OtherPurpose(collection.id)),
        }
    }
}

impl SearchRequest {
    /// Fills in the defaults that neither the settings nor the collection have.
    pub fn with_defaults(self) -> Self {
        Self {
            limit: Some(self.limit.unwrap_or(DEFAULT_LIMIT)),
            by: Some(self.by.unwrap_or_default()),
            exact: Some(self.exact.unwrap_or_default()),
            face: Some(self.face.unwrap_or_default()),
            aligned: Some(self.aligned.unwrap_or_default()),
            ..self
        }
    }

    /// Checks the options, whose ranges were checked before. Returns those of the search and those of the image.
    ///
    /// # Errors
    /// [`InvalidOption`] with the name of the option.
    pub fn resolve(self) -> Result<(SearchPlan, VerifyRequest), InvalidOption> {
        let Some(purpose) = self.purpose else {
            let detail = "is required: a search must say why it is made";
            return Err(InvalidOption::new("purpose", detail));
        };
        if let Some(case) = &self.case {
            check_text("case", case)?;
        }
        let image = VerifyRequest {
            far: self.far,
            threshold: self.threshold,
            face: self.face,
            detection: self.detection,
            aligned: self.aligned,
            preset: Some(facescan_imaging::quality::acceptance::Preset::Search),
            ..VerifyRequest::default()
        };
        let has_criterion = self.far.is_some() || self.threshold.is_some();
        let criterion = match has_criterion {
            true => Some(image.criterion(1.0)?),
            false => None,
        };
        let plan = SearchPlan {
            purpose,
            case: self.case,
            limit: self.limit.unwrap_or(DEFAULT_LIMIT),
            by: self.by.unwrap_or_default(),
            must_be_exact: self.exact.unwrap_or_default(),
            criterion,
        };
        Ok((plan, image))
    }
}

/// The result of a search, with what is kept of each candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchResult<C = Candidate> {
    /// The id, which the audit trail has too.
    pub id: Uuid,
    /// The candidates, the most similar one first.
    pub candidates: Vec<C>,
    /// The cosine from which a face is a candidate.
    pub threshold: f32,
    /// The false accept rate of one comparison at the threshold. `None` if the vector space has no calibration.
    pub far: Option<FarEstimate>,
    /// The faces that were compared.
    pub searched: u64,
    /// The index that was used.
    pub index: IndexUsed,
}

impl<C> SearchResult<C> {
    /// Converts the candidates, and leaves out those that `convert` does not return.
    pub(super) fn convert<D>(self, convert: impl FnMut(C) -> Option<D>) -> SearchResult<D> {
        SearchResult {
            id: self.id,
            candidates: self.candidates.into_iter().filter_map(convert).collect(),
            threshold: self.threshold,
            far: self.far,
            searched: self.searched,
            index: self.index,
        }
    }
}

/// A face that may show the person.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The face.
    pub face: SimilarFace,
    /// The false accept rate of one comparison at its similarity. `None` if the vector space has no calibration.
    pub far: Option<FarEstimate>,
}

/// The index that a search used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IndexUsed {
    /// The kind.
    pub kind: IndexKind,
    /// Whether no face was left out that is more similar than a candidate. False if the index does not compare all faces, or if a
    /// few subjects have thousands of faces.
    pub exact: bool,
    /// The number of changes of the collection that it contained.
    pub position: u64,
}

impl Collections {
    /// Makes a search for each vector, and returns their results in order. The audit trail has every search before this
    /// returns.
    ///
    /// # Errors
    /// Returns an error if a search is not allowed, cannot be recorded, or cannot be made.
    pub async fn search(
        &self,
        context: &RequestContext,
        collection: &Collection,
        (vectors, plan): (&[FaceVector], &SearchPlan),
    ) -> Result<Vec<SearchResult>, RecognitionError> {
        let threshold = self.check_search(collection, plan)?;
        for vector in vectors {
            check_vector(collection, vector)?;
        }
        self.take_searches(context, vectors.len()).await?;
        // At the same time, so that they share a pass over the memory.
        let searches = vectors
            .iter()
            .map(|vector| self.search_for(context, collection, (vector, plan, threshold)));
        try_join_all(searches).await
    }

    /// Checks that a collection may be searched, and that the threshold is known and not too low. Returns the threshold.
    ///
    /// # Errors
    /// [`RecognitionError::NotSearchable`], [`RecognitionError::OtherPurpose`], [`RecognitionError::PurposeNotAllowed`], or
    /// [`RecognitionError::InvalidOption`] if the calibration does not have the rate, or if it is above
    /// `recognition.max_search_far`.
    pub fn check_search(
        &self,
        collection: &Collection,
        plan: &SearchPlan,
    ) -> Result<f32, RecognitionError> {
        plan.check(collection)?;
        self.check_purpose(collection)?;
        let calibration = self.calibrations.of(&collection.vector_space);
        let floor = self.lowest_threshold(collection);
        let Some(criterion) = plan.criterion else {
            let own = Criterion::Far(collection.terms.far);
            return Ok(round_up(threshold(own, calibration)?).max(floor));
        };
        let threshold = round_up(threshold(criterion, calibration)?);
        if threshold >= floor {
            return Ok(threshold);
        }
        let far = self.max_search_far;
        Err(match criterion {
            Criterion::Threshold(_) => InvalidOption::new(
                "threshold",
                format!("must be at least {floor}, the cosine at a false accept rate of {far} (recognition.max_search_far)"),
            ),
            Criterion::Far(_) | Criterion::DefaultFar(_) => InvalidOption::new(
                "far",
                format!("must be at most {far}, which is recognition.max_search_far; the threshold is then {floor}"),
            ),
        }
        .into())
    }

    async fn search_for(
        &self,
        context: &RequestContext,
        collection: &Collection,
        (vector, plan, threshold): (&FaceVector, &SearchPlan, f32),
    ) -> Result<SearchResult, RecognitionError> {
        let calibration = self.calibrations.of(&collection.vector_space);
        let wanted = Wanted {
            threshold,
            limit: plan.limit + SPARE,
            by_subject: plan.by == CandidateKind::Subject,
            must_be_exact: plan.must_be_exact,
        };
        let found = self.similar(collection, &vector.values, wanted).await?;
        let faces = self
            .without_suppressed(collection, vector, found.faces)
            .await?;
        let faces = disclose(faces, plan.limit);
        let far = |cosine| calibration.and_then(|calibration| calibration.far(cosine));
        let candidates = faces.into_iter().map(|face| Candidate {
            far: far(face.similarity),
            face,
        });
        let result = SearchResult {
            id: self.clock.new_id(),
            candidates: candidates.collect(),
            threshold,
            far: far(threshold),
            searched: found.searched,
            index: IndexUsed {
                kind: self.index.kind(),
                exact: found.is_exact,
                position: found.position,
            },
        };
        let event = search_event(collection, plan, &result);
        self.audit.record(context, event).await?;
        Ok(result)
    }

    /// Removes candidates who must not be found. If the face itself is one of them, no candidate is left.
    async fn without_suppressed(
        &self,
        collection: &Collection,
        vector: &FaceVector,
        faces: Vec<SimilarFace>,
    ) -> Result<Vec<SimilarFace>, RecognitionError> {
        let suppressions = self.suppressions(collection).await?;
        if suppressions.is_empty() || faces.is_empty() {
            return Ok(faces);
        }
        let vectors = std::iter::once(&vector.values[..]);
        let vectors = vectors.chain(faces.iter().map(|face| &face.row.vector[..]));
        let vectors: Vec<&[f32]> = vectors.collect();
        let suppressed = self.suppressed(&suppressions, &vectors).await?;
        let Some((false, of_faces)) = suppressed.split_first().map(|(own, faces)| (*own, faces))
        else {
            return Ok(Vec::new());
        };
        let faces = faces.into_iter().zip(of_faces);
        Ok(faces
            .filter(|(_, is_suppressed)| !**is_suppressed)
            .map(|(face, _)| face)
            .collect())
    }

    /// Returns the suppression collections that protect people from a collection.
    pub(crate) async fn suppressions(
        &self,
        collection: &Collection,
    ) -> Result<Vec<Collection>, RecognitionError> {
        let (tenant, vector_space) = (&collection.tenant, &collection.vector_space);
        Ok(self
            .store
            .suppression_collections(tenant, vector_space)
            .await?)
    }

    /// Returns for each vector whether it is that of a person in a suppression collection, at the rate of that collection.
    pub(crate) async fn suppressed(
        &self,
        suppressions: &[Collection],
        vectors: &[&[f32]],
    ) -> Result<Vec<bool>, RecognitionError> {
        let mut suppressed = vec![false; vectors.len()];
        for suppression in suppressions {
            let threshold = self.own_threshold(suppression);
            let uncalibrated = || RecognitionError::Uncalibrated(suppression.vector_space.clone());
            let wanted = Wanted {
                threshold: threshold.ok_or_else(uncalibrated)?,
                limit: 1,
                by_subject: false,
                must_be_exact: false,
            };
            // At the same time, so that they share a pass over the memory.
            let similar = vectors
                .iter()
                .map(|vector| self.similar(suppression, vector, wanted));
            let similar = try_join_all(similar).await?;
            for (is_suppressed, similar) in suppressed.iter_mut().zip(similar) {
                *is_suppressed |= !similar.faces.is_empty();
            }
        }
        Ok(suppressed)
    }
}

/// Checks that a vector can be compared with those of a collection.
fn check_vector(collection: &Collection, vector: &FaceVector) -> Result<(), RecognitionError> {
    match has_vector_space(collection, vector)? {
        true => Ok(()),
        false => Err(RecognitionError::CollectionVectorSpace {
            face: vector.vector_space.clone(),
            collection: collection.vector_space.clone(),
        }),
    }
}

/// Returns whether a vector has the vector space of a collection. If it does, it must also have the dimension.
pub(crate) fn has_vector_space(
    collection: &Collection,
    vector: &FaceVector,
) -> Result<bool, InvalidOption> {
    let has_space = vector.vector_space == collection.vector_space;
    if has_space && vector.values.len() != collection.dim as usize {
        let dim = collection.dim;
        let detail = format!("must have {dim} values, as those of the collection");
        return Err(InvalidOption::new("embedding", detail));
    }
    Ok(has_space)
}

/// Returns the entry of a search.
fn search_event(collection: &Collection, plan: &SearchPlan, result: &SearchResult) -> AuditEvent {
    let candidates: Vec<Uuid> = result
        .candidates
        .iter()
        .map(|candidate| candidate.face.row.enrollment.id)
        .collect();
    let details = json!({
        "search": result.id,
        "purpose": plan.purpose,
        "case": plan.case,
        "vector_space": collection.vector_space,
        "threshold": result.threshold,
        "searched": result.searched,
        "candidates": candidates,
        "index": result.index,
    });
    let event = AuditEvent::change("search", collection.id).with(details);
    event.with_searches(1)
}
