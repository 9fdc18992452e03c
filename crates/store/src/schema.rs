//! Whether the tables are those of this version of the program.
//!
//! Every call that changes rows asks this first, in its own transaction. Another version of the program can upgrade the tables
//! at any time, and may then rely on rules that this version does not know.

use std::collections::BTreeMap;

use sqlx::migrate::{MigrateError, Migrator};

use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::prepared::Statement;
use crate::record::record;

const APPLIED: Statement =
    Statement::untested("SELECT version, checksum, success FROM _sqlx_migrations");

/// A condition in a statement that [`check`] would pass, with the values of [`known`].
pub(crate) const IS_KNOWN: &str = "(SELECT count(*) = :known AND count(CASE WHEN success AND checksum IN (:checksums) THEN 1 END) = :known \
     FROM _sqlx_migrations)";

/// Returns the number of migrations, and the checksum of each.
pub(crate) fn known(migrator: &Migrator) -> (i64, Vec<Vec<u8>>) {
    let checksums: Vec<_> = migrator
        .iter()
        .map(|known| known.checksum.to_vec())
        .collect();
    (checksums.len() as i64, checksums)
}

record! {
    struct AppliedMigration {
        version: i64,
        checksum: Vec<u8>,
        success: bool,
    }
}

/// Returns an error unless the migrations of the database are exactly those of the program.
///
/// # Errors
///
/// [`StoreError::Schema`] if a migration is unknown, has another text or was interrupted, and [`StoreError::NotMigrated`] if
/// one is missing.
pub(crate) async fn check(connection: &mut Connection<'_>) -> Result<(), StoreError> {
    let applied: Vec<AppliedMigration> = connection.fetch_all(APPLIED, params!()).await?;
    let mut missing: BTreeMap<i64, &[u8]> = connection
        .migrator()
        .iter()
        .map(|known| (known.version, &*known.checksum))
        .collect();
    for migration in &applied {
        let version = migration.version;
        if !migration.success {
            return Err(MigrateError::Dirty(version).into());
        }
        match missing.remove(&version) {
            None => return Err(MigrateError::VersionMissing(version).into()),
            Some(checksum) if checksum != migration.checksum => {
                return Err(MigrateError::VersionMismatch(version).into());
            }
            Some(_) => {}
        }
    }
    match missing.first_key_value() {
        None => Ok(()),
        Some((&version, _)) => {
            let error = MigrateError::VersionNotPresent(version);
            Err(StoreError::NotMigrated(error.into()))
        }
    }
}
