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

/// Implements [`Statements`] for a connection. `$bind` adds a value to the arguments, and `$is_kept` decides whether the plan of
/// a statement is kept for the next call. By default it is.
macro_rules! statements_of {
    ($connection:ty, $arguments:ty, $bind:ident $(, $is_kept:ident)?) => {
        impl $crate::dialect::Statements for $connection {
            async fn execute(
                &mut self,
                statement: String,
                values: &[&dyn Value],
            ) -> Result<u64, sqlx::Error> {
                let done = sqlx::query_with(AssertSqlSafe(statement), arguments(values)?)
                    $(.persistent($is_kept(values)))?
                    .execute(self)
                    .await?;
                Ok(done.rows_affected())
            }

            async fn fetch_all<R: Record>(
                &mut self,
                query: String,
                values: &[&dyn Value],
            ) -> Result<Vec<R>, sqlx::Error> {
                sqlx::query_as_with(AssertSqlSafe(query), arguments(values)?)
                    $(.persistent($is_kept(values)))?
                    .fetch_all(self)
                    .await
            }

            async fn fetch_all_once<R: Record>(
                &mut self,
                query: String,
                values: &[&dyn Value],
            ) -> Result<Vec<R>, sqlx::Error> {
                sqlx::query_as_with(AssertSqlSafe(query), arguments(values)?)
                    .persistent(false)
                    .fetch_all(self)
                    .await
            }

            async fn fetch_optional<R: Record>(
                &mut self,
                query: String,
                values: &[&dyn Value],
            ) -> Result<Option<R>, sqlx::Error> {
                sqlx::query_as_with(AssertSqlSafe(query), arguments(values)?)
                    .fetch_optional(self)
                    .await
            }
        }

        fn arguments(values: &[&dyn Value]) -> Result<$arguments, sqlx::Error> {
            let mut arguments = <$arguments>::default();
            for value in values {
                value.$bind(&mut arguments).map_err(sqlx::Error::Encode)?;
            }
            Ok(arguments)
        }
    };
}
pub(crate) use statements_of;
