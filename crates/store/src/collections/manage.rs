//! The statements about collections.

use uuid::Uuid;

use super::records::{Changed, Collection, CollectionKey, CollectionSize, TermsChange, Written};
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
            "SELECT id, tenant, name, kind, vector_space, dim, purpose, legal_basis, \
             consent_required, retention_days, far, created_at, position, enrolled FROM collections ",
            $rest
        )
    };
}

crate::prepared::statements! {
    const INSERT = "INSERT INTO collections (id, tenant, name, kind, vector_space, dim, purpose, \
         legal_basis, consent_required, retention_days, far, created_at) \
         VALUES (:id, :tenant, :name, :kind, :vector_space, :dim, :purpose, :legal_basis, :consent_required, :retention_days, :far, :created_at) \
         ON CONFLICT (tenant, name) WHERE name IS NOT NULL AND NOT is_erased DO NOTHING";

    const ONE = select!("WHERE tenant = :tenant AND id = :collection AND NOT is_erased");

    const BY_ID = select!("WHERE id = :id AND NOT is_erased");

    const LIST =
        select!("WHERE tenant = :tenant AND id > :after AND NOT is_erased ORDER BY id LIMIT :limit");

    const SUPPRESSION = select!(
        "WHERE tenant = :tenant AND kind = 'suppression' AND vector_space = :vector_space AND NOT is_erased ORDER BY id"
    );

    const SIZE = "SELECT \
         (SELECT count(*) FROM subjects WHERE collection_id = :id) AS subjects, \
         enrolled AS enrollments FROM collections WHERE id = :id";

    /// Waits for other changes of the collection.
    const LOCK = "UPDATE collections SET position = position \
         WHERE tenant = :tenant AND id = :collection AND NOT is_erased RETURNING id";

    const WITH_NAME = "SELECT id FROM collections WHERE tenant = :tenant AND name = :name AND id <> :collection \
         AND NOT is_erased";

    const CHANGE = "UPDATE collections SET name = :name, legal_basis = :legal_basis, \
         consent_required = :consent_required, retention_days = :retention_days, far = :far WHERE tenant = :tenant AND id = :id";

    /// Deletes the enrollments of subjects without any consent, if the collection requires one.
    pub(super) const DELETE_WITHOUT_CONSENT = "DELETE FROM enrollments WHERE collection_id = :collection \
         AND EXISTS (SELECT 1 FROM collections c WHERE c.id = :collection AND c.consent_required) \
         AND subject_id IN (SELECT s.id FROM subjects s \
             WHERE s.collection_id = :collection AND s.consent_expires_at IS NULL)";
}

impl Store {
    /// Creates a collection. [`Written::Taken`] if the tenant has one with its name.
    pub async fn create_collection(
        &self,
        collection: &Collection,
        audit: Option<NewAuditEntry>,
    ) -> Result<Written, StoreError> {
        change!(self, "create_collection", |connection| {
            if write(connection, INSERT, collection).await? == 0 {
                return Ok(Written::Taken);
            }
            append(connection, audit.as_slice()).await?;
            Ok(Written::Done)
        })
    }

    /// Returns a collection of a tenant.
    pub async fn collection(
        &self,
        key: CollectionKey<'_>,
    ) -> Result<Option<Collection>, StoreError> {
        query!(self, "collection", |connection| {
            let values = params!(tenant = key.tenant, collection = key.id);
            Ok(connection.fetch_optional(ONE, values).await?)
        })
    }

    /// Returns the number of subjects and of enrolled faces.
    pub async fn collection_size(&self, id: Uuid) -> Result<CollectionSize, StoreError> {
        query!(self, "collection_size", |connection| {
            let size = connection.fetch_optional(SIZE, params!(id)).await?;
            Ok(size.unwrap_or_default())
        })
    }

    /// Returns a page of the collections of a tenant, oldest first.
    pub async fn list_collections(
        &self,
        tenant: &str,
        page: PageRequest,
    ) -> Result<Vec<Collection>, StoreError> {
        query!(self, "list_collections", |connection| {
            let values = params!(
                tenant,
                after = page.after.unwrap_or_default(),
                limit = page.limit
            );
            Ok(connection.fetch_all(LIST, values).await?)
        })
    }

    /// Returns the suppression collections of a tenant with vectors of a vector space.
    pub async fn suppression_collections(
        &self,
        tenant: &str,
        vector_space: &str,
    ) -> Result<Vec<Collection>, StoreError> {
        query!(self, "suppression_collections", |connection| {
            let values = params!(tenant, vector_space);
            Ok(connection.fetch_all(SUPPRESSION, values).await?)
        })
    }

    /// Changes a collection.
    pub async fn change_collection(
        &self,
        key: CollectionKey<'_>,
        change: &TermsChange,
        audit: Option<NewAuditEntry>,
    ) -> Result<Changed<Collection>, StoreError> {
        change!(self, "change_collection", |connection| {
            if !lock(connection, key).await? {
                return Ok(Changed::NotFound);
            }
            let values = params!(tenant = key.tenant, collection = key.id);
            let found: Option<Collection> = connection.fetch_optional(ONE, values).await?;
            let Some(collection) = found else {
                return Ok(Changed::NotFound);
            };
            let collection = Collection {
                terms: change.applied_to(collection.terms),
                ..collection
            };
            let name = &collection.terms.name;
            let values = params!(tenant = key.tenant, name = *name, collection = key.id);
            if connection.exists(WITH_NAME, values).await? {
                return Ok(Changed::Taken);
            }
            match write(connection, CHANGE, &collection).await {
                // A concurrent transaction may have taken the name since the check.
                Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
                    return Ok(Changed::Taken);
                }
                done => done?,
            };
            connection
                .execute(DELETE_WITHOUT_CONSENT, params!(collection = key.id))
                .await?;
            append(connection, audit.as_slice()).await?;
            Ok(Changed::Done(collection))
        })
    }
}

/// Runs a statement with the values of a collection.
async fn write(
    connection: &mut Connection<'_>,
    statement: Statement,
    collection: &Collection,
) -> Result<u64, sqlx::Error> {
    let terms = &collection.terms;
    let values = params!(
        id = collection.id,
        tenant = collection.tenant,
        name = terms.name,
        kind = collection.kind.name(),
        vector_space = collection.vector_space,
        dim = collection.dim,
        purpose = terms.purpose,
        legal_basis = terms.legal_basis,
        consent_required = terms.consent_required,
        retention_days = terms.retention_days,
        far = terms.far,
        created_at = micros(collection.created_at)
    );
    connection.execute(statement, values).await
}

/// Returns a collection of any tenant.
pub(crate) async fn by_id(
    connection: &mut Connection<'_>,
    id: Uuid,
) -> Result<Option<Collection>, StoreError> {
    Ok(connection.fetch_optional(BY_ID, params!(id)).await?)
}

/// Locks a collection until the transaction ends. Returns false if the tenant has no such collection.
pub(crate) async fn lock(
    connection: &mut Connection<'_>,
    key: CollectionKey<'_>,
) -> Result<bool, StoreError> {
    let values = params!(tenant = key.tenant, collection = key.id);
    Ok(connection.exists(LOCK, values).await?)
}
