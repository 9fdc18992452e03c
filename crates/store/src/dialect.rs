//! What the two databases have in common, and where they differ.

use std::future::Future;

use sqlx::migrate::{Migrate, Migrator};
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Database, FromRow};

use crate::values::Value;

/// How the files of a database give up deleted rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilePurge {
    /// The space of the rows is free, and later rows overwrite it.
    Free,
    /// No byte of the rows is left.
    Rewrite,
}

/// A database that the store can use.
pub(crate) trait Dialect: Database<Connection: Statements + Migrate> {
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

/// A type that is read from a row of either database.
pub(crate) trait Record:
    for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin
{
}

impl<T> Record for T where
    T: for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin
{
}

/// How the connections of one of the databases run statements, whose parameters are numbered; see
/// [`Connection`](crate::connection::Connection).
pub(crate) trait Statements: Send {
    /// Runs a statement and returns the number of rows that it changed.
    fn execute(
        &mut self,
        statement: String,
        values: &[&dyn Value],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Runs a query and returns its rows.
    fn fetch_all<R: Record>(
        &mut self,
        query: String,
        values: &[&dyn Value],
    ) -> impl Future<Output = Result<Vec<R>, sqlx::Error>> + Send;

    /// Runs a query whose text is another one each time, so that its plan is not kept, and returns its rows.
    fn fetch_all_once<R: Record>(
        &mut self,
        query: String,
        values: &[&dyn Value],
    ) -> impl Future<Output = Result<Vec<R>, sqlx::Error>> + Send;

    /// Runs a query and returns its first row, if it has one.
    fn fetch_optional<R: Record>(
        &mut self,
        query: String,
        values: &[&dyn Value],
    ) -> impl Future<Output = Result<Option<R>, sqlx::Error>> + Send;
}
