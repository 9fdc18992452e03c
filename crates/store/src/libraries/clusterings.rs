//! The statements about clusterings.

use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    records::{Clustering, ClusteringEnd, ClusteringProgress, LeasedClustering, NewClustering},
    rows::ClusteringRow,
};
use crate::{
    CollectionKey, NewAuditEntry, StoreError, Written, audit,
    batches::micros,
    collections::{by_id, lock},
    dialect::Statements,
    rows::IdRow,
    values::Value,
};

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

const ONE: &str = select!(
    "JOIN collections c ON c.id = r.collection_id \
     WHERE c.tenant = $1 AND c.id = $2 AND NOT c.is_erased AND r.id = $3"
);

const LIST: &str = select!(
    "JOIN collections c ON c.id = r.collection_id \
     WHERE c.tenant = $1 AND c.id = $2 AND NOT c.is_erased AND r.id < $3 ORDER BY r.id DESC LIMIT $4"
);

const UNFINISHED: &str = "SELECT id FROM clusterings WHERE collection_id = $1 \
     AND state IN ('queued', 'running')";

const INSERT: &str = "INSERT INTO clusterings (id, collection_id, state, is_full, min_faces, far, \
     created_at) VALUES ($1, $2, 'queued', $3, $4, $5, $6)";

/// The oldest clustering that no server works on.
const NEXT: &str = select!(
    "JOIN collections c ON c.id = r.collection_id \
     WHERE r.state IN ('queued', 'running') AND (r.leased_until IS NULL OR r.leased_until <= $1) \
     AND NOT c.is_erased ORDER BY r.id LIMIT 1"
);

const LEASE: &str = "UPDATE clusterings SET state = 'running', leased_until = $3, attempt = $4 \
     WHERE id = $1 AND state IN ('queued', 'running') AND (leased_until IS NULL OR leased_until <= $2)";

const RENEW: &str = "UPDATE clusterings SET leased_until = $3, compared = $4, faces = $5 \
     WHERE id = $1 AND attempt = $2 AND state = 'running'";

/// Locks the clustering, so that nobody leases it before the transaction ends.
const HOLD: &str = "UPDATE clusterings SET attempt = attempt \
     WHERE id = $1 AND attempt = $2 AND state = 'running'";

const END: &str = "UPDATE clusterings SET state = $3, finished_at = $4, leased_until = NULL, \
     compared = $5, faces = $6, people = $7, unassigned = $8, moved = $9, error = $10 \
     WHERE id = $1 AND attempt = $2 AND state = 'running'";

/// Servers renew leases and write people only while the state is `running`, so the one that works on it stops.
const CANCEL: &str = "UPDATE clusterings SET state = 'cancelled', finished_at = $3, leased_until = NULL \
     WHERE collection_id = $1 AND id = $2 AND state IN ('queued', 'running')";

/// Adds a clustering; see [`super::LibraryStore::create_clustering`]. Run it in a transaction.
pub(super) async fn create(
    connection: &mut impl Statements,
    key: CollectionKey<'_>,
    new: &NewClustering,
    audit: Option<NewAuditEntry>,
) -> Result<Written, StoreError> {
    if !lock(connection, key).await? {
        return Ok(Written::NotFound);
    }
    let unfinished: Option<IdRow> = connection.fetch_optional(UNFINISHED, &[&key.id]).await?;
    if unfinished.is_some() {
        return Ok(Written::Taken);
    }
    let values: [&dyn Value; 6] = [
        &new.id,
        &key.id,
        &new.is_full,
        &new.min_faces.cast_signed(),
        &new.far,
        &micros(new.created_at),
    ];
    connection.execute(INSERT, &values).await?;
    audit::append(connection, audit.as_slice()).await?;
    Ok(Written::Done)
}

/// Cancels a clustering; see [`super::LibraryStore::cancel_clustering`]. Run it in a transaction.
pub(super) async fn cancel(
    connection: &mut impl Statements,
    key: CollectionKey<'_>,
    id: Uuid,
    (now, audit): (OffsetDateTime, Option<NewAuditEntry>),
) -> Result<Option<Clustering>, StoreError> {
    // A server that writes what it has found holds this lock.
    if !lock(connection, key).await? {
        return Ok(None);
    }
    let values: [&dyn Value; 3] = [&key.id, &id, &micros(now)];
    if connection.execute(CANCEL, &values).await? > 0 {
        audit::append(connection, audit.as_slice()).await?;
    }
    one(connection, key, id).await
}

