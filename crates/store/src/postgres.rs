//! Postgres.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{Connection as _, PgConnection, Postgres};

use crate::dialect::{Dialect, FilePurge, PLANS};
use crate::error::StoreError;
use crate::last_failure::LastFailure;
use crate::migrations;
use crate::pools::Pools;
use crate::settings::StoreSettings;

/// How long a connection that worked is taken to work, if no call has failed since. A test takes as long as the look-up of a scan.
const TRUSTED_IDLE: Duration = Duration::from_millis(100);

/// Opens a pool that connects on first use. After the server was unavailable, the pool connects again on the next use.
pub(crate) fn open(url: &str, settings: &StoreSettings) -> Result<Pools, StoreError> {
    let options = encrypted(PgConnectOptions::from_str(url)?, url);
    let options = options.application_name("facescan");
    let last_failure = LastFailure::default();
    let failure = last_failure.clone();
    let pool = PgPoolOptions::new()
        .max_connections(settings.max_connections.max(1))
        .acquire_timeout(settings.acquire_timeout)
        .test_before_acquire(false)
        .before_acquire(move |connection, state| {
            let is_trusted = state.idle_for < TRUSTED_IDLE && !failure.is_within(state.idle_for);
            Box::pin(async move {
                if !is_trusted {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .after_connect(|connection, _| {
            Box::pin(async move {
                sqlx::raw_sql(PLANS).execute(connection).await?;
                Ok(())
            })
        })
        .connect_lazy_with(options);
    Ok(Pools::Postgres { pool, last_failure })
}

/// Requires TLS and a certificate of the host if the host is not this machine and nobody has chosen. The driver's own default
/// takes an unencrypted connection from whoever answers.
fn encrypted(options: PgConnectOptions, url: &str) -> PgConnectOptions {
    let is_chosen = ["sslmode=", "ssl-mode="]
        .iter()
        .any(|name| url.contains(name))
        || std::env::var_os("PGSSLMODE").is_some_and(|mode| !mode.is_empty());
    let host = options.get_host();
    let is_local = host == "localhost"
        || host.starts_with('/')
        || options.get_socket().is_some()
        || host
            .trim_matches(['[', ']'])
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback());
    if is_chosen || is_local {
        options
    } else {
        options.ssl_mode(PgSslMode::VerifyFull)
    }
}

/// The statement for the tables whose rows are erased, with their indexes. `enrollments` is the first, because indexes of vectors
/// are built there. If VACUUM cannot have it, the other tables are not read.
macro_rules! vacuum {
    ($option:literal) => {
        concat!(
            "VACUUM (",
            $option,
            ") enrollments, images, image_sources, scans, faces, embeddings, image_embeddings, batch_items, batches, \
             webhooks, webhook_hosts, collections, subjects, memberships, people"
        )
    };
}

impl Dialect for Postgres {
    const BEGIN_READ: &'static str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    // A statement that waited for another writer has to see what that writer committed.
    const BEGIN_WRITE: &'static str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
    const CLOSES_INTERRUPTED: bool = true;

    fn migrator() -> &'static Migrator {
        &migrations::POSTGRES
    }

    async fn purge_files(
        connection: &mut PgConnection,
        purge: FilePurge,
    ) -> Result<bool, sqlx::Error> {
        sqlx::query(LIMIT_WAITS).execute(&mut *connection).await?;
        let vacuum = match purge {
            FilePurge::Free => vacuum!("INDEX_CLEANUP ON"),
            FilePurge::Rewrite => vacuum!("FULL"),
        };
        let vacuumed = sqlx::query(vacuum).execute(&mut *connection).await;
        sqlx::query("RESET lock_timeout")
            .execute(&mut *connection)
            .await?;
        match vacuumed {
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(LOCK_TIMEOUT) => {
                Ok(false)
            }
            done => done.map(|_| true),
        }
    }
}

/// Limits the time that VACUUM waits for a table. Building an index keeps it from the table for minutes or hours.
const LIMIT_WAITS: &str = "SET lock_timeout = '4s'";

/// The code of the error of a statement that has waited too long.
const LOCK_TIMEOUT: &str = "55P03";

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(url: &str) -> PgSslMode {
        encrypted(PgConnectOptions::from_str(url).unwrap(), url).get_ssl_mode()
    }

    #[test]
    fn hosts_that_are_not_local_need_a_certificate_unless_the_url_says_otherwise() {
        for url in [
            "postgres://ann@db/faces",
            "postgres://ann:pw@10.0.0.7:5432/faces",
            "postgres://ann@[2001:db8::1]/faces",
            "postgres:///faces?host=db.example.org",
            "postgres://ann@localhost.example.org/faces",
        ] {
            assert!(matches!(mode(url), PgSslMode::VerifyFull), "{url}");
        }
        for url in [
            "postgres://ann@localhost/faces",
            "postgres://ann@127.0.0.1:5433/faces",
            "postgres://ann@[::1]/faces",
            "postgres:///faces?host=/var/run/postgresql",
        ] {
            assert!(!matches!(mode(url), PgSslMode::VerifyFull), "{url}");
        }
        let chosen = "postgres://ann@db/faces?sslmode=disable";
        assert!(matches!(mode(chosen), PgSslMode::Disable));
    }
}
