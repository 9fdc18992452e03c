//! The migrations of both databases, in order. The SQL files are in `migrations/` at the top of the repository.

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

const STEPS: &[Step] = &[
    step!(1, "initial", "0001_initial.sql"),
    step!(2, "embedding_precision", "0002_embedding_precision.sql"),
    step!(3, "scan_devices", "0003_scan_devices.sql"),
    step!(4, "face_results", "0004_face_results.sql"),
    step!(5, "batches", "0005_batches.sql"),
    step!(6, "image_embeddings", "0006_image_embeddings.sql"),
    step!(7, "webhooks", "0007_webhooks.sql"),
    step!(8, "api_keys", "0008_api_keys.sql"),
    step!(9, "audit", "0009_audit.sql"),
    step!(10, "erasures", "0010_erasures.sql"),
    step!(11, "batch_traces", "0011_batch_traces.sql"),
    step!(12, "collections", "0012_collections.sql"),
    step!(13, "libraries", "0013_libraries.sql"),
    step!(14, "unpurged_deletions", "0014_unpurged_deletions.sql"),
    step!(15, "batch_keys", "0015_batch_keys.sql"),
    step!(16, "webhooks", "0016_webhooks.sql"),
    step!(17, "quotas_and_deletions", "0017_quotas_and_deletions.sql"),
    step!(18, "webhook_hosts", "0018_webhook_hosts.sql"),
];

/// The migrations of Postgres.
pub(super) static POSTGRES: LazyLock<Migrator> = LazyLock::new(|| migrator(|step| step.postgres));

/// The migrations of SQLite.
pub(super) static SQLITE: LazyLock<Migrator> = LazyLock::new(|| migrator(|step| step.sqlite));

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
