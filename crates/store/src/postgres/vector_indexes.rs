//! The extension pgvector: searches in `enrolments.vector`, and one HNSW index for each large collection.
//!
//! An index is partial, so it has the vectors of one collection. Postgres uses it only if the query has the id of the
//! collection as a constant. Therefore the id is in the text of the query, and the query is not kept prepared.

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres};
use uuid::Uuid;

use crate::{
    IndexPosition, StoreError,
    call::{query, snapshot},
    dialect::{Dialect, Statements},
    record::record,
    schema,
    sql_store::SqlStore,
    values::{Floats, Value},
    vector_indexes::{
        Graph, IndexWork, NearRow, NearRows, NearestRows, VectorIndex, VectorIndexStore,
    },
};

/// The dialect of the macros of `call`.
type DB = Postgres;

/// The start of an index's name. The id of the collection follows.
const PREFIX: &str = "enrolments_hnsw_";

/// The lock of the process that builds or drops an index. The number has no meaning.
const LOCK: &str = "SELECT pg_try_advisory_lock(7180369124405) AS is_locked";

const UNLOCK: &str = "SELECT pg_advisory_unlock(7180369124405)";

const EXTENSION: &str = "SELECT extversion AS version FROM pg_extension WHERE extname = 'vector'";

const INDEXES: &str = "SELECT c.relname::text AS name, i.indisvalid AS is_built, \
     pg_relation_size(i.indexrelid) AS bytes \
     FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
     WHERE i.indrelid = 'enrolments'::regclass AND starts_with(c.relname::text, $1)";

const HEAP: &str = "SELECT pg_table_size('enrolments') AS bytes";

/// Prepares the transaction for a search in an index. Returns no row if the index is not complete.
///
/// An iterative scan goes on after the first candidates until it has found the rows that are asked for. Without sorting, the
/// planner has no other plan than the index.
const PREPARE: &str = "SELECT set_config('hnsw.ef_search', $2, true) AS ef_search, \
     set_config('hnsw.iterative_scan', 'strict_order', true), set_config('enable_sort', 'off', true) \
     FROM pg_index WHERE indexrelid = to_regclass($1) AND indisvalid";

/// The most candidates that pgvector allows.
const MAX_CANDIDATES: u32 = 1000;

record! {
    struct VersionRow {
        version: String,
    }
}

record! {
    struct IndexRow {
        name: String,
        is_built: bool,
        bytes: i64,
    }
}

record! {
    struct BytesRow {
        bytes: i64,
    }
}

record! {
    struct LockRow {
        is_locked: bool,
    }
}

record! {
    struct PreparedRow {
        ef_search: String,
    }
}

record! {
    struct NearRecord {
        row_id: i64,
        distance: f64,
    }
}

#[async_trait]
impl VectorIndexStore for SqlStore<Postgres> {
    async fn vector_extension(&self) -> Result<Option<String>, StoreError> {
        query!(self, "vector_extension", |connection| extension(connection))
    }

    async fn nearest_rows(&self, search: NearestRows<'_>) -> Result<NearRows, StoreError> {
        snapshot!(self, "nearest_rows", |connection| nearest(
            connection, search
        ))
    }

    async fn vector_indexes(&self) -> Result<Vec<VectorIndex>, StoreError> {
        query!(self, "vector_indexes", |connection| indexes(connection))
    }

    async fn build_vector_index(
        &self,
        collection: IndexPosition,
        graph: Graph,
    ) -> Result<IndexWork, StoreError> {
        let work = async {
            let Some(mut connection) = self.locked().await? else {
                return Ok(IndexWork::Busy);
            };
            let done = build(&mut connection, collection, graph).await;
            let released = release(connection).await;
            done.and(released)?;
            Ok(IndexWork::Done)
        };
        self.observe_without_limit("build_vector_index", work).await
    }

    async fn drop_vector_index(&self, collection: Uuid) -> Result<IndexWork, StoreError> {
        let work = async {
            let Some(mut connection) = self.locked().await? else {
                return Ok(IndexWork::Busy);
            };
            let done = run(&mut connection, drop_statement(collection)).await;
            let released = release(connection).await;
            done.and(released)?;
            Ok(IndexWork::Done)
        };
        self.observe_without_limit("drop_vector_index", work).await
    }

    async fn enrolment_bytes(&self) -> Result<u64, StoreError> {
        query!(self, "enrolment_bytes", |connection| table_bytes(
            connection
        ))
    }
}

impl SqlStore<Postgres> {
    /// Returns a connection with the lock for building and dropping. `None` if another process has the lock.
    ///
    /// The connection does not belong to the pool, because a pool that closes waits for all of its connections, and the work
    /// can take hours. The end of the connection releases the lock, also if this process is killed.
    async fn locked(&self) -> Result<Option<PgConnection>, StoreError> {
        let mut connection = self.detached().await?;
        schema::check::<Postgres>(&mut connection).await?;
        let lock: Option<LockRow> = connection.fetch_optional(LOCK, &[]).await?;
        if lock.is_some_and(|lock| lock.is_locked) {
            return Ok(Some(connection));
        }
        connection.close().await?;
        Ok(None)
    }
}

