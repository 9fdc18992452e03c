//! How collections, subjects and enrollments are read from rows.

use super::records::{
    Collection, CollectionSize, CollectionTerms, Consent, Enrollment, IndexChange, IndexPosition,
    IndexRow, LiveRow, Subject, SubjectDetails,
};
use crate::record::{Columns, Record};
use crate::values::Floats;

impl Record for Collection {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.get("id")?,
            tenant: row.get("tenant")?,
            kind: row.named("kind")?,
            vector_space: row.get("vector_space")?,
            dim: row.number("dim")?,
            created_at: row.time("created_at")?,
            position: row.number("position")?,
            enrolled: row.number("enrolled")?,
            terms: CollectionTerms {
                name: row.get("name")?,
                purpose: row.get("purpose")?,
                legal_basis: row.get("legal_basis")?,
                consent_required: row.get("consent_required")?,
                retention_days: row.number("retention_days")?,
                far: row.get("far")?,
            },
        })
    }
}

impl Record for CollectionSize {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        Ok(Self {
            subjects: row.number("subjects")?,
            enrollments: row.number("enrollments")?,
        })
    }
}

impl Record for Subject {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        let consent: (Option<String>, _, _) = (
            row.get("consent_reference")?,
            row.optional_time("consent_given_at")?,
            row.optional_time("consent_expires_at")?,
        );
        let consent = match consent {
            (Some(reference), Some(given_at), Some(expires_at)) => Some(Consent {
                reference,
                given_at,
                expires_at,
            }),
            _ => None,
        };
        Ok(Self {
            id: row.get("id")?,
            collection_id: row.get("collection_id")?,
            created_at: row.time("created_at")?,
            last_seen_at: row.time("last_seen_at")?,
            details: SubjectDetails {
                external_id: row.get("external_id")?,
                metadata: row.get("metadata")?,
                consent,
                expires_at: row.optional_time("expires_at")?,
            },
        })
    }
}

impl Record for Enrollment {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.get("id")?,
            subject_id: row.get("subject_id")?,
            face_id: row.get("face_id")?,
            created_at: row.time("created_at")?,
        })
    }
}

impl Record for IndexPosition {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        Ok(Self {
            collection_id: row.get("id")?,
            vector_space: row.get("vector_space")?,
            dim: row.number("dim")?,
            position: row.number("position")?,
            enrolled: row.number("enrolled")?,
        })
    }
}

impl Record for IndexChange {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        Ok(Self {
            position: row.number("position")?,
            is_added: row.get("is_added")?,
            row: row.number("row_id")?,
        })
    }
}

impl Record for IndexRow {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        Ok(Self {
            row: row.number("row_id")?,
            vector: row.get::<Floats>("vector")?.0,
        })
    }
}

impl Record for LiveRow {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        Ok(Self {
            row: row.number("row_id")?,
            enrollment: Enrollment::from_row(row)?,
            external_id: row.get("external_id")?,
            person_id: row.get("person_id")?,
            vector: row.get::<Floats>("vector")?.0,
        })
    }
}
