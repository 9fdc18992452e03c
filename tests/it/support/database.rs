//! Fresh databases for tests.

use std::future::Future;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use facescan_store::{Store, StoreSettings, connect};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, SqliteConnection};
use uuid::Uuid;

/// A database of one test's own, empty at first.
#[derive(Clone)]
pub enum Database {
    /// A SQLite file in a temporary directory.
    Sqlite {
        /// `sqlite://…`
        url: String,
    },
    /// A database on the server of TEST_DATABASE_URL.
    Postgres {
        /// The options to reach it.
        options: Box<PgConnectOptions>,
    },
}

impl Database {
    /// The URL that the store is given.
    pub fn url(&self) -> String {
        match self {
            Self::Sqlite { url } => url.clone(),
            Self::Postgres { options } => options.to_url_lossy().into(),
        }
    }

    /// The URL by way of a proxy that listens at `address`.
    pub fn url_through(&self, address: SocketAddr) -> String {
        match self {
            Self::Sqlite { .. } => panic!("a file is not reached through a proxy"),
            Self::Postgres { options } => {
                let options = options
                    .as_ref()
                    .clone()
                    .host(&address.ip().to_string())
                    .port(address.port());
                options.to_url_lossy().into()
            }
        }
    }

    /// A store over this database, its tables made.
    pub async fn open(&self) -> Arc<dyn Store> {
        let store = connect(&settings(&self.url())).await.unwrap();
        store.migrate().await.unwrap();
        store
    }

    /// The number a `SELECT count(*)` gives.
    pub async fn count(&self, query: &str) -> i64 {
        let query = AssertSqlSafe(query);
        match self {
            Self::Sqlite { url } => {
                let mut connection = SqliteConnection::connect(url).await.unwrap();
                sqlx::query_scalar(query)
                    .fetch_one(&mut connection)
                    .await
                    .unwrap()
            }
            Self::Postgres { options } => {
                let mut connection = options.connect().await.unwrap();
                sqlx::query_scalar(query)
                    .fetch_one(&mut connection)
                    .await
                    .unwrap()
            }
        }
    }
}

/// Settings of a small store.
pub fn settings(url: &str) -> StoreSettings {
    StoreSettings {
        url: url.into(),
        max_connections: 8,
        acquire_timeout: Duration::from_secs(10),
    }
}

/// Runs a test on a SQLite file, which is gone afterwards.
pub async fn on_sqlite<F: Future<Output = ()>>(test: impl FnOnce(Database) -> F) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory
        .path()
        .join("made on the way")
        .join("facescan.sqlite");
    let url = format!("sqlite://{}?mode=rwc", file.display());
    test(Database::Sqlite { url }).await;
}

/// Runs a test on a new Postgres database, which is dropped afterwards, however the test ends.
pub async fn on_postgres<F>(test: impl FnOnce(Database) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let url = std::env::var("TEST_DATABASE_URL")
        .expect("no Postgres to test with: run `make test`, or set TEST_DATABASE_URL");
    let server = PgConnectOptions::from_str(&url).expect("TEST_DATABASE_URL is no Postgres URL");
    let name = format!("facescan_test_{}", Uuid::now_v7().simple());
    let mut admin = server
        .connect()
        .await
        .expect("the server of TEST_DATABASE_URL is away");
    execute(&mut admin, &format!("CREATE DATABASE {name}")).await;
    let options = Box::new(server.database(&name));
    let outcome = tokio::spawn(test(Database::Postgres { options })).await;
    execute(&mut admin, &format!("DROP DATABASE {name} WITH (FORCE)")).await;
    if let Err(error) = outcome {
        std::panic::resume_unwind(error.into_panic());
    }
}

/// Runs a statement of the test's own.
pub async fn execute(connection: &mut PgConnection, statement: &str) {
    sqlx::query(AssertSqlSafe(statement))
        .execute(connection)
        .await
        .unwrap();
}
