//! The statements about subjects.

use time::OffsetDateTime;
use uuid::Uuid;

use super::manage;
use super::records::{Changed, CollectionKey, Subject, SubjectChange, Written};
use crate::audit::{NewAuditEntry, append};
use crate::call::{change, query};
use crate::connection::Connection;
use crate::error::StoreError;
use crate::pages::PageRequest;
use crate::parameters::params;
use crate::prepared::Statement;
use crate::store::Store;
use crate::times::micros;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT s.id, s.collection_id, s.external_id, s.metadata, s.consent_reference, \
             s.consent_given_at, s.consent_expires_at, s.expires_at, s.created_at, s.last_seen_at \
             FROM subjects s JOIN collections c ON c.id = s.collection_id \
             WHERE c.tenant = :tenant AND c.id = :collection AND NOT c.is_erased AND ",
            $rest
        )
    };
}

crate::prepared::statements! {
    const INSERT = "INSERT INTO subjects (id, collection_id, external_id, metadata, \
         consent_reference, consent_given_at, consent_expires_at, expires_at, created_at, last_seen_at) \
         VALUES (:id, :collection_id, :external_id, :metadata, :consent_reference, :consent_given_at, :consent_expires_at, :expires_at, :created_at, :last_seen_at)";

    const ONE = select!("s.id = :id");

    const LIST = select!("s.id > :after ORDER BY s.id LIMIT :limit");

    const WITH_EXTERNAL_ID =
        select!("s.id > :after AND s.external_id = :external_id ORDER BY s.id LIMIT :limit");

    const TAKEN = "SELECT id FROM subjects WHERE collection_id = :collection_id AND external_id = :external_id AND id <> :id";

    const CHANGE = "UPDATE subjects SET external_id = :external_id, metadata = :metadata, \
         consent_reference = :consent_reference, consent_given_at = :consent_given_at, consent_expires_at = :consent_expires_at, expires_at = :expires_at, \
         last_seen_at = :last_seen_at WHERE collection_id = :collection_id AND id = :id";
}

impl Store {
    /// Creates a subject in a collection of a tenant.
    pub async fn create_subject(
        &self,
        tenant: &str,
        subject: &Subject,
        audit: Option<NewAuditEntry>,
    ) -> Result<Written, StoreError> {
        change!(self, "create_subject", |connection| {
            let collection = CollectionKey {
                tenant,
                id: subject.collection_id,
            };
            if !manage::lock(connection, collection).await? {
                return Ok(Written::NotFound);
            }
            if is_taken(connection, subject).await? {
                return Ok(Written::Taken);
            }
            write(connection, INSERT, subject).await?;
            append(connection, audit.as_slice()).await?;
            Ok(Written::Done)
        })
    }

    /// Returns a subject of a collection.
    pub async fn subject(
        &self,
        key: CollectionKey<'_>,
        id: Uuid,
    ) -> Result<Option<Subject>, StoreError> {
        query!(self, "subject", |connection| {
            let values = params!(tenant = key.tenant, collection = key.id, id);
            Ok(connection.fetch_optional(ONE, values).await?)
        })
    }

    /// Returns a page of the subjects of a collection, oldest first. `external_id` selects the one that has it.
    pub async fn list_subjects(
        &self,
        key: CollectionKey<'_>,
        external_id: Option<&str>,
        page: PageRequest,
    ) -> Result<Vec<Subject>, StoreError> {
        query!(self, "list_subjects", |connection| {
            let (after, limit) = (page.after.unwrap_or_default(), page.limit);
            let (query, external_id) = match external_id {
                None => (LIST, ""),
                Some(external_id) => (WITH_EXTERNAL_ID, external_id),
            };
            let values = params!(
                tenant = key.tenant,
                collection = key.id,
                after,
                limit,
                external_id
            );
            Ok(connection.fetch_all(query, values).await?)
        })
    }

    /// Changes a subject. This is an interaction, from which the retention counts, unless the change is empty.
    pub async fn change_subject(
        &self,
        subject: (CollectionKey<'_>, Uuid),
        change: &SubjectChange,
        now: OffsetDateTime,
        audit: Option<NewAuditEntry>,
    ) -> Result<Changed<Subject>, StoreError> {
        change!(self, "change_subject", |connection| {
            let (key, id) = subject;
            if !manage::lock(connection, key).await? {
                return Ok(Changed::NotFound);
            }
            let values = params!(tenant = key.tenant, collection = key.id, id);
            let found: Option<Subject> = connection.fetch_optional(ONE, values).await?;
            let Some(subject) = found else {
                return Ok(Changed::NotFound);
            };
            if *change == SubjectChange::default() {
                return Ok(Changed::Done(subject));
            }
            let subject = Subject {
                details: change.applied_to(subject.details),
                last_seen_at: now,
                ..subject
            };
            if is_taken(connection, &subject).await? {
                return Ok(Changed::Taken);
            }
            write(connection, CHANGE, &subject).await?;
            if change.consent == Some(None) {
                let collection = params!(collection = key.id);
                connection
                    .execute(manage::DELETE_WITHOUT_CONSENT, collection)
                    .await?;
            }
            append(connection, audit.as_slice()).await?;
            Ok(Changed::Done(subject))
        })
    }
}

/// Runs a statement with the values of a subject.
async fn write(
    connection: &mut Connection<'_>,
    statement: Statement,
    subject: &Subject,
) -> Result<(), StoreError> {
    let details = &subject.details;
    let consent = details.consent.as_ref();
    let values = params!(
        id = subject.id,
        collection_id = subject.collection_id,
        external_id = details.external_id,
        metadata = details.metadata,
        consent_reference = consent.map(|consent| consent.reference.clone()),
        consent_given_at = consent.map(|consent| micros(consent.given_at)),
        consent_expires_at = consent.map(|consent| micros(consent.expires_at)),
        expires_at = details.expires_at.map(micros),
        created_at = micros(subject.created_at),
        last_seen_at = micros(subject.last_seen_at)
    );
    connection.execute(statement, values).await?;
    Ok(())
}

/// Returns whether another subject of the collection, which is locked, has the external id.
async fn is_taken(connection: &mut Connection<'_>, subject: &Subject) -> Result<bool, StoreError> {
    let external_id = &subject.details.external_id;
    let values = params!(
        collection_id = subject.collection_id,
        external_id = *external_id,
        id = subject.id
    );
    Ok(connection.exists(TAKEN, values).await?)
}
