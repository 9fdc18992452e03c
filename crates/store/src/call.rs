//! How a call of a store uses its connection.
//!
//! [`query!`] runs one query on a connection, [`snapshot!`] runs several in a transaction in which all see the same rows,
//! and [`change!`] runs statements in a transaction that changes rows. Each reports the call by its name to the observer.

use std::ops::{Deref, DerefMut};

use sqlx::{Pool, pool::PoolConnection};

use super::{StoreError, dialect::Dialect};

/// A connection that one call uses.
///
/// A call that is dropped before its end has sent a statement whose answer may never arrive, because the network can be
/// broken. The pool would wait for that answer, so it gets the connection back only if [`finish`](Self::finish) was called.
///
/// A connection whose transaction failed because of the environment, such as a full disk, is closed. SQLite rolls such a
/// transaction back by itself, and the driver would take the connection to be in a transaction for ever.
pub(super) struct CallConnection<DB: Dialect> {
    connection: PoolConnection<DB>,
    state: CallState,
}

/// What becomes of a connection after a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallState {
    Running,
    Finished,
    Broken,
}

impl<DB: Dialect> CallConnection<DB> {
    pub(super) async fn acquire(pool: &Pool<DB>) -> Result<Self, StoreError> {
        Ok(Self {
            connection: pool.acquire().await?,
            state: CallState::Running,
        })
    }

    /// Records that every answer has arrived.
    pub(super) fn finish(&mut self) {
        self.state = CallState::Finished;
    }

    /// Records that every answer has arrived, and how the transaction ended.
    pub(super) fn finish_transaction<T>(&mut self, result: &Result<T, StoreError>) {
        self.state = match result {
            Err(StoreError::Unavailable(_)) => CallState::Broken,
            _ => CallState::Finished,
        };
    }
}

impl<DB: Dialect> Drop for CallConnection<DB> {
    fn drop(&mut self) {
        let is_usable = match self.state {
            CallState::Running => !DB::CLOSES_INTERRUPTED,
            CallState::Finished => true,
            CallState::Broken => false,
        };
        if !is_usable {
            self.connection.close_on_drop();
        }
    }
}

impl<DB: Dialect> Deref for CallConnection<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.connection
    }
}

impl<DB: Dialect> DerefMut for CallConnection<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.connection
    }
}

/// Runs a query on a connection for reading. With `no limit`, the call may take longer than other calls.
macro_rules! query {
    ($store:ident, $name:literal, |$connection:ident| $query:expr) => {
        $store
            .observe($name, $crate::call::read!($store, |$connection| $query))
            .await
    };
    ($store:ident, $name:literal, no limit, |$connection:ident| $query:expr) => {
        $store
            .observe_without_limit($name, $crate::call::read!($store, |$connection| $query))
            .await
    };
}

/// A query on a connection for reading.
macro_rules! read {
    ($store:ident, |$connection:ident| $query:expr) => {
        async {
            let mut acquired = $store.reader().await?;
            let $connection = &mut *acquired;
            let result = $query.await;
            acquired.finish();
            result
        }
    };
}

/// Runs queries in a transaction in which all of them see the same rows.
macro_rules! snapshot {
    ($store:ident, $name:literal, |$connection:ident| $queries:expr) => {
        $store
            .observe(
                $name,
                $crate::call::transaction!($store.reader(), DB::BEGIN_READ, |$connection| $queries),
            )
            .await
    };
}

/// Runs statements in a transaction that changes rows, if the tables are those of this version of the program. With `no limit`, the call may take longer than other calls.
macro_rules! change {
    ($store:ident, $name:literal, |$connection:ident| $statements:expr) => {
        $store
            .observe(
                $name,
                $crate::call::transaction!($store.writer(), DB::BEGIN_WRITE, |$connection| async {
                    $crate::schema::check::<DB>(&mut *$connection).await?;
                    $statements.await
                }),
            )
            .await
    };
    ($store:ident, $name:literal, no limit, |$connection:ident| $statements:expr) => {
        $store
            .observe_without_limit(
                $name,
                $crate::call::transaction!($store.writer(), DB::BEGIN_WRITE, |$connection| async {
                    $crate::schema::check::<DB>(&mut *$connection).await?;
                    $statements.await
                }),
            )
            .await
    };
}

/// A transaction on a connection. It is committed if the statements succeed.
macro_rules! transaction {
    ($acquire:expr, $begin:expr, |$connection:ident| $statements:expr) => {
        async {
            let mut acquired = $acquire.await?;
            let result = async {
                let mut transaction = sqlx::Connection::begin_with(&mut *acquired, $begin).await?;
                let $connection = &mut *transaction;
                let result = $statements.await?;
                transaction.commit().await?;
                Ok(result)
            };
            let result = result.await;
            acquired.finish_transaction(&result);
            result
        }
    };
}

pub(super) use {change, query, read, snapshot, transaction};
