//! How a call of the store uses its connection.
//!
//! [`query!`] runs one query on a connection, [`snapshot!`] runs several in a transaction in which all see the same rows,
//! and [`change!`] runs statements in a transaction that changes rows. Each reports the call by its name to the observer.
//!
//! The statements are the body of a closure. It may use `.await`, `?` and `return`, which end the call and not the method around
//! it.

use futures::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, PgConnection, Postgres, Sqlite};
use tokio::sync::OwnedSemaphorePermit;

use crate::connection::Connection;
use crate::dialect::Dialect;
use crate::error::StoreError;
use crate::schema;

/// A connection that one call uses.
///
/// A call that is dropped before its end has sent a statement whose response may never arrive, because the network can be
/// broken. The pool would wait for that response, so it gets the connection back only if [`finish`](Self::finish) was called.
///
/// A connection whose transaction failed because of the environment, such as a full disk, is closed. SQLite rolls such a
/// transaction back by itself, and the driver would take the connection to be in a transaction for ever.
pub(crate) struct CallConnection {
    connection: PooledConnection,
    state: CallState,
    /// What the next bulk call waits for.
    _turn: Option<OwnedSemaphorePermit>,
}

/// A connection of a pool of either database.
pub(crate) enum PooledConnection {
    Postgres(PoolConnection<Postgres>),
    Sqlite(PoolConnection<Sqlite>),
}

/// What becomes of a connection after a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallState {
    Running,
    Finished,
    Broken,
}

impl CallConnection {
    pub(crate) fn new(connection: PooledConnection) -> Self {
        Self {
            connection,
            state: CallState::Running,
            _turn: None,
        }
    }

    /// Keeps the turn of a bulk call until the end of the call.
    pub(crate) fn with_turn(mut self, turn: Option<OwnedSemaphorePermit>) -> Self {
        self._turn = turn;
        self
    }

    /// Returns the connection for statements outside a transaction.
    pub(crate) fn connection(&mut self) -> Connection<'_> {
        match &mut self.connection {
            PooledConnection::Postgres(connection) => Connection::Postgres(connection),
            PooledConnection::Sqlite(connection) => Connection::Sqlite(connection),
        }
    }

    /// Begins a transaction in which all queries see the same rows.
    pub(crate) async fn begin_read(&mut self) -> Result<Transaction<'_>, StoreError> {
        self.begin(Postgres::BEGIN_READ, Sqlite::BEGIN_READ).await
    }

    /// Begins a transaction that changes rows, if the tables are those of this version of the program.
    pub(crate) async fn begin_write(&mut self) -> Result<Transaction<'_>, StoreError> {
        let begun = self.begin(Postgres::BEGIN_WRITE, Sqlite::BEGIN_WRITE);
        let mut transaction = begun.await?;
        schema::check(&mut transaction.connection()).await?;
        Ok(transaction)
    }

    /// Begins a transaction for one call of the database, if that is more than one statement. It checks the tables itself.
    pub(crate) async fn begin_one(&mut self) -> Result<Transaction<'_>, StoreError> {
        Ok(match &mut self.connection {
            PooledConnection::Postgres(connection) => Transaction::OfStatement(connection),
            PooledConnection::Sqlite(connection) => {
                Transaction::Sqlite(connection.begin_with(Sqlite::BEGIN_WRITE).await?)
            }
        })
    }

    fn begin(
        &mut self,
        postgres: &'static str,
        sqlite: &'static str,
    ) -> BoxFuture<'_, Result<Transaction<'_>, StoreError>> {
        Box::pin(async move {
            Ok(match &mut self.connection {
                PooledConnection::Postgres(connection) => {
                    Transaction::Postgres(connection.begin_with(postgres).await?)
                }
                PooledConnection::Sqlite(connection) => {
                    Transaction::Sqlite(connection.begin_with(sqlite).await?)
                }
            })
        })
    }

    /// Records that every response has arrived.
    pub(crate) fn finish(&mut self) {
        self.state = CallState::Finished;
    }

    /// Records that every response has arrived, and how the transaction ended.
    pub(crate) fn finish_transaction<T>(&mut self, result: &Result<T, StoreError>) {
        self.state = match result {
            Err(StoreError::Unavailable(_)) => CallState::Broken,
            _ => CallState::Finished,
        };
    }
}

impl Drop for CallConnection {
    fn drop(&mut self) {
        let closes_interrupted = match &self.connection {
            PooledConnection::Postgres(_) => Postgres::CLOSES_INTERRUPTED,
            PooledConnection::Sqlite(_) => Sqlite::CLOSES_INTERRUPTED,
        };
        let is_usable = match self.state {
            CallState::Running => !closes_interrupted,
            CallState::Finished => true,
            CallState::Broken => false,
        };
        if !is_usable {
            match &mut self.connection {
                PooledConnection::Postgres(connection) => connection.close_on_drop(),
                PooledConnection::Sqlite(connection) => connection.close_on_drop(),
            }
        }
    }
}

