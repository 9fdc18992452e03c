//! The extension pgvector: searches in `enrollments.vector`, and one HNSW index for each large collection.
//!
//! An index is partial, so it has the vectors of one collection. Postgres uses it only if the query has the id of the
//! collection as a constant. Therefore the id is in the text of the query, and the query is not kept prepared.

use sqlx::{Connection as _, PgConnection, PgPool};
use uuid::Uuid;

use crate::call::{query, snapshot};
use crate::collections::IndexPosition;
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::pools::Pools;
use crate::record::{Columns, Record, record};
use crate::schema;
use crate::store::Store;

use super::records::{Graph, IndexWork, NearRow, NearRows, NearestRows, VectorIndex};

/// The start of an index's name. The id of the collection follows.
const PREFIX: &str = "enrollments_hnsw_";

crate::prepared::statements! {
    /// The lock of the process that builds or drops an index. The number has no meaning.
    const LOCK = "SELECT pg_try_advisory_lock(7180369124405)", only postgres;

    const UNLOCK = "SELECT pg_advisory_unlock(7180369124405)", only postgres;

    const EXTENSION = "SELECT extversion AS version FROM pg_extension WHERE extname = 'vector'", only postgres;

    const INDEXES = "SELECT c.relname::text AS name, i.indisvalid AS is_built, \
         pg_relation_size(i.indexrelid) AS bytes \
         FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
         WHERE i.indrelid = 'enrollments'::regclass AND starts_with(c.relname::text, :prefix)", only postgres;

    const HEAP = "SELECT pg_table_size('enrollments') AS bytes", only postgres;

    /// Prepares the transaction for a search in an index. Returns no row if the index is not complete.
    ///
    /// An iterative scan goes on after the first candidates until it has found the rows that are asked for. Without sorting, the
    /// planner has no other plan than the index.
    const PREPARE = "SELECT set_config('hnsw.ef_search', :candidates, true) AS ef_search, \
         set_config('hnsw.iterative_scan', 'strict_order', true), set_config('enable_sort', 'off', true) \
         FROM pg_index WHERE indexrelid = to_regclass(:name) AND indisvalid", only postgres;
}

/// The most candidates that pgvector allows.
const MAX_CANDIDATES: u32 = 1000;

impl Record for NearRow {
    fn from_row(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let distance: f64 = row.get("distance")?;
        Ok(Self {
            row: row.number("row_id")?,
            similarity: -distance as f32,
        })
    }
}

record! {
    struct IndexRow {
        name: String,
        is_built: bool,
        bytes: i64,
    }
}

/// Vectors of collections that the database itself compares.
///
/// # Errors
///
/// As for [`Store`].
#[derive(Clone)]
pub struct VectorIndexes {
    store: Store,
    pool: PgPool,
}

impl Store {
    /// Returns the searches for similar vectors inside the database. `None` if the database cannot compare vectors.
    pub fn vector_indexes(&self) -> Option<VectorIndexes> {
        let Pools::Postgres { pool, .. } = self.pools() else {
            return None;
        };
        Some(VectorIndexes {
            store: self.clone(),
            pool: pool.clone(),
        })
    }
}

impl VectorIndexes {
    /// Returns the version of the database's extension for vectors. `None` if the database has not created it.
    pub async fn vector_extension(&self) -> Result<Option<String>, StoreError> {
        query!(self.store, "vector_extension", |connection| {
            Ok(connection.fetch_optional(EXTENSION, params!()).await?)
        })
    }

    /// Returns the rows of a collection that are most similar to vectors, whether or not they may be in a response.
    pub async fn nearest_rows(&self, search: NearestRows<'_>) -> Result<NearRows, StoreError> {
        snapshot!(self.store, "nearest_rows", |connection| nearest(
            connection, search
        )
        .await)
    }

    /// Returns the indexes of all collections, also of those that no longer exist.
    pub async fn vector_indexes(&self) -> Result<Vec<VectorIndex>, StoreError> {
        query!(self.store, "vector_indexes", |connection| indexes(
            connection
        )
        .await)
    }

    /// Builds the index of a collection. An incomplete one is dropped first, and a complete one stays, also with another
    /// graph.
    ///
    /// Enrollments, erasures and searches go on meanwhile. This can take hours.
    pub async fn build_vector_index(
        &self,
        collection: IndexPosition,
        graph: Graph,
    ) -> Result<IndexWork, StoreError> {
        let (id, new) = (collection.collection_id, Some((collection.dim, graph)));
        self.work("build_vector_index", id, new).await
    }

