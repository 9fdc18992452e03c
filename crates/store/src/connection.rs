//! A connection of either database.
//!
//! The code of an `async fn` is compiled with each crate that awaits it. What all calls do returns a [`BoxFuture`], so that this crate
//! compiles it, once.

use std::iter;

use futures::future::BoxFuture;
use futures::stream::TryStreamExt as _;
use sqlx::migrate::Migrator;
use sqlx::{PgConnection, Postgres, Sqlite, SqliteConnection};

use crate::dialect::{Dialect, FilePurge};
use crate::parameters::{Numbered, Params, params};
use crate::prepared::Statement;
use crate::record::{Columns, Record};
use crate::values::{Rows, Value};

/// A connection that the statements of one call use.
pub(crate) enum Connection<'c> {
    Postgres(&'c mut PgConnection),
    Sqlite(&'c mut SqliteConnection),
}

impl Connection<'_> {
    /// Runs a statement and returns the number of rows that it changed.
    pub(crate) async fn execute(
        &mut self,
        statement: Statement,
        params: &Params<'_>,
    ) -> Result<u64, sqlx::Error> {
        self.execute_text(statement.text(), params).await
    }

    /// Runs a statement whose text is made for this call, and returns the number of rows that it changed.
    ///
    /// The text must have no part that comes from a caller.
    pub(crate) async fn execute_text(
        &mut self,
        statement: &str,
        params: &Params<'_>,
    ) -> Result<u64, sqlx::Error> {
        self.changed(Numbered::new(statement, params)?).await
    }

    fn changed<'a>(
        &'a mut self,
        statement: Numbered<'a>,
    ) -> BoxFuture<'a, Result<u64, sqlx::Error>> {
        Box::pin(async move {
            Ok(match self {
                Self::Postgres(connection) => {
                    let done = statement.for_postgres()?.execute(&mut **connection);
                    done.await?.rows_affected()
                }
                Self::Sqlite(connection) => {
                    let done = statement.for_sqlite()?.execute(&mut **connection);
                    done.await?.rows_affected()
                }
            })
        })
    }

    /// Runs a query and returns its rows.
    pub(crate) async fn fetch_all<R: Record>(
        &mut self,
        query: Statement,
        params: &Params<'_>,
    ) -> Result<Vec<R>, sqlx::Error> {
        self.fetch(Numbered::new(query.text(), params)?).await
    }

    /// Runs a query whose text is made for this call, and returns its rows.
    ///
    /// The text must have no part that comes from a caller.
    pub(crate) async fn fetch_all_text<R: Record>(
        &mut self,
        query: &str,
        params: &Params<'_>,
    ) -> Result<Vec<R>, sqlx::Error> {
        self.fetch(Numbered::new(query, params)?).await
    }

    /// Runs a query whose text is made for this call, so that its plan is not kept, and returns its rows.
    ///
    /// The text must have no part that comes from a caller.
    pub(crate) async fn fetch_all_once<R: Record>(
        &mut self,
        query: &str,
        params: &Params<'_>,
    ) -> Result<Vec<R>, sqlx::Error> {
        let mut query = Numbered::new(query, params)?;
        query.is_kept = false;
        self.fetch(query).await
    }

    async fn fetch<R: Record>(&mut self, query: Numbered<'_>) -> Result<Vec<R>, sqlx::Error> {
        let mut records = Vec::new();
        let mut read = |row: &Columns<'_>| {
            records.push(R::from_row(row)?);
            Ok(())
        };
        self.for_each_row(query, &mut read).await?;
        Ok(records)
    }

    fn for_each_row<'a>(
        &'a mut self,
        query: Numbered<'a>,
        read: &'a mut (dyn FnMut(&Columns<'_>) -> Result<(), sqlx::Error> + Send),
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move {
            match self {
                Self::Postgres(connection) => {
                    let mut rows = query.for_postgres()?.fetch(&mut **connection);
                    while let Some(row) = rows.try_next().await? {
                        read(&Columns::Postgres(&row))?;
                    }
                }
                Self::Sqlite(connection) => {
                    let mut rows = query.for_sqlite()?.fetch(&mut **connection);
                    while let Some(row) = rows.try_next().await? {
                        read(&Columns::Sqlite(&row))?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Runs a query and returns its first row, if it has one.
    pub(crate) async fn fetch_optional<R: Record>(
        &mut self,
        query: Statement,
        params: &Params<'_>,
    ) -> Result<Option<R>, sqlx::Error> {
        let rows = self.fetch_all(query, params).await?;
        Ok(rows.into_iter().next())
    }

    /// Runs a query that always has a row, and returns it.
    pub(crate) async fn fetch_one<R: Record>(
        &mut self,
        query: Statement,
        params: &Params<'_>,
    ) -> Result<R, sqlx::Error> {
        let row = self.fetch_optional(query, params).await?;
        row.ok_or(sqlx::Error::RowNotFound)
    }

    /// Returns whether a query has a row.
    pub(crate) async fn exists(
        &mut self,
        query: Statement,
        params: &Params<'_>,
    ) -> Result<bool, sqlx::Error> {
        let row: Option<()> = self.fetch_optional(query, params).await?;
        Ok(row.is_some())
    }

    /// Returns whether other connections can write at the same time, so that rows need locks.
    pub(crate) fn has_several_writers(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Fails a statement of this transaction that waits for more than a second for a row that another one has locked.
    pub(crate) fn limit_lock_waits(&mut self) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            if let Self::Postgres(connection) = self {
                let limit = sqlx::query("SET LOCAL lock_timeout = '1s'");
                limit.execute(&mut **connection).await?;
            }
            Ok(())
        })
    }

    /// Returns the migrations that make the tables.
    pub(crate) fn migrator(&self) -> &'static Migrator {
        match self {
            Self::Postgres(_) => Postgres::migrator(),
            Self::Sqlite(_) => Sqlite::migrator(),
        }
    }

    /// Runs the migrations that the database does not have yet, each in a transaction of its own.
    pub(crate) async fn migrate(&mut self) -> Result<(), sqlx::migrate::MigrateError> {
        let migrator = self.migrator();
        match self {
            Self::Postgres(connection) => migrator.run_direct(None, &mut **connection, false).await,
            Self::Sqlite(connection) => migrator.run_direct(None, &mut **connection, false).await,
        }
    }

    /// Makes the files of the database give up deleted rows. Returns false if other connections prevent it now.
    pub(crate) async fn purge_files(&mut self, purge: FilePurge) -> Result<bool, sqlx::Error> {
        match self {
            Self::Postgres(connection) => Postgres::purge_files(connection, purge).await,
            Self::Sqlite(connection) => Sqlite::purge_files(connection, purge).await,
        }
    }
}

