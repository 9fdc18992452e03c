//! Why faces cannot be compared, enrolled or searched for.

use std::time::Duration;

use facescan_audit::AuditError;
use facescan_clustering::ClusteringError;
use facescan_pipeline::core::error::{InvalidOption, PipelineError};
use facescan_store::StoreError;
use thiserror::Error;
use uuid::Uuid;

use super::{collections::enroll::Rejection, index::IndexError, verify::Side};

/// Faces cannot be compared, enrolled or searched for.
#[derive(Debug, Error)]
pub enum RecognitionError {
    /// The image has no face with a vector.
    #[error("no face was found in `{0}`; send an image that shows a face, or a lower min_score")]
    NoFace(Side),
    /// There is no such stored face.
    #[error("there is no face {0}, or it was erased")]
    NotFound(Uuid),
    /// The stored face has no vector.
    #[error("the face {0} has no vector; send its image to /embed first")]
    NoVector(Uuid),
    /// The vectors were computed by different models or settings.
    #[error(
        "`a` has the vector space {a} and `b` has {b}; compare vectors of one vector space only"
    )]
    VectorSpaceMismatch {
        /// The vector space of the first vector.
        a: String,
        /// The vector space of the second vector.
        b: String,
    },
    /// The image of a side has no result.
    #[error("`{side}`: {source}")]
    Image {
        /// The side.
        side: Side,
        /// The reason.
        #[source]
        source: PipelineError,
    },
    /// The face was computed by other models or settings than those of a collection.
    #[error(
        "the face has the vector space {face} and the collection has {collection}; use faces of that vector space"
    )]
    CollectionVectorSpace {
        /// The vector space of the face.
        face: String,
        /// The vector space of the collection.
        collection: String,
    },
    /// The image that was sent shows no face.
    #[error(
        "no face was found in the image; send an image that shows a face, or a lower min_score"
    )]
    NoFaceToSearch,
    /// There is no such collection.
    #[error("there is no collection {0}, or it was erased")]
    NoCollection(Uuid),
    /// There is no such subject in the collection.
    #[error("the collection has no subject {0}, or it was erased")]
    NoSubject(Uuid),
    /// There is no such enrolled face in the collection.
    #[error("the collection has no enrolled face {0}, or it was erased")]
    NoEnrollment(Uuid),
    /// There is no such person in the library.
    #[error("the library has no person {0}; list its people, because one without faces is deleted")]
    NoPerson(Uuid),
    /// There is no such clustering of the library.
    #[error("the library has no clustering {0}; list its clusterings")]
    NoClustering(Uuid),
    /// A collection is not a library.
    #[error(
        "the collection {0} is not a library, so it has no people; create a collection of the kind `library`"
    )]
    NoLibrary(Uuid),
    /// A collection is a library.
    #[error("the collection {0} is a library, which has no subjects; enroll faces without one")]
    IsLibrary(Uuid),
    /// Another clustering of the library is not finished.
    #[error("another clustering of the library is not finished; wait until it is done")]
    ClusteringUnfinished,
    /// Another server has leased the clustering, or it was cancelled.
    #[error("the lease of the clustering is lost; another server does it, or it was cancelled")]
    LeaseLost,
    /// The task that groups faces ended early.
    #[error("the grouping of the faces was interrupted; request it again")]
    Interrupted,
    /// The faces cannot be grouped.
    #[error("the faces could not be grouped; see the log")]
    Clustering(#[from] ClusteringError),
    /// Another collection of the tenant has the name.
    #[error("another collection has the name `{0}`; choose another name")]
    NameTaken(String),
    /// Another subject of the collection has the external id.
    #[error("another subject of the collection has this external_id")]
    ExternalIdTaken,
    /// The settings do not list the purpose.
    #[error(
        "the purpose `{0}` is not allowed here; the operator lists purposes in recognition.purposes"
    )]
    PurposeNotAllowed(String),
    /// The purpose of a search is not that of the collection.
    #[error(
        "the collection {0} has another purpose; search only for the purpose that its subjects were enrolled for"
    )]
    OtherPurpose(Uuid),
    /// The caller would make more searches than the settings allow in a day.
    #[error(
        "the key may make {limit} searches within a day (recognition.max_searches_per_day), and this request would exceed it; send fewer faces, or try again after the time in retry-after"
    )]
    TooManySearches {
        /// The limit.
        limit: u32,
        /// When the caller may search again.
        retry_after: Duration,
    },
    /// The caller may not choose the input of the embedder.
    #[error(
        "aligned crops need a key with the scope `search_vectors`, because they can measure enrolled vectors; send whole images"
    )]
    AlignedCrops,
    /// A suppression collection is not searched.
    #[error("the collection {0} is a suppression collection, which cannot be searched")]
    NotSearchable(Uuid),
    /// A subject has no valid consent, or its time is over.
    #[error(
        "the subject {0} has no valid consent, or its time is over; renew them, then enroll its faces"
    )]
    NotLive(Uuid),
    /// A stored face was erased while it was enrolled.
    #[error("a stored face was erased meanwhile; send the faces again without it")]
    FaceErased,
    /// A suppression collection or a library cannot be compared with, because its error rates are not known.
    #[error("the vector space {0} has no calibration; add one to recognition.calibrations")]
    Uncalibrated(String),
    /// The only face of an enrollment is not enrolled.
    #[error(transparent)]
    Rejected(Rejection),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The index failed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The action cannot be recorded.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// An option is out of range.
    #[error(transparent)]
    InvalidOption(#[from] InvalidOption),
}