pub(super) async fn one(
    connection: &mut impl Statements,
    key: CollectionKey<'_>,
    id: Uuid,
) -> Result<Option<Clustering>, StoreError> {
    let values: [&dyn Value; 3] = [&key.tenant, &key.id, &id];
    let row: Option<ClusteringRow> = connection.fetch_optional(ONE, &values).await?;
    row.map(Clustering::try_from).transpose()
}

pub(super) async fn list(
    connection: &mut impl Statements,
    key: CollectionKey<'_>,
    (before, limit): (Option<Uuid>, u32),
) -> Result<Vec<Clustering>, StoreError> {
    let (before, limit) = (before.unwrap_or(Uuid::max()), i64::from(limit));
    let values: [&dyn Value; 4] = [&key.tenant, &key.id, &before, &limit];
    let rows: Vec<ClusteringRow> = connection.fetch_all(LIST, &values).await?;
    rows.into_iter().map(Clustering::try_from).collect()
}

/// Returns the oldest clustering that no server works on.
pub(super) async fn next(
    connection: &mut impl Statements,
    now: OffsetDateTime,
) -> Result<Option<ClusteringRow>, StoreError> {
    Ok(connection.fetch_optional(NEXT, &[&micros(now)]).await?)
}

/// Leases the oldest clustering; see [`super::LibraryStore::lease_clustering`]. Run it in a transaction.
pub(super) async fn lease(
    connection: &mut impl Statements,
    now: OffsetDateTime,
    until: OffsetDateTime,
) -> Result<Option<LeasedClustering>, StoreError> {
    let Some(row) = next(connection, now).await? else {
        return Ok(None);
    };
    let Some(collection) = by_id(connection, row.collection_id).await? else {
        return Ok(None);
    };
    let attempt = row.attempt + 1;
    let values: [&dyn Value; 4] = [&row.id, &micros(now), &micros(until), &attempt];
    // Another server can lease it at the same moment. Then this one does nothing until its next try.
    if connection.execute(LEASE, &values).await? == 0 {
        return Ok(None);
    }
    let clustering = Clustering::try_from(row)?;
    Ok(Some(LeasedClustering {
        request: clustering.request,
        collection,
        attempt: attempt.cast_unsigned(),
    }))
}

/// Extends a lease; see [`super::LibraryStore::renew_clustering`].
pub(super) async fn renew(
    connection: &mut impl Statements,
    leased: &LeasedClustering,
    until: OffsetDateTime,
    progress: ClusteringProgress,
) -> Result<bool, StoreError> {
    let values: [&dyn Value; 5] = [
        &leased.request.id,
        &leased.attempt.cast_signed(),
        &micros(until),
        &progress.compared.cast_signed(),
        &progress.faces.cast_signed(),
    ];
    Ok(connection.execute(RENEW, &values).await? > 0)
}

/// Locks the library, and returns whether the lease is still the last one.
pub(super) async fn hold(
    connection: &mut impl Statements,
    leased: &LeasedClustering,
) -> Result<bool, StoreError> {
    let key = CollectionKey {
        tenant: &leased.collection.tenant,
        id: leased.collection.id,
    };
    if !lock(connection, key).await? {
        return Ok(false);
    }
    let values: [&dyn Value; 2] = [&leased.request.id, &leased.attempt.cast_signed()];
    Ok(connection.execute(HOLD, &values).await? > 0)
}

/// Ends a clustering; see [`super::LibraryStore::end_clustering`]. Run it in a transaction.
pub(super) async fn end(
    connection: &mut impl Statements,
    leased: &LeasedClustering,
    end: &ClusteringEnd,
    now: OffsetDateTime,
) -> Result<bool, StoreError> {
    let (state, progress, error) = match end {
        ClusteringEnd::Done(progress) => ("done", *progress, None),
        ClusteringEnd::Failed(error) => {
            ("failed", ClusteringProgress::default(), Some(error.clone()))
        }
    };
    if !hold(connection, leased).await? {
        return Ok(false);
    }
    let values: [&dyn Value; 10] = [
        &leased.request.id,
        &leased.attempt.cast_signed(),
        &state,
        &micros(now),
        &progress.compared.cast_signed(),
        &progress.faces.cast_signed(),
        &progress.people.cast_signed(),
        &progress.unassigned.cast_signed(),
        &progress.moved.cast_signed(),
        &error,
    ];
    Ok(connection.execute(END, &values).await? > 0)
}