/// A transaction on a connection of either database. It is rolled back if it is dropped.
pub(crate) enum Transaction<'c> {
    Postgres(sqlx::Transaction<'c, Postgres>),
    Sqlite(sqlx::Transaction<'c, Sqlite>),
    /// The transaction that Postgres makes of each statement.
    OfStatement(&'c mut PgConnection),
}

impl<'c> Transaction<'c> {
    /// Returns the connection for statements in the transaction.
    pub(crate) fn connection(&mut self) -> Connection<'_> {
        match self {
            Self::Postgres(transaction) => Connection::Postgres(transaction),
            Self::Sqlite(transaction) => Connection::Sqlite(transaction),
            Self::OfStatement(connection) => Connection::Postgres(connection),
        }
    }

    pub(crate) fn commit(self) -> BoxFuture<'c, Result<(), StoreError>> {
        Box::pin(async move {
            match self {
                Self::Postgres(transaction) => transaction.commit().await?,
                Self::Sqlite(transaction) => transaction.commit().await?,
                Self::OfStatement(_) => {}
            }
            Ok(())
        })
    }
}

/// Runs a query on a connection for reading. With `no_limit`, the call may take longer than other calls.
macro_rules! query {
    ($store:expr, $name:literal, |$connection:ident| $query:expr) => {
        $crate::call::query!(@observe, $store, $name, |$connection| $query)
    };
    ($store:expr, $name:literal, no_limit, |$connection:ident| $query:expr) => {
        $crate::call::query!(@observe_without_limit, $store, $name, |$connection| $query)
    };
    (@$observe:ident, $store:expr, $name:literal, |$connection:ident| $query:expr) => {
        $store
            .$observe(
                $name,
                Box::pin(async {
                    let mut acquired = $store.reader().await?;
                    let $connection = &mut acquired.connection();
                    let result: Result<_, $crate::error::StoreError> = async { $query }.await;
                    acquired.finish();
                    result
                }),
            )
            .await
    };
}

/// Runs statements in a transaction, which is committed if they succeed. [`snapshot!`] and [`change!`] name the method that
/// reports the call, and those that acquire its connection and begin its transaction.
macro_rules! transaction {
    ($store:expr, $observe:ident, $name:literal, ($acquire:ident, $begin:ident), |$connection:ident| $statements:expr) => {
        $store
            .$observe(
                $name,
                Box::pin(async {
                    let mut acquired = $store.$acquire().await?;
                    let result = async {
                        let mut transaction = acquired.$begin().await?;
                        let $connection = &mut transaction.connection();
                        let result: Result<_, $crate::error::StoreError> =
                            async { $statements }.await;
                        let result = result?;
                        transaction.commit().await?;
                        Ok(result)
                    };
                    let result = result.await;
                    acquired.finish_transaction(&result);
                    result
                }),
            )
            .await
    };
}

/// Runs queries in a transaction in which all of them see the same rows.
macro_rules! snapshot {
    ($store:expr, $name:literal, |$connection:ident| $queries:expr) => {
        $crate::call::transaction!(
            $store,
            observe,
            $name,
            (reader, begin_read),
            |$connection| $queries
        )
    };
}

/// Runs statements in a transaction that changes rows, if the tables are those of this version of the program. With `no_limit`,
/// the call may take longer than other calls. With `bulk`, it lets other calls go first. With `one`, it calls the database once, and
/// that call checks the tables.
macro_rules! change {
    ($store:expr, $name:literal, |$connection:ident| $statements:expr) => {
        $crate::call::transaction!(
            $store,
            observe,
            $name,
            (writer, begin_write),
            |$connection| $statements
        )
    };
    ($store:expr, $name:literal, no_limit, |$connection:ident| $statements:expr) => {
        $crate::call::transaction!(
            $store,
            observe_without_limit,
            $name,
            (writer, begin_write),
            |$connection| $statements
        )
    };
    ($store:expr, $name:literal, one, |$connection:ident| $statements:expr) => {
        $crate::call::transaction!($store, observe, $name, (writer, begin_one), |$connection| {
            $statements
        })
    };
    ($store:expr, $name:literal, bulk, |$connection:ident| $statements:expr) => {
        $crate::call::transaction!(
            $store,
            observe,
            $name,
            (bulk_writer, begin_write),
            |$connection| $statements
        )
    };
}

pub(crate) use {change, query, snapshot, transaction};
