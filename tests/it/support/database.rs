//! Empty databases for tests.

use std::future::Future;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use facescan_store::{Observer, Store, StoreSettings};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, SqliteConnection};
use uuid::Uuid;

/// A database of one test. It is empty at first.
#[derive(Clone)]
pub enum Database {
    /// A SQLite file in a temporary directory.
    Sqlite {
        /// `sqlite://…`
        url: String,
    },
    /// A database on the server of TEST_DATABASE_URL.
    Postgres {
        /// The connection options.
        options: Box<PgConnectOptions>,
    },
}

impl Database {
    /// Returns the URL for the store.
    pub fn url(&self) -> String {
        match self {
            Self::Sqlite { url } => url.clone(),
            Self::Postgres { options } => options.to_url_lossy().into(),
        }
    }

    /// Returns the URL through a proxy that listens on `address`.
    pub fn url_through(&self, address: SocketAddr) -> String {
        match self {
            Self::Sqlite { .. } => panic!("a SQLite file has no proxy"),
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

    /// Opens the store of this database and creates its tables.
    pub async fn open(&self) -> Store {
        let store = store_at(&self.url()).await;
        store.migrate().await.unwrap();
        store
    }

    /// Returns the address of the Postgres server.
    pub fn address(&self) -> (String, u16) {
        match self {
            Self::Sqlite { .. } => panic!("a SQLite file has no address"),
            Self::Postgres { options } => (options.get_host().to_owned(), options.get_port()),
        }
    }

    /// Connects to the database on Postgres.
    pub async fn connect(&self) -> PgConnection {
        match self {
            Self::Sqlite { .. } => panic!("the test needs Postgres"),
            Self::Postgres { options } => options.connect().await.unwrap(),
        }
    }

    pub async fn execute(&self, statement: &str) {
        match self {
            Self::Sqlite { url } => {
                let mut connection = SqliteConnection::connect(url).await.unwrap();
                sqlx::query(AssertSqlSafe(statement))
                    .execute(&mut connection)
                    .await
                    .unwrap();
            }
            Self::Postgres { .. } => execute(&mut self.connect().await, statement).await,
        }
    }

    /// Returns the rows of every table as text.
    pub async fn dump(&self) -> Vec<String> {
        let (tables, columns) = match self {
            Self::Sqlite { .. } => (
                "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name",
                "SELECT 'quote(\"' || name || '\")' FROM pragma_table_info('TABLE')",
            ),
            Self::Postgres { .. } => (
                "SELECT table_name::text FROM information_schema.tables \
                 WHERE table_schema = 'public' ORDER BY 1",
                "SELECT 'quote_nullable(\"' || column_name || '\")' FROM information_schema.columns \
                 WHERE table_schema = 'public' AND table_name = 'TABLE'",
            ),
        };
        let mut rows = Vec::new();
        for table in self.texts(tables).await {
            let columns = self.texts(&columns.replace("TABLE", &table)).await;
            let row = columns.join(" || ',' || ");
            let select = format!("SELECT '{table}: ' || {row} FROM {table} ORDER BY 1");
            rows.extend(self.texts(&select).await);
        }
        rows
    }

    /// Returns the first column of the rows of a query.
    async fn texts(&self, query: &str) -> Vec<String> {
        let query = AssertSqlSafe(query);
        match self {
            Self::Sqlite { url } => {
                let mut connection = SqliteConnection::connect(url).await.unwrap();
                sqlx::query_scalar(query)
                    .fetch_all(&mut connection)
                    .await
                    .unwrap()
            }
            Self::Postgres { .. } => sqlx::query_scalar(query)
                .fetch_all(&mut self.connect().await)
                .await
                .unwrap(),
        }
    }

    /// Returns the result of a `SELECT count(*)`.
    pub async fn count(&self, query: &str) -> i64 {
        let rows = self.texts(&format!("SELECT CAST(({query}) AS text)")).await;
        rows[0].parse().unwrap()
    }
}

/// Returns the settings of a small store.
pub fn settings(url: &str) -> StoreSettings {
    StoreSettings {
        url: url.into(),
        max_connections: 8,
        acquire_timeout: Duration::from_secs(10),
        call_timeout: Duration::from_secs(30),
    }
}

/// Opens a small store, and creates no tables.
pub async fn store_at(url: &str) -> Store {
    let opened = Store::open(&settings(url), Observer::default()).await;
    opened.unwrap()
}

/// Runs a test on a SQLite file and deletes the file.
pub async fn on_sqlite<F: Future<Output = ()>>(test: impl FnOnce(Database) -> F) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory
        .path()
        .join("missing folder")
        .join("facescan.sqlite");
    let url = format!("sqlite://{}?mode=rwc", file.display());
    // On the heap, because the futures of long stories do not fit on the stack of a test.
    Box::pin(test(Database::Sqlite { url })).await;
}

/// Runs a test on a new Postgres database and drops the database, also if the test fails.
pub async fn on_postgres<F>(test: impl FnOnce(Database) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let url = std::env::var("TEST_DATABASE_URL").expect(
        "there is no Postgres server for the test: run `make test`, or set TEST_DATABASE_URL",
    );
    let server = PgConnectOptions::from_str(&url).expect("TEST_DATABASE_URL is not a Postgres URL");
    let name = format!("facescan_test_{}", Uuid::now_v7().simple());
    let mut admin = server
        .connect()
        .await
        .expect("cannot connect to the server of TEST_DATABASE_URL");
    execute(&mut admin, &format!("CREATE DATABASE {name}")).await;
    let options = Box::new(server.database(&name));
    let outcome = tokio::spawn(test(Database::Postgres { options })).await;
    execute(&mut admin, &format!("DROP DATABASE {name} WITH (FORCE)")).await;
    if let Err(error) = outcome {
        std::panic::resume_unwind(error.into_panic());
    }
}

/// Declares a test on SQLite and one on Postgres.
macro_rules! on_both {
    ($name:ident, $test:expr) => {
        mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread")]
            async fn on_sqlite() {
                $crate::support::database::on_sqlite($test).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_postgres() {
                $crate::support::database::on_postgres($test).await;
            }
        }
    };
}
pub(crate) use on_both;

pub async fn execute(connection: &mut PgConnection, statement: &str) {
    sqlx::query(AssertSqlSafe(statement))
        .execute(connection)
        .await
        .unwrap();
}
