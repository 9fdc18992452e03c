//! The statements about clusterings.

use time::OffsetDateTime;
use uuid::Uuid;

use super::records::{
    Clustering, ClusteringEnd, ClusteringProgress, LeasedClustering, NewClustering,
};
use crate::audit::{NewAuditEntry, append};
use crate::call::{change, query};
use crate::collections::{CollectionKey, Written, by_id, lock};
use crate::connection::Connection;
use crate::error::StoreError;
use crate::pages::PageRequest;
use crate::parameters::params;
use crate::record::record;
use crate::store::Store;
use crate::times::micros;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT r.id, r.collection_id, r.state, r.is_full, r.min_faces, r.far, r.created_at, r.attempt, \
             r.finished_at, r.compared, r.faces, r.people, r.unassigned, r.moved, r.error \
             FROM clusterings r ",
            $rest
        )
    };
}

crate::prepared::statements! {
    const ONE = select!(
        "JOIN collections c ON c.id = r.collection_id \
         WHERE c.tenant = :tenant AND c.id = :collection AND NOT c.is_erased AND r.id = :id"
    );

    const LIST = select!(
        "JOIN collections c ON c.id = r.collection_id \
         WHERE c.tenant = :tenant AND c.id = :collection AND NOT c.is_erased AND r.id < :before ORDER BY r.id DESC LIMIT :limit"
    );

    const UNFINISHED = "SELECT id FROM clusterings WHERE collection_id = :collection \
         AND state IN ('queued', 'running')";

    const INSERT = "INSERT INTO clusterings (id, collection_id, state, is_full, min_faces, far, \
         created_at) VALUES (:id, :collection_id, 'queued', :is_full, :min_faces, :far, :created_at)";

    /// The oldest clustering that no server works on.
    const NEXT = select!(
        "JOIN collections c ON c.id = r.collection_id \
         WHERE r.state IN ('queued', 'running') AND (r.leased_until IS NULL OR r.leased_until <= :now) \
         AND NOT c.is_erased ORDER BY r.id LIMIT 1"
    );

    const LEASE = "UPDATE clusterings SET state = 'running', leased_until = :until, attempt = :attempt \
         WHERE id = :id AND state IN ('queued', 'running') AND (leased_until IS NULL OR leased_until <= :now)";

    const RENEW = "UPDATE clusterings SET leased_until = :until, compared = :compared, faces = :faces \
         WHERE id = :id AND attempt = :attempt AND state = 'running'";

    /// Locks the clustering, so that nobody leases it before the transaction ends.
    const HOLD = "UPDATE clusterings SET attempt = attempt \
         WHERE id = :id AND attempt = :attempt AND state = 'running'";

    const END = "UPDATE clusterings SET state = :state, finished_at = :now, leased_until = NULL, \
         compared = :compared, faces = :faces, people = :people, unassigned = :unassigned, moved = :moved, error = :error \
         WHERE id = :id AND attempt = :attempt AND state = 'running'";

    /// Servers renew leases and write people only while the state is `running`, so the one that works on it stops.
    const CANCEL = "UPDATE clusterings SET state = 'cancelled', finished_at = :now, leased_until = NULL \
         WHERE collection_id = :collection AND id = :id AND state IN ('queued', 'running')";
}

record! {
    /// A clustering that no server works on.
    struct WaitingClustering {
        clustering: Clustering,
        collection_id: Uuid,
        attempt: i64,
    }
}

impl Store {
    /// Adds a clustering that a server does later. [`Written::Taken`] if another one of the library is not finished.
    pub async fn create_clustering(
        &self,
        key: CollectionKey<'_>,
        new: &NewClustering,
        audit: Option<NewAuditEntry>,
    ) -> Result<Written, StoreError> {
        change!(self, "create_clustering", |connection| {
            if !lock(connection, key).await? {
                return Ok(Written::NotFound);
            }
            let collection = params!(collection = key.id);
            if connection.exists(UNFINISHED, collection).await? {
                return Ok(Written::Taken);
            }
            let values = params!(
                id = new.id,
                collection_id = key.id,
                is_full = new.is_full,
                min_faces = new.min_faces,
                far = new.far,
                created_at = micros(new.created_at)
            );
            connection.execute(INSERT, values).await?;
            append(connection, audit.as_slice()).await?;
            Ok(Written::Done)
        })
    }

    /// Returns a clustering.
    pub async fn clustering(
        &self,
        key: CollectionKey<'_>,
        id: Uuid,
    ) -> Result<Option<Clustering>, StoreError> {
        query!(self, "clustering", |connection| {
            let values = params!(tenant = key.tenant, collection = key.id, id);
            Ok(connection.fetch_optional(ONE, values).await?)
        })
    }

