//! Why the store could not do it.

use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;

/// Why a call to the store failed. Texts never hold the database's URL or its password.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is away, overloaded or full. The same call may succeed later, and may be
    /// repeated safely: only when the connection broke during the commit was the change perhaps
    /// made, and then the call finds it.
    #[error("the database is unavailable, try again later: {0}")]
    Unavailable(String),

    /// The tables are not there yet: the database was away when they would have been made.
    #[error("the database has no tables yet: {0}; run `facescan migrate`")]
    NotMigrated(String),

    /// The tables were made by another version of the program.
    #[error("the tables do not fit this version of the program: {0}")]
    Schema(String),

    /// A setting or a value that cannot be used; the text names it.
    #[error("{0}")]
    Invalid(String),

    /// A stored row, or the database file, cannot be read back.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),

    /// The database refused a statement: a defect of the program.
    #[error("the database refused a statement: {0}")]
    Refused(String),
}

impl StoreError {
    /// Whether the same call may succeed later without anything being repaired.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::NotMigrated(_))
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        use sqlx::Error as E;
        let text = error.to_string();
        match error {
            E::Database(error) => classify(error.as_ref()),
            E::Io(_)
            | E::Tls(_)
            | E::PoolTimedOut
            | E::PoolClosed
            | E::WorkerCrashed
            | E::BeginFailed
            // The stream broke off, or the server speaks nonsense: a new connection may not.
            | E::Protocol(_) => Self::Unavailable(text),
            E::Configuration(_) => Self::Invalid(format!(
                "{text}; the database URL is `postgres://user:password@host:port/database` or \
                 `sqlite://path?mode=rwc`"
            )),
            E::Decode(_) | E::ColumnDecode { .. } => Self::Corrupt(text),
            _ => Self::Refused(text),
        }
    }
}

impl From<MigrateError> for StoreError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
            other => Self::Schema(other.to_string()),
        }
    }
}

/// Sorts what the server itself answered.
fn classify(error: &dyn DatabaseError) -> StoreError {
    let text = error.message().to_owned();
    let code = error.code().unwrap_or_default();
    let is_postgres = error
        .try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
        .is_some();
    if is_postgres {
        postgres(&code, text)
    } else {
        sqlite(&code, text)
    }
}

/// By SQLSTATE: <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
fn postgres(code: &str, text: String) -> StoreError {
    match code {
        // Undefined table.
        "42P01" => StoreError::NotMigrated(text),
        // Serialisation failure and deadlock, lock or statement timeout, a standby that only reads,
        // a database that takes no connections for now, and one that does not exist (yet).
        "40001" | "40P01" | "55000" | "55P03" | "57014" | "25006" | "3D000" => {
            StoreError::Unavailable(text)
        }
        // Corrupted data, corrupted index.
        "XX001" | "XX002" => StoreError::Corrupt(text),
        _ => match code.get(..2) {
            // Connection, log-in, insufficient resources, operator intervention, system error.
            Some("08" | "28" | "53" | "57" | "58") => StoreError::Unavailable(text),
            _ => StoreError::Refused(text),
        },
    }
}

/// By result code, whose low byte is the primary one: <https://www.sqlite.org/rescode.html>.
fn sqlite(code: &str, text: String) -> StoreError {
    match code.parse::<u32>().map(|code| code & 0xff) {
        // Busy, locked, read-only, I/O error, full, cannot open.
        Ok(5 | 6 | 8 | 10 | 13 | 14) => StoreError::Unavailable(text),
        // Corrupt, not a database.
        Ok(11 | 26) => StoreError::Corrupt(text),
        Ok(1) if text.starts_with("no such table") => StoreError::NotMigrated(text),
        _ => StoreError::Refused(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shutdown_or_a_missing_table_may_pass_and_a_broken_rule_may_not() {
        for code in ["57P01", "57P03", "53300", "08006", "40P01", "42P01"] {
            assert!(postgres(code, String::new()).is_unavailable(), "{code}");
        }
        for code in ["23505", "42601", "XX001"] {
            assert!(!postgres(code, String::new()).is_unavailable(), "{code}");
        }
        // 261 is SQLITE_BUSY_RECOVERY and 2067 SQLITE_CONSTRAINT_UNIQUE.
        assert!(sqlite("5", String::new()).is_unavailable());
        assert!(sqlite("261", String::new()).is_unavailable());
        assert!(sqlite("1", "no such table: images".into()).is_unavailable());
        assert!(!sqlite("2067", String::new()).is_unavailable());
        assert!(matches!(
            sqlite("26", String::new()),
            StoreError::Corrupt(_)
        ));
    }

    #[test]
    fn errors_around_the_connection_may_pass() {
        let away = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert!(StoreError::from(sqlx::Error::Io(away)).is_unavailable());
        assert!(StoreError::from(sqlx::Error::PoolTimedOut).is_unavailable());
        let migrating = MigrateError::Execute(sqlx::Error::PoolTimedOut);
        assert!(StoreError::from(migrating).is_unavailable());
        assert!(matches!(
            StoreError::from(MigrateError::VersionMismatch(1)),
            StoreError::Schema(_)
        ));
    }
}
