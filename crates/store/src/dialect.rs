//! What the two databases have in common, and where they differ.

use std::future::Future;

use sqlx::Database;
use sqlx::migrate::{Migrate, Migrator};

/// How the files of a database give up deleted rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilePurge {
    /// The space of the rows is free, and later rows overwrite it.
    Free,
    /// No byte of the rows is left.
    Rewrite,
}

/// A database that the store can use.
pub(crate) trait Dialect: Database<Connection: Migrate> {
    /// Begins a transaction in which all statements see the same rows.
    const BEGIN_READ: &'static str;
    /// Begins a transaction that changes rows.
    const BEGIN_WRITE: &'static str;

    /// Whether a connection is closed if its call is dropped before the end.
    const CLOSES_INTERRUPTED: bool;

    /// Returns the migrations that make the tables.
    fn migrator() -> &'static Migrator;

    /// Makes the files of the database give up deleted rows. Returns false if other connections prevent it now.
    fn purge_files(
        connection: &mut Self::Connection,
        purge: FilePurge,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;
}

/// Settings of each connection to Postgres that make plans independent of statistics: rows are found by an index, one join after
/// the other. A plan that was made while a table was empty reads every row of it later, and each connection keeps its plans until
/// the tables are analyzed. The tests of [`prepared`](crate::prepared) read the plans that these settings give.
pub(crate) const PLANS: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
     SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
     SET max_parallel_workers_per_gather = 0; SET jit = off";
