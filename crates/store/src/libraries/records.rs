//! People of libraries and clusterings as callers of the store see them.

use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::collections::{Collection, Enrollment};
use crate::named::named;
use crate::record::record;

record! {
    /// A person of a library.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Person {
        /// The id.
        pub id: Uuid,
        /// The name that a user gave.
        pub name: Option<String>,
        /// When the person was created.
        pub created_at: OffsetDateTime,
        /// The number of faces.
        pub faces: u64,
    }
}

/// Which faces of a library to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaceFilter {
    /// All faces.
    #[default]
    All,
    /// Those of a person.
    Of(Uuid),
    /// Those of nobody.
    Unassigned,
}

record! {
    /// An enrolled face of a library.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LibraryFace {
        /// The enrollment.
        pub enrollment: Enrollment,
        /// An id that the faces of one image share. `None` if the image of a vector is not known.
        pub image_id: Option<Uuid>,
        /// Whether the quality suffices to found a person.
        pub is_acceptable: bool,
        /// Who the face shows.
        pub membership: Membership,
    }
}

/// Who a face shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// The person. `None` if it shows nobody, or nobody that is known yet.
    pub person_id: Option<Uuid>,
    /// Whether a user decided it.
    pub is_pinned: bool,
}

record! {
    /// A face of a library without its ids and its vector, for clusterings.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FaceRow {
        /// The row in the index.
        pub row: u64 = number("row_id"),
        /// As in [`LibraryFace`].
        pub image_id: Option<Uuid>,
        /// Whether the quality suffices to found a person.
        pub is_acceptable: bool,
        /// Who the face shows.
        pub membership: Membership,
    }
}

/// What a user decides about people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The name of a person, or that it has none.
    Rename {
        /// The person.
        person: Uuid,
        /// The name.
        name: Option<String>,
    },
    /// People are one person.
    Merge {
        /// The person that stays.
        into: Uuid,
        /// The people whose faces it gets.
        people: Vec<Uuid>,
    },
    /// Some faces of a person show another one.
    Split {
        /// The person.
        person: Uuid,
        /// The enrollments of the other one.
        faces: Vec<Uuid>,
        /// The other one, who is new.
        new: Uuid,
    },
    /// A face shows a person, or nobody.
    Assign {
        /// The enrollment.
        face: Uuid,
        /// The person.
        person: Option<Uuid>,
    },
    /// Clusterings decide about a face again.
    Unpin {
        /// The enrollment.
        face: Uuid,
    },
}

/// The result of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// It is stored.
    Done,
    /// The collection does not exist.
    NoCollection,
    /// A person does not exist. Nothing was written.
    NoPerson(Uuid),
    /// A face does not exist, or is not one of the person. Nothing was written.
    NoFace(Uuid),
    /// A split would leave the person without faces. Nothing was written.
    NobodyLeft,
}

record! {
    /// A clustering to be done.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct NewClustering {
        /// The id.
        pub id: Uuid,
        /// Whether all faces are grouped again that no user has assigned. Otherwise only faces without a person are.
        pub is_full: bool,
        /// The fewest faces of a new person.
        pub min_faces: u32,
        /// The false accept rate at which two faces are linked. `None`: the number of faces decides.
        pub far: Option<f64>,
        /// When it was requested.
        pub created_at: OffsetDateTime,
    }
}

named! {
    /// How far a clustering is.
    #[derive(Serialize, ToSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum ClusteringState {
        /// It waits for a server.
        Queued = "queued",
        /// A server works on it.
        Running = "running",
        /// It is done.
        Done = "done",
        /// It could not be done.
        Failed = "failed",
        /// A user has cancelled it.
        Cancelled = "cancelled",
    }
}

record! {
    /// A clustering.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Clustering {
        /// What was requested.
        pub request: NewClustering,
        /// The state.
        pub state: ClusteringState,
        /// How far it is, and what it has found.
        pub progress: ClusteringProgress,
        /// When it ended.
        pub finished_at: Option<OffsetDateTime>,
        /// Why it failed.
        pub error: Option<String>,
    }

    /// How far a clustering is, and what it has found.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ClusteringProgress {
        /// The faces whose nearest ones are known.
        pub compared: u64,
        /// The faces of the library.
        pub faces: u64,
        /// The people afterwards.
        pub people: u64,
        /// The faces that show nobody afterwards.
        pub unassigned: u64,
        /// The faces that had another person before.
        pub moved: u64,
    }
}

/// A clustering that a server works on. It must renew its lease before the lease ends.
#[derive(Clone, Debug, PartialEq)]
pub struct LeasedClustering {
    /// What was requested.
    pub request: NewClustering,
    /// The library.
    pub collection: Collection,
    /// The number of the lease. A server whose lease is not the last one writes nothing.
    pub attempt: u64,
}

/// How a clustering ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusteringEnd {
    /// It is done.
    Done(ClusteringProgress),
    /// It could not be done, for this reason.
    Failed(String),
}

/// The person that a clustering found for a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The row of the face.
    pub row: u64,
    /// The person, or nobody.
    pub person: Option<Uuid>,
}
