//! The settings of the database connection.

use std::time::Duration;

use secrecy::SecretString;

/// The settings of the database connection.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// `postgres://…`, `postgresql://…`, `sqlite://path?mode=rwc` or `sqlite::memory:`.
    pub url: SecretString,
    /// The maximum number of connections that are open at once, at least 1. SQLite has one more, for writing.
    pub max_connections: u32,
    /// How long a call waits for a connection before it returns [`StoreError::Unavailable`](crate::StoreError::Unavailable). The
    /// wait includes the time to connect to a server that does not answer.
    pub acquire_timeout: Duration,
    /// How long a call may take, with the wait for a connection, before it returns
    /// [`StoreError::Unavailable`](crate::StoreError::Unavailable). Calls whose time depends on the number of stored rows have no
    /// limit: migrations, and changes to all items of a batch.
    pub call_timeout: Duration,
}