/// The maximum number of parameters of one statement.
///
/// Both databases allow more: SQLite 32,766 and Postgres 65,535. But SQLite searches its list of parameter names once
/// for each parameter, so 32,000 parameters take seconds.
const MAX_PARAMETERS: usize = 1000;

/// Divides rows into those of one statement each. Their numbers are powers of two, so that a statement has few texts, and a
/// connection keeps the plan of each.
pub(crate) fn pieces<T, const N: usize>(mut rows: &[[T; N]]) -> impl Iterator<Item = &[[T; N]]> {
    iter::from_fn(move || {
        let most = rows.len().min(MAX_PARAMETERS / N);
        let (piece, rest) = rows.split_at(1 << most.checked_ilog2()?);
        rows = rest;
        Some(piece)
    })
}

/// Inserts rows of `N` values each, with many rows in one statement. `into` is `table (columns)`.
///
/// COPY is slower for the hundreds of rows of one call: sqlx sends its data and its end separately, and the second part waits
/// until Postgres has acknowledged the first, which takes 40 ms over TCP.
pub(crate) async fn insert_rows<const N: usize>(
    connection: &mut Connection<'_>,
    into: &'static str,
    rows: &[[&dyn Value; N]],
) -> Result<(), sqlx::Error> {
    let statement = format!("INSERT INTO {into} VALUES :rows");
    for rows in pieces(rows) {
        connection
            .execute_text(&statement, params!(rows = Rows(rows)))
            .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_all_rows_in_few_sizes() {
        fn sizes<const N: usize>(rows: &[[usize; N]]) -> Vec<usize> {
            assert!(pieces(rows).flatten().eq(rows));
            pieces(rows).map(<[_]>::len).collect()
        }
        assert_eq!(sizes(&[[7; 13]; 157]), [64, 64, 16, 8, 4, 1]);
        assert_eq!(sizes(&[[7; 1]; 157]), [128, 16, 8, 4, 1]);
        assert_eq!(sizes::<5>(&[]), [0; 0]);
    }
}
