//! The migrations of both databases, in order. The SQL files are in `migrations/` at the top of the repository.
//!
//! There is one until the first release, and it changes in place. A database that an older checkout made is then refused, because
//! its migrations have other texts.

use std::borrow::Cow;
use std::sync::LazyLock;

use sqlx::SqlStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// One migration.
struct Step {
    version: i64,
    description: &'static str,
    postgres: &'static str,
    sqlite: &'static str,
}

/// Includes the files of one migration.
///
/// `sqlx::migrate!` does this too, but it needs both database drivers at build time, so cargo would compile them twice.
macro_rules! step {
    ($version:literal, $description:literal, $file:literal) => {
        Step {
            version: $version,
            description: $description,
            postgres: include_str!(concat!("../../../migrations/postgres/", $file)),
            sqlite: include_str!(concat!("../../../migrations/sqlite/", $file)),
        }
    };
}

const STEPS: &[Step] = &[step!(1, "initial", "0001_initial.sql")];

/// The migrations of Postgres.
pub(crate) static POSTGRES: LazyLock<Migrator> = LazyLock::new(|| migrator(|step| step.postgres));

/// The migrations of SQLite.
pub(crate) static SQLITE: LazyLock<Migrator> = LazyLock::new(|| migrator(|step| step.sqlite));

fn migrator(sql: fn(&Step) -> &'static str) -> Migrator {
    let migration = |step: &Step| {
        Migration::new(
            step.version,
            Cow::Borrowed(step.description),
            MigrationType::Simple,
            SqlStr::from_static(sql(step)),
            false,
        )
    };
    Migrator::with_migrations(STEPS.iter().map(migration).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Returns the names and contents of the files in `migrations/<dialect>`, in order.
    fn files(dialect: &str) -> Vec<(String, String)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../migrations")
            .join(dialect);
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                (name, std::fs::read_to_string(entry.path()).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    #[test]
    fn every_migration_file_is_built_in_for_both_databases() {
        for (dialect, migrator) in [("postgres", &POSTGRES), ("sqlite", &SQLITE)] {
            let built_in: Vec<_> = migrator
                .iter()
                .map(|migration| {
                    let name = format!("{:04}_{}.sql", migration.version, migration.description);
                    (name, migration.sql.as_str().to_owned())
                })
                .collect();
            assert_eq!(built_in, files(dialect), "{dialect}");
        }
    }
}