    /// Drops the index of a collection, if there is one.
    pub async fn drop_vector_index(&self, collection: Uuid) -> Result<IndexWork, StoreError> {
        self.work("drop_vector_index", collection, None).await
    }

    /// Builds the index of a collection, or drops it without the dimension and the graph of a new one.
    async fn work(
        &self,
        name: &'static str,
        collection: Uuid,
        new: Option<(u32, Graph)>,
    ) -> Result<IndexWork, StoreError> {
        let work = Box::pin(async {
            let Some(mut locked) = self.locked().await? else {
                return Ok(IndexWork::Busy);
            };
            let connection = &mut Connection::Postgres(&mut locked);
            let done = match new {
                Some(new) => build(connection, collection, new).await,
                None => run(connection, drop_statement(collection)).await,
            };
            let released = release(locked).await;
            done.and(released)?;
            Ok(IndexWork::Done)
        });
        self.store.observe_without_limit(name, work).await
    }

    /// Returns the size in bytes of the rows of all collections, without their indexes.
    pub async fn enrollment_bytes(&self) -> Result<u64, StoreError> {
        query!(self.store, "enrollment_bytes", |connection| {
            Ok(connection.fetch_one(HEAP, params!()).await?)
        })
    }

    /// Returns a connection with the lock for building and dropping. `None` if another process has the lock.
    ///
    /// The connection does not belong to the pool, because a pool that closes waits for all of its connections, and the work
    /// can take hours. The end of the connection releases the lock, also if this process is killed.
    async fn locked(&self) -> Result<Option<PgConnection>, StoreError> {
        let mut detached = self.pool.acquire().await?.detach();
        let connection = &mut Connection::Postgres(&mut detached);
        schema::check(connection).await?;
        if connection.fetch_one(LOCK, params!()).await? {
            return Ok(Some(detached));
        }
        detached.close().await?;
        Ok(None)
    }
}

/// Releases the lock. The server notices the end of a connection later than the next call may come.
async fn release(mut locked: PgConnection) -> Result<(), StoreError> {
    Connection::Postgres(&mut locked)
        .execute(UNLOCK, params!())
        .await?;
    locked.close().await?;
    Ok(())
}

async fn build(
    connection: &mut Connection<'_>,
    collection: Uuid,
    (dim, graph): (u32, Graph),
) -> Result<(), StoreError> {
    let all = indexes(connection).await?;
    match all.iter().find(|index| index.collection == collection) {
        Some(index) if index.is_built => return Ok(()),
        Some(_) => run(connection, drop_statement(collection)).await?,
        None => {}
    }
    run(connection, build_statement(collection, dim, graph)).await
}

async fn run(connection: &mut Connection<'_>, statement: String) -> Result<(), StoreError> {
    connection.execute_text(&statement, params!()).await?;
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
        "CREATE INDEX CONCURRENTLY {name} ON enrollments \
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
        "SELECT row_id, vector::{kind}({dim}) <#> :vector::{kind}({dim}) AS distance FROM enrollments \
         WHERE collection_id = '{collection}' \
         ORDER BY vector::{kind}({dim}) <#> :vector::{kind}({dim}) LIMIT :limit"
    )
}

/// Returns the nearest rows. Run it in a transaction.
async fn nearest(
    connection: &mut Connection<'_>,
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
        let values = params!(vector = *vector, limit = search.rows);
        let near = connection.fetch_all_once(&query, values).await?;
        rows.push(near);
    }
    Ok(NearRows { rows, is_exact })
}

/// Prepares the transaction for searches in the index. Returns false if the index is not complete.
async fn prepare(
    connection: &mut Connection<'_>,
    collection: Uuid,
    candidates: u32,
) -> Result<bool, StoreError> {
    let (name, candidates) = (index_name(collection), candidates.to_string());
    let values = params!(name, candidates);
    let prepared: Option<String> = connection.fetch_optional(PREPARE, values).await?;
    Ok(prepared.is_some_and(|ef_search| ef_search == candidates))
}

async fn indexes(connection: &mut Connection<'_>) -> Result<Vec<VectorIndex>, StoreError> {
    let rows: Vec<IndexRow> = connection
        .fetch_all(INDEXES, params!(prefix = PREFIX))
        .await?;
    let index = |row: IndexRow| {
        Some(VectorIndex {
            collection: row.name.strip_prefix(PREFIX)?.parse().ok()?,
            is_built: row.is_built,
            bytes: row.bytes.cast_unsigned(),
        })
    };
    Ok(rows.into_iter().filter_map(index).collect())
}
