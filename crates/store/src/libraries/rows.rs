//! Rows of people, of faces of libraries, and of clusterings.

use uuid::Uuid;

use super::records::{
    Clustering, ClusteringProgress, ClusteringState, FaceRow, LibraryFace, Membership,
    NewClustering, Person,
};
use crate::collections::EnrollmentRow;
use crate::error::StoreError;
use crate::record::record;
use crate::times::from_micros;

record! {
    pub(super) struct PersonRow {
        id: Uuid,
        name: Option<String>,
        created_at: i64,
        faces: i64,
    }
}

impl TryFrom<PersonRow> for Person {
    type Error = StoreError;

    fn try_from(row: PersonRow) -> Result<Self, StoreError> {
        let id = row.id;
        let damaged = || StoreError::corrupt(format!("the time of person {id}"));
        Ok(Self {
            id,
            name: row.name,
            created_at: from_micros(row.created_at).ok_or_else(damaged)?,
            faces: row.faces.cast_unsigned(),
        })
    }
}

record! {
    pub(super) struct LibraryFaceRow {
        image_id: Option<Uuid>,
        is_acceptable: bool,
        person_id: Option<Uuid>,
        is_pinned: Option<bool>,
    } with enrollment: EnrollmentRow
}

impl TryFrom<LibraryFaceRow> for LibraryFace {
    type Error = StoreError;

    fn try_from(row: LibraryFaceRow) -> Result<Self, StoreError> {
        Ok(Self {
            enrollment: row.enrollment.try_into()?,
            image_id: row.image_id,
            is_acceptable: row.is_acceptable,
            membership: Membership {
                person_id: row.person_id,
                is_pinned: row.is_pinned.unwrap_or(false),
            },
        })
    }
}

record! {
    pub(super) struct RowOfFace {
        row_id: i64,
        image_id: Option<Uuid>,
        is_acceptable: bool,
        person_id: Option<Uuid>,
        is_pinned: Option<bool>,
    }
}

impl From<RowOfFace> for FaceRow {
    fn from(row: RowOfFace) -> Self {
        Self {
            row: row.row_id.cast_unsigned(),
            image_id: row.image_id,
            is_acceptable: row.is_acceptable,
            membership: Membership {
                person_id: row.person_id,
                is_pinned: row.is_pinned.unwrap_or(false),
            },
        }
    }
}

record! {
    pub(super) struct ClusteringRow {
        pub(super) id: Uuid,
        pub(super) collection_id: Uuid,
        state: String,
        is_full: bool,
        min_faces: i32,
        far: Option<f64>,
        created_at: i64,
        pub(super) attempt: i64,
        finished_at: Option<i64>,
        compared: i64,
        faces: i64,
        people: i64,
        unassigned: i64,
        moved: i64,
        error: Option<String>,
    }
}

impl TryFrom<ClusteringRow> for Clustering {
    type Error = StoreError;

    fn try_from(row: ClusteringRow) -> Result<Self, StoreError> {
        let id = row.id;
        let damaged = |what| StoreError::corrupt(format!("the {what} of clustering {id}"));
        let time = |micros: i64| from_micros(micros).ok_or_else(|| damaged("time"));
        let state = ClusteringState::ALL
            .into_iter()
            .find(|state| state.name() == row.state);
        Ok(Self {
            request: NewClustering {
                id,
                is_full: row.is_full,
                min_faces: row.min_faces.cast_unsigned(),
                far: row.far,
                created_at: time(row.created_at)?,
            },
            state: state.ok_or_else(|| damaged("state"))?,
            progress: ClusteringProgress {
                compared: row.compared.cast_unsigned(),
                faces: row.faces.cast_unsigned(),
                people: row.people.cast_unsigned(),
                unassigned: row.unassigned.cast_unsigned(),
                moved: row.moved.cast_unsigned(),
            },
            finished_at: row.finished_at.map(time).transpose()?,
            error: row.error,
        })
    }
}
