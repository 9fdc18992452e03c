//! Why faces cannot be compared, enrolled or searched for.

use std::time::Duration;

use facescan_audit::AuditError;
use facescan_clustering::ClusteringError;
use facescan_pipeline::core::error::{InvalidOption, PipelineError};
use facescan_store::StoreError;
use thiserror::Error;
use uuid::Uuid;

use super::{collections::rejection::Rejection, index::IndexError, side::Side};

/// Faces cannot be compared, enrolled or searched for.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what the errors are")]
pub enum RecognitionError {
    #[error("no face was found in `{0}`; send an image that shows a face, or a lower min_score")]
    NoFace(Side),
    #[error("there is no face {0}, or it was erased")]
    NotFound(Uuid),
    #[error("the face {0} has no vector; send its image to /embed first")]
    NoVector(Uuid),
    #[error(
        "`a` has the vector space {a} and `b` has {b}; compare vectors of one vector space only"
    )]
    VectorSpaceMismatch { a: String, b: String },
    /// The image of a side has no result.
    #[error("`{side}`: {source}")]
    Image {
        side: Side,
        #[source]
        source: PipelineError,
    },
    #[error(
        "the face has the vector space {face} and the collection has {collection}; use faces of that vector space"
    )]
    CollectionVectorSpace { face: String, collection: String },
    #[error(
        "no face was found in the image; send an image that shows a face, or a lower min_score"
    )]
    NoFaceToSearch,
    #[error("there is no collection {0}, or it was erased")]
    NoCollection(Uuid),
    #[error("the collection has no subject {0}, or it was erased")]
    NoSubject(Uuid),
    #[error("the collection has no enrolled face {0}, or it was erased")]
    NoEnrollment(Uuid),
    #[error("the library has no person {0}; list its people, because one without faces is deleted")]
    NoPerson(Uuid),
    #[error("the library has no clustering {0}; list its clusterings")]
    NoClustering(Uuid),
    #[error(
        "the collection {0} is not a library, so it has no people; create a collection of the kind `library`"
    )]
    NoLibrary(Uuid),
    #[error("the collection {0} is a library, which has no subjects; enroll faces without one")]
    IsLibrary(Uuid),
    #[error("another clustering of the library is not finished; wait until it is done")]
    ClusteringUnfinished,
    #[error("the lease of the clustering is lost; another server does it, or it was cancelled")]
    LeaseLost,
    #[error("the grouping of the faces was interrupted; request it again")]
    Interrupted,
    #[error("the faces could not be grouped; see the log")]
    Clustering(#[from] ClusteringError),
    #[error("another collection has the name `{0}`; choose another name")]
    NameTaken(String),
    #[error("another subject of the collection has this external_id")]
    ExternalIdTaken,
    #[error(
        "the purpose `{0}` is not allowed here; the operator lists purposes in recognition.purposes"
    )]
    PurposeNotAllowed(String),
    #[error(
        "the collection {0} has another purpose; search only for the purpose that its subjects were enrolled for"
    )]
    OtherPurpose(Uuid),
    #[error(
        "the key may make {limit} searches within a day (recognition.max_searches_per_day), and this request would exceed it; send fewer faces, or try again after the time in retry-after"
    )]
    TooManySearches { limit: u32, retry_after: Duration },
    #[error(
        "aligned crops need a key with the scope `search_vectors`, because they can measure enrolled vectors; send whole images"
    )]
    AlignedCrops,
    #[error("the collection {0} is a suppression collection, which cannot be searched")]
    NotSearchable(Uuid),
    #[error(
        "the subject {0} has no valid consent, or its time is over; renew them, then enroll its faces"
    )]
    NotLive(Uuid),
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
