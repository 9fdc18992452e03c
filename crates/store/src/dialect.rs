//! What the two databases have in common.

use std::future::Future;

use sqlx::migrate::{Migrate, Migrator};
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Database, FromRow, SqlSafeStr};

use super::values::Value;

/// A database the store can live in.
pub(super) trait Dialect: Database<Connection: Statements + Migrate> {
    /// Begins a transaction whose statements all see the same rows.
    const BEGIN_READ: &'static str;
    /// Begins a transaction that changes rows.
    const BEGIN_WRITE: &'static str;

    /// The tables, step by step.
    fn migrator() -> Migrator;
}

/// A row that either database can give.
pub(super) trait Record:
    for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin
{
}

impl<T> Record for T where
    T: for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin
{
}

/// A connection that runs statements. Parameters are `$1`, `$2` … in both databases.
pub(super) trait Statements: Send {
    /// Runs a statement and gives the number of rows it changed.
    fn execute<S: SqlSafeStr + Send>(
        &mut self,
        statement: S,
        values: &[&dyn Value],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Runs a query and gives its rows.
    fn fetch_all<R: Record>(
        &mut self,
        query: &'static str,
        values: &[&dyn Value],
    ) -> impl Future<Output = Result<Vec<R>, sqlx::Error>> + Send;

    /// Runs a query and gives its first row, if any.
    fn fetch_optional<R: Record>(
        &mut self,
        query: &'static str,
        values: &[&dyn Value],
    ) -> impl Future<Output = Result<Option<R>, sqlx::Error>> + Send;
}

/// Parameters in one statement. Both databases take more (SQLite 32766, Postgres 65535), but SQLite
/// searches its list of parameter names for each, so that 32000 of them take seconds.
const MAX_PARAMETERS: usize = 1000;

/// Inserts rows of `N` values each, many to a statement. `into` is `INSERT INTO table (columns)`.
pub(super) async fn insert_rows<const N: usize>(
    connection: &mut impl Statements,
    into: &'static str,
    rows: &[[&dyn Value; N]],
) -> Result<(), sqlx::Error> {
    for rows in rows.chunks(MAX_PARAMETERS / N) {
        let statement = format!("{into} VALUES {}", placeholders(rows.len(), N));
        connection
            .execute(AssertSqlSafe(statement), rows.as_flattened())
            .await?;
    }
    Ok(())
}

/// `($1, $2), ($3, $4)` for two rows of two columns.
fn placeholders(rows: usize, columns: usize) -> String {
    let row = |row: usize| {
        let first = row * columns + 1;
        let places: Vec<_> = (first..first + columns).map(|n| format!("${n}")).collect();
        format!("({})", places.join(", "))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::placeholders;

    #[test]
    fn placeholders_count_on_through_the_rows() {
        assert_eq!(placeholders(1, 1), "($1)");
        assert_eq!(placeholders(2, 3), "($1, $2, $3), ($4, $5, $6)");
    }
}