/// Releases the lock. The server notices the end of a connection later than the next call may come.
async fn release(mut connection: PgConnection) -> Result<(), StoreError> {
    connection.execute(UNLOCK, &[]).await?;
    connection.close().await?;
    Ok(())
}

async fn extension(connection: &mut PgConnection) -> Result<Option<String>, StoreError> {
    let row: Option<VersionRow> = connection.fetch_optional(EXTENSION, &[]).await?;
    Ok(row.map(|row| row.version))
}

async fn table_bytes(connection: &mut PgConnection) -> Result<u64, StoreError> {
    let row: Option<BytesRow> = connection.fetch_optional(HEAP, &[]).await?;
    Ok(row.map_or(0, |row| row.bytes.cast_unsigned()))
}

async fn build(
    connection: &mut PgConnection,
    collection: IndexPosition,
    graph: Graph,
) -> Result<(), StoreError> {
    let id = collection.collection_id;
    let all = indexes(connection).await?;
    match all.iter().find(|index| index.collection == id) {
        Some(index) if index.is_built => return Ok(()),
        Some(_) => run(connection, drop_statement(id)).await?,
        None => {}
    }
    run(connection, build_statement(id, collection.dim, graph)).await
}

async fn run(connection: &mut PgConnection, statement: String) -> Result<(), StoreError> {
    connection.execute(AssertSqlSafe(statement), &[]).await?;
    Ok(())
}

fn index_name(collection: Uuid) -> String {
    format!("{PREFIX}{}", collection.simple())
}

/// The products of vectors of length 1 order them as their cosines do, and they are faster to compute.
fn build_statement(collection: Uuid, dim: u32, graph: Graph) -> String {
    let name = index_name(collection);
    let links = graph.links;
    let candidates = graph.build_candidates.max(2 * links);
    format!(
        "CREATE INDEX CONCURRENTLY {name} ON enrolments \
         USING hnsw ((vector::halfvec({dim})) halfvec_ip_ops) WITH (m = {links}, ef_construction = {candidates}) \
         WHERE collection_id = '{collection}'"
    )
}

fn drop_statement(collection: Uuid) -> String {
    let name = index_name(collection);
    format!("DROP INDEX CONCURRENTLY IF EXISTS {name}")
}

/// The index has 16-bit values. So a query of 32-bit values compares every row of the collection.
fn nearest_query(search: &NearestRows<'_>, is_exact: bool) -> String {
    let (collection, dim) = (search.collection, search.dim);
    let kind = if is_exact { "vector" } else { "halfvec" };
    format!(
        "SELECT row_id, vector::{kind}({dim}) <#> $1::{kind}({dim}) AS distance FROM enrolments \
         WHERE collection_id = '{collection}' \
         ORDER BY vector::{kind}({dim}) <#> $1::{kind}({dim}) LIMIT $2"
    )
}

/// Returns the nearest rows. Run it in a transaction.
async fn nearest(
    connection: &mut PgConnection,
    search: NearestRows<'_>,
) -> Result<NearRows, StoreError> {
    let is_exact = match search.candidates {
        Some(candidates) => {
            let candidates = candidates.max(search.rows).min(MAX_CANDIDATES);
            !prepare(connection, search.collection, candidates).await?
        }
        None => true,
    };
    let query = nearest_query(&search, is_exact);
    let mut rows = Vec::with_capacity(search.vectors.len());
    for vector in search.vectors {
        let (vector, limit) = (Floats(vector.clone()), i64::from(search.rows));
        let values: [&dyn Value; 2] = [&vector, &limit];
        let near: Vec<NearRecord> =
            sqlx::query_as_with(AssertSqlSafe(query.clone()), super::arguments(&values)?)
                .persistent(false)
                .fetch_all(&mut *connection)
                .await?;
        rows.push(near.into_iter().map(NearRow::from).collect());
    }
    Ok(NearRows { rows, is_exact })
}

/// Prepares the transaction for searches in the index. Returns false if the index is not complete.
async fn prepare(
    connection: &mut PgConnection,
    collection: Uuid,
    candidates: u32,
) -> Result<bool, StoreError> {
    let (name, candidates) = (index_name(collection), candidates.to_string());
    let values: [&dyn Value; 2] = [&name, &candidates];
    let prepared: Option<PreparedRow> = connection.fetch_optional(PREPARE, &values).await?;
    Ok(prepared.is_some_and(|row| row.ef_search == candidates))
}

async fn indexes(connection: &mut PgConnection) -> Result<Vec<VectorIndex>, StoreError> {
    let rows: Vec<IndexRow> = connection.fetch_all(INDEXES, &[&PREFIX]).await?;
    let index = |row: IndexRow| {
        Some(VectorIndex {
            collection: row.name.strip_prefix(PREFIX)?.parse().ok()?,
            is_built: row.is_built,
            bytes: row.bytes.cast_unsigned(),
        })
    };
    Ok(rows.into_iter().filter_map(index).collect())
}

impl From<NearRecord> for NearRow {
    fn from(row: NearRecord) -> Self {
        Self {
            row: row.row_id.cast_unsigned(),
            similarity: -row.distance as f32,
        }
    }
}
