//! What an index reads: vectors, changes, and the rows that may be in an answer.

use sqlx::AssertSqlSafe;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    is_live, is_live_face,
    records::{CollectionKey, IndexChange, IndexPosition, IndexRow, LiveRow},
    rows::{ChangeRow, LiveVectorRow, VectorRow},
};
use crate::{
    StoreError,
    batches::micros,
    dialect::{Statements, placeholders},
    record::record,
    values::Value,
};

/// The rows of one statement.
const MAX_ROWS: usize = 500;

const POSITIONS: &str =
    "SELECT id, contract, dim, position, enrolled FROM collections WHERE NOT is_erased";

const POSITION: &str = "SELECT id, contract, dim, position, enrolled FROM collections \
     WHERE id = $1 AND NOT is_erased";

const ROWS: &str = "SELECT row_id, vector FROM enrolments \
     WHERE collection_id = $1 AND row_id > $2 ORDER BY row_id LIMIT $3";

const CHANGES: &str = "SELECT position, is_added, row_id FROM index_changes \
     WHERE collection_id = $1 AND position > $2 ORDER BY position LIMIT $3";

const TRIM: &str = "DELETE FROM index_changes WHERE collection_id = $1 AND position <= $2";

record! {
    struct PositionRow {
        id: Uuid,
        contract: String,
        dim: i32,
        position: i64,
        enrolled: i64,
    }
}

pub(super) async fn live(
    connection: &mut impl Statements,
    key: CollectionKey<'_>,
    rows: &[u64],
    now: OffsetDateTime,
) -> Result<Vec<LiveRow>, StoreError> {
    const SELECT: &str = concat!(
        "SELECT e.row_id, e.id, e.subject_id, e.face_id, e.created_at, e.vector, s.external_id, \
         m.person_id FROM enrolments e JOIN collections c ON c.id = e.collection_id \
         LEFT JOIN subjects s ON s.id = e.subject_id \
         LEFT JOIN memberships m ON m.row_id = e.row_id \
         WHERE c.tenant = $1 AND c.id = $2 AND (",
        is_live_face!("$3"),
        " OR ",
        is_live!("$3"),
        ") AND e.row_id IN "
    );
    let now = micros(now);
    let mut live = Vec::with_capacity(rows.len());
    for rows in rows.chunks(MAX_ROWS) {
        let rows: Vec<i64> = rows.iter().map(|row| row.cast_signed()).collect();
        let mut values: Vec<&dyn Value> = vec![&key.tenant, &key.id, &now];
        values.extend(rows.iter().map(|row| row as &dyn Value));
        let query = format!("{SELECT}{}", placeholders(4, 1, rows.len()));
        let found: Vec<LiveVectorRow> = connection.fetch_all(AssertSqlSafe(query), &values).await?;
        for row in found {
            live.push(row.try_into()?);
        }
    }
    Ok(live)
}

pub(super) async fn positions(
    connection: &mut impl Statements,
) -> Result<Vec<IndexPosition>, StoreError> {
    let rows: Vec<PositionRow> = connection.fetch_all(POSITIONS, &[]).await?;
    Ok(rows.into_iter().map(IndexPosition::from).collect())
}

pub(super) async fn position(
    connection: &mut impl Statements,
    collection: Uuid,
) -> Result<Option<IndexPosition>, StoreError> {
    let row: Option<PositionRow> = connection.fetch_optional(POSITION, &[&collection]).await?;
    Ok(row.map(IndexPosition::from))
}

impl From<PositionRow> for IndexPosition {
    fn from(row: PositionRow) -> Self {
        Self {
            collection_id: row.id,
            contract: row.contract,
            dim: row.dim.cast_unsigned(),
            position: row.position.cast_unsigned(),
            enrolled: row.enrolled.cast_unsigned(),
        }
    }
}

pub(super) async fn rows(
    connection: &mut impl Statements,
    collection: Uuid,
    after: u64,
    limit: u32,
) -> Result<Vec<IndexRow>, StoreError> {
    let values: [&dyn Value; 3] = [&collection, &after.cast_signed(), &i64::from(limit)];
    let rows: Vec<VectorRow> = connection.fetch_all(ROWS, &values).await?;
    Ok(rows.into_iter().map(IndexRow::from).collect())
}

pub(super) async fn rows_of(
    connection: &mut impl Statements,
    collection: Uuid,
    rows: &[u64],
) -> Result<Vec<IndexRow>, StoreError> {
    let mut found = Vec::with_capacity(rows.len());
    for rows in rows.chunks(MAX_ROWS) {
        let rows: Vec<i64> = rows.iter().map(|row| row.cast_signed()).collect();
        let mut values: Vec<&dyn Value> = vec![&collection];
        values.extend(rows.iter().map(|row| row as &dyn Value));
        let query = format!(
            "SELECT row_id, vector FROM enrolments WHERE collection_id = $1 AND row_id IN {}",
            placeholders(2, 1, rows.len())
        );
        let rows: Vec<VectorRow> = connection.fetch_all(AssertSqlSafe(query), &values).await?;
        found.extend(rows.into_iter().map(IndexRow::from));
    }
    Ok(found)
}

pub(super) async fn changes(
    connection: &mut impl Statements,
    collection: Uuid,
    after: u64,
    limit: u32,
) -> Result<Vec<IndexChange>, StoreError> {
    let values: [&dyn Value; 3] = [&collection, &after.cast_signed(), &i64::from(limit)];
    let rows: Vec<ChangeRow> = connection.fetch_all(CHANGES, &values).await?;
    Ok(rows.into_iter().map(IndexChange::from).collect())
}

pub(super) async fn trim(
    connection: &mut impl Statements,
    collection: Uuid,
    up_to: u64,
) -> Result<(), StoreError> {
    let values: [&dyn Value; 2] = [&collection, &up_to.cast_signed()];
    connection.execute(TRIM, &values).await?;
    Ok(())
}
