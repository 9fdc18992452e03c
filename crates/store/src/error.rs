//! The reason why a call to the store failed.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;

use crate::values::NulInText;

/// The reason why a call to the store failed.
///
/// The message says what to do. The source has the error of the database or the driver. Neither text contains the user
/// or the password of the database URL.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is unreachable, overloaded or full.
    ///
    /// The same call may succeed later, and it is safe to repeat. If the connection broke during the commit, the
    /// change may have been made. A repeated call then finds it.
    #[error("the database is unavailable; try again later")]
    Unavailable(#[source] sqlx::Error),

    /// The connection to Postgres cannot be encrypted, or the certificate of the server is not trusted.
    #[error(
        "the database offers no TLS with a certificate that is trusted; add `sslmode=verify-full&sslrootcert=FILE` to its URL, \
         with the certificate of its authority, or `sslmode=disable` if nobody else can reach the network between"
    )]
    Tls(#[source] sqlx::Error),

    /// The tables do not exist yet or are older than the program, because the database was unavailable at the start or
    /// because the program may not upgrade them.
    #[error("the database has no tables yet, or older ones; run `facescan migrate`")]
    NotMigrated(#[source] sqlx::Error),

    /// Another version of the program made the tables. Nothing is written to them.
    ///
    /// The same call succeeds when the tables fit again.
    #[error(
        "the tables belong to another version of the program, so nothing is written; run the version that made them, or a \
         newer one"
    )]
    Schema(#[source] MigrateError),

    /// The database URL cannot be used.
    #[error(
        "the database URL cannot be used; write `postgres://user:password@host:port/database` or \
         `sqlite://path?mode=rwc`"
    )]
    Url(#[source] sqlx::Error),

    /// The directory of a SQLite file cannot be created.
    #[error("cannot create the directory {} for the database; check the permissions of its parent", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },

    /// A value that cannot be stored, or a URL of an unknown kind. The text names it.
    #[error("{0}")]
    Invalid(String),

    /// A text that cannot be stored, because Postgres has no texts with that character.
    #[error("a text has the character U+0000, which cannot be stored; remove it")]
    NulInText,

    /// A stored row or the database file is damaged.
    #[error("the database is damaged, or is no database of facescan; restore it from a backup")]
    Corrupt(#[source] sqlx::Error),

    /// The database refused a statement. This is a defect of the program.
    #[error("the database refused a statement; please report this")]
    Refused(#[source] sqlx::Error),
}

impl StoreError {
    /// Returns whether the same call may succeed later without a repair.
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable(_) | Self::Tls(_) | Self::NotMigrated(_) | Self::Schema(_)
        )
    }

    /// Returns whether the database answers and cannot be written: the disk is full, broken or read-only.
    pub fn refuses_writes(&self) -> bool {
        let Self::Unavailable(sqlx::Error::Database(response)) = self else {
            return false;
        };
        match &*response.code().unwrap_or_default() {
            // Postgres: disk full, read-only. A SQLSTATE has five characters, and a code of SQLite fewer.
            "53100" | "25006" => true,
            // SQLite: read-only, I/O error, full.
            code if code.len() < 5 => {
                matches!(code.parse::<u32>().map(|code| code & 0xff), Ok(8 | 10 | 13))
            }
            _ => false,
        }
    }

    /// Returns whether the error can come from tables that another version of the program made.
    pub(crate) fn may_be_another_schema(&self) -> bool {
        matches!(
            self,
            Self::NotMigrated(_) | Self::Refused(_) | Self::Corrupt(_)
        )
    }

    /// Returns a stored value that cannot be read; `detail` names it.
    pub(crate) fn corrupt(detail: String) -> Self {
        Self::Corrupt(sqlx::Error::Decode(detail.into()))
    }
}

/// The error of a database that is unavailable, for each of the calls that waited for it together.
pub(crate) struct SharedError(Arc<sqlx::Error>);

impl SharedError {
    /// Returns `None` if the error can be that of one call.
    pub(crate) fn new(error: StoreError) -> Option<Self> {
        match error {
            StoreError::Unavailable(error) if !matches!(error, sqlx::Error::Database(_)) => {
                Some(Self(Arc::new(error)))
            }
            _ => None,
        }
    }

    /// Returns the error for one call.
    pub(crate) fn get(&self) -> StoreError {
        StoreError::Unavailable(sqlx::Error::Io(io::Error::other(Arc::clone(&self.0))))
    }
}

/// Makes an error of the driver the variant of [`StoreError`] that it belongs to.
type Variant = fn(sqlx::Error) -> StoreError;

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        variant_of(&error)(error)
    }
}

impl From<MigrateError> for StoreError {
    fn from(error: MigrateError) -> Self {
        sqlx::Error::Migrate(Box::new(error)).into()
    }
}

