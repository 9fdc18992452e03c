//! What an index reads: vectors, changes, and the rows that may be in a response.

use time::OffsetDateTime;
use uuid::Uuid;

use super::live::{is_live, is_live_face};
use super::records::{CollectionKey, IndexChange, IndexPosition, IndexRow, LiveRow};
use crate::call::{change, query};
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;
use crate::times::micros;
use crate::values::Many;

/// The rows of one statement.
const MAX_ROWS: usize = 500;

crate::prepared::statements! {
    const POSITIONS =
        "SELECT id, vector_space, dim, position, enrolled FROM collections WHERE NOT is_erased", scans "the position of each collection";

    const POSITION = "SELECT id, vector_space, dim, position, enrolled FROM collections \
         WHERE id = :collection AND NOT is_erased";

    const ROWS = "SELECT row_id, vector FROM enrollments \
         WHERE collection_id = :collection AND row_id > :after ORDER BY row_id LIMIT :limit";

    const ROWS_OF = "SELECT row_id, vector FROM enrollments WHERE collection_id = :collection AND row_id IN (:rows)";

    const CHANGES = "SELECT position, is_added, row_id FROM index_changes \
         WHERE collection_id = :collection AND position > :after ORDER BY position LIMIT :limit";

    const TRIM =
        "DELETE FROM index_changes WHERE collection_id = :collection AND position <= :up_to";

    const LIVE = concat!(
        "SELECT e.row_id, e.id, e.subject_id, e.face_id, e.created_at, e.vector, s.external_id, \
         m.person_id FROM enrollments e JOIN collections c ON c.id = e.collection_id \
         LEFT JOIN subjects s ON s.id = e.subject_id \
         LEFT JOIN memberships m ON m.row_id = e.row_id \
         WHERE c.tenant = :tenant AND c.id = :collection AND (",
        is_live_face!(),
        " OR ",
        is_live!(),
        ") AND e.row_id IN (:rows)"
    );
}

impl Store {
    /// Returns the rows that may be in a response at the time `now`: those of this collection of this tenant, whose subject's
    /// time is not over and whose consent is valid where the collection requires one. The order is any.
    pub async fn live_rows(
        &self,
        key: CollectionKey<'_>,
        rows: &[u64],
        now: OffsetDateTime,
    ) -> Result<Vec<LiveRow>, StoreError> {
        query!(self, "live_rows", |connection| {
            let now = micros(now);
            let mut live = Vec::with_capacity(rows.len());
            for rows in rows.chunks(MAX_ROWS) {
                let values = params!(
                    tenant = key.tenant,
                    collection = key.id,
                    now,
                    rows = Many(rows)
                );
                live.extend(connection.fetch_all::<LiveRow>(LIVE, values).await?);
            }
            Ok(live)
        })
    }

    /// Returns the number of changes of each collection so far.
    pub async fn index_positions(&self) -> Result<Vec<IndexPosition>, StoreError> {
        query!(self, "index_positions", |connection| {
            Ok(connection.fetch_all(POSITIONS, params!()).await?)
        })
    }

    /// Returns the number of changes of a collection so far. `None` if it does not exist or is being erased.
    pub async fn index_position(
        &self,
        collection: Uuid,
    ) -> Result<Option<IndexPosition>, StoreError> {
        query!(self, "index_position", |connection| {
            let values = params!(collection);
            Ok(connection.fetch_optional(POSITION, values).await?)
        })
    }

    /// Returns rows of a collection after the row `after`, in order, whether or not they may be in a response.
    pub async fn index_rows(
        &self,
        collection: Uuid,
        after: u64,
        limit: u32,
    ) -> Result<Vec<IndexRow>, StoreError> {
        query!(self, "index_rows", |connection| {
            let values = params!(collection, after, limit);
            Ok(connection.fetch_all(ROWS, values).await?)
        })
    }

    /// Returns these rows of a collection, in any order. Rows that were removed are skipped.
    pub async fn index_rows_of(
        &self,
        collection: Uuid,
        rows: &[u64],
    ) -> Result<Vec<IndexRow>, StoreError> {
        query!(self, "index_rows_of", |connection| {
            let mut found = Vec::with_capacity(rows.len());
            for rows in rows.chunks(MAX_ROWS) {
                let values = params!(collection, rows = Many(rows));
                found.extend(connection.fetch_all::<IndexRow>(ROWS_OF, values).await?);
            }
            Ok(found)
        })
    }

    /// Returns changes of a collection after the position `after`, in order. Old changes may be missing.
    pub async fn index_changes(
        &self,
        collection: Uuid,
        after: u64,
        limit: u32,
    ) -> Result<Vec<IndexChange>, StoreError> {
        query!(self, "index_changes", |connection| {
            let values = params!(collection, after, limit);
            Ok(connection.fetch_all(CHANGES, values).await?)
        })
    }

    /// Deletes the changes of a collection up to a position.
    pub async fn trim_index_changes(&self, collection: Uuid, up_to: u64) -> Result<(), StoreError> {
        change!(self, "trim_index_changes", |connection| {
            let values = params!(collection, up_to);
            connection.execute(TRIM, values).await?;
            Ok(())
        })
    }
}
