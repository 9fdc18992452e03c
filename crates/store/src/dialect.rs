//! The interface that the two databases share.

use std::future::Future;

use sqlx::migrate::{Migrate, Migrator};
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Database, FromRow, SqlSafeStr};

use super::values::Value;

/// How the files of a database give up deleted rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilePurge {
    /// The space of the rows is free, and later rows overwrite it.
    Free,
    /// No byte of the rows is left.
    Rewrite,
}

/// A database that the store can use.
pub(super) trait Dialect: Database<Connection: Statements + Migrate> {
    /// Begins a transaction in which all statements see the same rows.
    const BEGIN_READ: &'static str;
    /// Begins a transaction that changes rows.
    const BEGIN_WRITE: &'static str;

    /// Whether a connection is closed if its call is dropped before the end.
    const CLOSES_INTERRUPTED: bool;

    /// Selects the next chunk of batch `$1` that is ready at `$2`, and locks it if the database has several writers.
    const NEXT_CHUNK: &'static str;

    /// Returns the migrations that make the tables.
    fn migrator() -> &'static Migrator;

    /// Makes the files of the database give up deleted rows. Returns false if other connections prevent it now.
    fn purge_files(
        connection: &mut Self::Connection,
        purge: FilePurge,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;
}

/// A type that is read from a row of either database.
pub(super) trait Record:
    for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin
{
}

impl<T> Record for T where
    T: for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin
{
}

/// A connection that runs statements. Parameters are written `$1`, `$2` … in both databases.
pub(super) trait Statements: Send {
    /// Runs a statement and returns the number of rows that it changed.
    fn execute<S: SqlSafeStr + Send>(
        &mut self,
        statement: S,
        values: &[&dyn Value],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Runs a query and returns its rows.
    fn fetch_all<R: Record, S: SqlSafeStr + Send>(
        &mut self,
        query: S,
        values: &[&dyn Value],
    ) -> impl Future<Output = Result<Vec<R>, sqlx::Error>> + Send;

    /// Runs a query and returns its first row, if it has one.
    fn fetch_optional<R: Record>(
        &mut self,
        query: &'static str,
        values: &[&dyn Value],
    ) -> impl Future<Output = Result<Option<R>, sqlx::Error>> + Send;
}

/// The maximum number of parameters of one statement.
///
/// Both databases allow more: SQLite 32,766 and Postgres 65,535. But SQLite searches its list of parameter names once
/// for each parameter, so 32,000 parameters take seconds.
const MAX_PARAMETERS: usize = 1000;

/// Inserts rows of `N` values each, with many rows in one statement. `into` is `table (columns)`.
///
/// COPY is slower for the hundreds of rows of one call: sqlx sends its data and its end separately, and the second part waits
/// until Postgres has acknowledged the first, which takes 40 ms over TCP.
pub(super) async fn insert_rows<const N: usize>(
    connection: &mut impl Statements,
    into: &'static str,
    rows: &[[&dyn Value; N]],
) -> Result<(), sqlx::Error> {
    for rows in rows.chunks(MAX_PARAMETERS / N) {
        let values = placeholders(1, rows.len(), N);
        let statement = format!("INSERT INTO {into} VALUES {values}");
        connection
            .execute(AssertSqlSafe(statement), rows.as_flattened())
            .await?;
    }
    Ok(())
}

/// Writes the parameters of some rows, from `$first`: `($1, $2), ($3, $4)` for two rows of two columns from 1.
pub(super) fn placeholders(first: usize, rows: usize, columns: usize) -> String {
    let row = |row: usize| {
        let first = first + row * columns;
        let names: Vec<_> = (first..first + columns).map(|n| format!("${n}")).collect();
        format!("({})", names.join(", "))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::placeholders;

    #[test]
    fn placeholders_are_numbered_through_all_rows() {
        assert_eq!(placeholders(2, 1, 2), "($2, $3)");
        assert_eq!(placeholders(1, 1, 1), "($1)");
        assert_eq!(placeholders(1, 2, 3), "($1, $2, $3), ($4, $5, $6)");
    }
}