    /// Returns a page of the clusterings of a library, newest first.
    pub async fn list_clusterings(
        &self,
        key: CollectionKey<'_>,
        page: PageRequest,
    ) -> Result<Vec<Clustering>, StoreError> {
        query!(self, "list_clusterings", |connection| {
            let (before, limit) = (page.after.unwrap_or(Uuid::max()), page.limit);
            let values = params!(tenant = key.tenant, collection = key.id, before, limit);
            Ok(connection.fetch_all(LIST, values).await?)
        })
    }

    /// Cancels a clustering that is not finished. Returns it as it is then, or `None` if the library has none with this id.
    pub async fn cancel_clustering(
        &self,
        key: CollectionKey<'_>,
        id: Uuid,
        now: OffsetDateTime,
        audit: Option<NewAuditEntry>,
    ) -> Result<Option<Clustering>, StoreError> {
        change!(self, "cancel_clustering", |connection| {
            // A server that writes what it has found holds this lock.
            if !lock(connection, key).await? {
                return Ok(None);
            }
            let values = params!(
                tenant = key.tenant,
                collection = key.id,
                id,
                now = micros(now)
            );
            if connection.execute(CANCEL, values).await? > 0 {
                append(connection, audit.as_slice()).await?;
            }
            Ok(connection.fetch_optional(ONE, values).await?)
        })
    }

    /// Leases the oldest clustering that no server works on, until the time `until`.
    pub async fn lease_clustering(
        &self,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Result<Option<LeasedClustering>, StoreError> {
        // Servers look every second. Without a clustering that waits, no writer waits for them.
        let is_waiting = query!(self, "next_clustering", |connection| {
            let now = params!(now = micros(now));
            Ok(connection.exists(NEXT, now).await?)
        })?;
        if !is_waiting {
            return Ok(None);
        }
        change!(self, "lease_clustering", |connection| {
            let next: Option<WaitingClustering> = connection
                .fetch_optional(NEXT, params!(now = micros(now)))
                .await?;
            let Some(next) = next else {
                return Ok(None);
            };
            let Some(collection) = by_id(connection, next.collection_id).await? else {
                return Ok(None);
            };
            let attempt = next.attempt + 1;
            let values = params!(
                id = next.clustering.request.id,
                now = micros(now),
                until = micros(until),
                attempt
            );
            // Another server can lease it at the same moment. Then this one does nothing until its next try.
            if connection.execute(LEASE, values).await? == 0 {
                return Ok(None);
            }
            Ok(Some(LeasedClustering {
                request: next.clustering.request,
                collection,
                attempt: attempt.cast_unsigned(),
            }))
        })
    }

    /// Extends a lease, and stores how far the clustering is. Returns false if the lease is lost.
    pub async fn renew_clustering(
        &self,
        leased: &LeasedClustering,
        until: OffsetDateTime,
        progress: ClusteringProgress,
    ) -> Result<bool, StoreError> {
        change!(self, "renew_clustering", |connection| {
            let values = params!(
                id = leased.request.id,
                attempt = leased.attempt,
                until = micros(until),
                compared = progress.compared,
                faces = progress.faces
            );
            Ok(connection.execute(RENEW, values).await? > 0)
        })
    }

    /// Ends a clustering. Returns false if the lease is lost.
    pub async fn end_clustering(
        &self,
        leased: &LeasedClustering,
        end: &ClusteringEnd,
        now: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        change!(self, "end_clustering", |connection| {
            let (state, progress, error) = match end {
                ClusteringEnd::Done(progress) => ("done", *progress, None),
                ClusteringEnd::Failed(error) => {
                    ("failed", ClusteringProgress::default(), Some(error.clone()))
                }
            };
            if !hold(connection, leased).await? {
                return Ok(false);
            }
            let values = params!(
                id = leased.request.id,
                attempt = leased.attempt,
                state,
                now = micros(now),
                compared = progress.compared,
                faces = progress.faces,
                people = progress.people,
                unassigned = progress.unassigned,
                moved = progress.moved,
                error
            );
            Ok(connection.execute(END, values).await? > 0)
        })
    }
}

/// Locks the library, and returns whether the lease is still the last one.
pub(super) async fn hold(
    connection: &mut Connection<'_>,
    leased: &LeasedClustering,
) -> Result<bool, StoreError> {
    let key = CollectionKey {
        tenant: &leased.collection.tenant,
        id: leased.collection.id,
    };
    if !lock(connection, key).await? {
        return Ok(false);
    }
    let values = params!(id = leased.request.id, attempt = leased.attempt);
    Ok(connection.execute(HOLD, values).await? > 0)
}