fn variant_of(error: &sqlx::Error) -> Variant {
    use sqlx::Error as E;
    match error {
        E::Database(error) => of_response(error.as_ref()),
        E::Tls(_) => StoreError::Tls,
        // What TLS reports during its handshake.
        E::Io(error) if error.kind() == io::ErrorKind::InvalidData => StoreError::Tls,
        E::Io(_)
        | E::PoolTimedOut
        | E::PoolClosed
        | E::WorkerCrashed
        | E::BeginFailed
        // The stream broke off, or the server does not speak the protocol. A new connection may work.
        | E::Protocol(_) => StoreError::Unavailable,
        E::Configuration(_) => StoreError::Url,
        E::Encode(error) if error.is::<NulInText>() => |_| StoreError::NulInText,
        E::Decode(_) | E::ColumnDecode { .. } => StoreError::Corrupt,
        E::Migrate(error) => of_migration(error),
        _ => StoreError::Refused,
    }
}

fn schema(error: sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::Migrate(error) => StoreError::Schema(*error),
        error => StoreError::Refused(error),
    }
}

fn of_migration(error: &MigrateError) -> Variant {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            variant_of(error)
        }
        _ => schema,
    }
}

/// Returns the variant of an error that the database itself answered.
fn of_response(error: &dyn DatabaseError) -> Variant {
    let code = error.code().unwrap_or_default();
    let is_postgres = error
        .try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
        .is_some();
    if is_postgres {
        of_postgres(&code)
    } else {
        of_sqlite(&code, error.message())
    }
}

/// By SQLSTATE: <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
fn of_postgres(code: &str) -> Variant {
    match code {
        // Undefined table.
        "42P01" => StoreError::NotMigrated,
        // Serialization failure, deadlock, lock timeout, statement timeout, a read-only standby, a database that
        // accepts no connections now, a database that does not exist (yet).
        "40001" | "40P01" | "55000" | "55P03" | "57014" | "25006" | "3D000" => {
            StoreError::Unavailable
        }
        // A character that the encoding or a JSON text cannot have.
        "22021" | "22P05" => |_| StoreError::NulInText,
        // Corrupted data, corrupted index.
        "XX001" | "XX002" => StoreError::Corrupt,
        _ => match code.get(..2) {
            // Connection, log-in, insufficient resources, operator intervention, system error.
            Some("08" | "28" | "53" | "57" | "58") => StoreError::Unavailable,
            _ => StoreError::Refused,
        },
    }
}

/// By result code, whose low byte is the primary code: <https://www.sqlite.org/rescode.html>.
fn of_sqlite(code: &str, message: &str) -> Variant {
    match code.parse::<u32>().map(|code| code & 0xff) {
        // Busy, locked, read-only, I/O error, full, cannot open.
        Ok(5 | 6 | 8 | 10 | 13 | 14) => StoreError::Unavailable,
        // Corrupt, not a database.
        Ok(11 | 26) => StoreError::Corrupt,
        Ok(1) if message.starts_with("no such table") => StoreError::NotMigrated,
        _ => StoreError::Refused,
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn a_shutdown_or_a_missing_table_may_pass_and_a_broken_rule_may_not() {
        let may_pass = |variant: Variant| variant(sqlx::Error::PoolClosed).is_unavailable();
        for code in ["57P01", "57P03", "53300", "08006", "40P01", "42P01"] {
            assert!(may_pass(of_postgres(code)), "{code}");
        }
        for code in ["23505", "42601", "XX001"] {
            assert!(!may_pass(of_postgres(code)), "{code}");
        }
        // 261 is SQLITE_BUSY_RECOVERY and 2067 is SQLITE_CONSTRAINT_UNIQUE.
        assert!(may_pass(of_sqlite("5", "")));
        assert!(may_pass(of_sqlite("261", "")));
        assert!(may_pass(of_sqlite("1", "no such table: images")));
        assert!(!may_pass(of_sqlite("2067", "")));
        let damaged = of_sqlite("26", "")(sqlx::Error::PoolClosed);
        assert!(matches!(damaged, StoreError::Corrupt(_)));
    }

    #[test]
    fn a_failed_connection_may_pass() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert!(StoreError::from(sqlx::Error::Io(refused)).is_unavailable());
        assert!(StoreError::from(sqlx::Error::PoolTimedOut).is_unavailable());
        let migrating = MigrateError::Execute(sqlx::Error::PoolTimedOut);
        assert!(StoreError::from(migrating).is_unavailable());
        assert!(matches!(
            StoreError::from(MigrateError::VersionMismatch(1)),
            StoreError::Schema(_)
        ));
    }

    #[test]
    fn the_sources_are_kept() {
        let refused = io::Error::other("connection refused");
        let error = StoreError::from(sqlx::Error::Io(refused));
        let root = error.source().and_then(|driver| driver.source());
        assert!(root.is_some_and(|root| root.is::<io::Error>()));

        let failed = MigrateError::ExecuteMigration(sqlx::Error::PoolTimedOut, 2);
        let error = StoreError::from(failed);
        assert!(error.is_unavailable());
        let source = error.source().map(ToString::to_string);
        assert!(
            source.is_some_and(|text| text.contains("migration 2")),
            "{error:?}"
        );
    }
}
