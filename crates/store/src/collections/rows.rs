//! Rows of collections, subjects and enrollments.

use sqlx::types::JsonValue;
use uuid::Uuid;

use super::records::{
    Collection, CollectionKind, CollectionTerms, Consent, Enrollment, IndexChange, IndexRow,
    LiveRow, Subject, SubjectDetails,
};
use crate::error::StoreError;
use crate::record::record;
use crate::times::from_micros;
use crate::values::Floats;

record! {
    pub(super) struct CollectionRow {
        id: Uuid,
        tenant: String,
        name: String,
        kind: String,
        vector_space: String,
        dim: i32,
        purpose: String,
        legal_basis: String,
        consent_required: bool,
        retention_days: i32,
        far: f64,
        created_at: i64,
        position: i64,
        enrolled: i64,
    }
}

impl TryFrom<CollectionRow> for Collection {
    type Error = StoreError;

    fn try_from(row: CollectionRow) -> Result<Self, StoreError> {
        let id = row.id;
        let damaged = |what| StoreError::corrupt(format!("the {what} of collection {id}"));
        let kind = CollectionKind::ALL
            .into_iter()
            .find(|kind| kind.name() == row.kind);
        let days = u32::try_from(row.retention_days);
        Ok(Self {
            id,
            tenant: row.tenant,
            kind: kind.ok_or_else(|| damaged("kind"))?,
            vector_space: row.vector_space,
            dim: row.dim.try_into().map_err(|_| damaged("dim"))?,
            created_at: from_micros(row.created_at).ok_or_else(|| damaged("time"))?,
            position: row.position.cast_unsigned(),
            enrolled: row.enrolled.cast_unsigned(),
            terms: CollectionTerms {
                name: row.name,
                purpose: row.purpose,
                legal_basis: row.legal_basis,
                consent_required: row.consent_required,
                retention_days: days.map_err(|_| damaged("retention"))?,
                far: row.far,
            },
        })
    }
}

record! {
    pub(super) struct SizeRow {
        pub(super) subjects: i64,
        pub(super) enrollments: i64,
    }
}

record! {
    pub(super) struct SubjectRow {
        id: Uuid,
        collection_id: Uuid,
        external_id: Option<String>,
        metadata: Option<JsonValue>,
        consent_reference: Option<String>,
        consent_given_at: Option<i64>,
        consent_expires_at: Option<i64>,
        expires_at: Option<i64>,
        created_at: i64,
        last_seen_at: i64,
    }
}

impl TryFrom<SubjectRow> for Subject {
    type Error = StoreError;

    fn try_from(row: SubjectRow) -> Result<Self, StoreError> {
        let id = row.id;
        let time = |micros: i64| {
            from_micros(micros)
                .ok_or_else(|| StoreError::corrupt(format!("a time of subject {id}")))
        };
        let consent = match (
            row.consent_reference,
            row.consent_given_at,
            row.consent_expires_at,
        ) {
            (Some(reference), Some(given_at), Some(expires_at)) => Some(Consent {
                reference,
                given_at: time(given_at)?,
                expires_at: time(expires_at)?,
            }),
            _ => None,
        };
        Ok(Self {
            id,
            collection_id: row.collection_id,
            created_at: time(row.created_at)?,
            last_seen_at: time(row.last_seen_at)?,
            details: SubjectDetails {
                external_id: row.external_id,
                metadata: row.metadata,
                consent,
                expires_at: row.expires_at.map(time).transpose()?,
            },
        })
    }
}

record! {
    pub(crate) struct EnrollmentRow {
        id: Uuid,
        subject_id: Option<Uuid>,
        face_id: Option<Uuid>,
        created_at: i64,
    }
}

impl TryFrom<EnrollmentRow> for Enrollment {
    type Error = StoreError;

    fn try_from(row: EnrollmentRow) -> Result<Self, StoreError> {
        let id = row.id;
        let damaged = || StoreError::corrupt(format!("the time of enrollment {id}"));
        Ok(Self {
            id,
            subject_id: row.subject_id,
            face_id: row.face_id,
            created_at: from_micros(row.created_at).ok_or_else(damaged)?,
        })
    }
}

record! {
    pub(super) struct ChangeRow {
        position: i64,
        is_added: bool,
        row_id: i64,
    }
}

impl From<ChangeRow> for IndexChange {
    fn from(row: ChangeRow) -> Self {
        Self {
            position: row.position.cast_unsigned(),
            is_added: row.is_added,
            row: row.row_id.cast_unsigned(),
        }
    }
}

record! {
    pub(super) struct VectorRow {
        row_id: i64,
        vector: Floats,
    }
}

impl From<VectorRow> for IndexRow {
    fn from(row: VectorRow) -> Self {
        Self {
            row: row.row_id.cast_unsigned(),
            vector: row.vector.0,
        }
    }
}

record! {
    pub(super) struct LiveVectorRow {
        row_id: i64,
        external_id: Option<String>,
        person_id: Option<Uuid>,
        vector: Floats,
    } with enrollment: EnrollmentRow
}

impl TryFrom<LiveVectorRow> for LiveRow {
    type Error = StoreError;

    fn try_from(row: LiveVectorRow) -> Result<Self, StoreError> {
        Ok(Self {
            row: row.row_id.cast_unsigned(),
            external_id: row.external_id,
            person_id: row.person_id,
            vector: row.vector.0,
            enrollment: row.enrollment.try_into()?,
        })
    }
}
