//! The store of one database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use secrecy::ExposeSecret;

use crate::call::{CallConnection, query};
use crate::error::StoreError;
use crate::gathered::Turns;
use crate::observer::Observer;
use crate::parameters::params;
use crate::pools::{ConnectionCounts, Pools};
use crate::scans::queues::{LookUps, ScansToSave};
use crate::settings::StoreSettings;
use crate::{postgres, schema, sqlite};

crate::prepared::statements! {
    const PING = "SELECT 1 FROM images LIMIT 1", scans "the first row";
}

/// What one database stores. A clone uses the same connections.
///
/// Every row belongs to a tenant. A call for one tenant neither sees nor changes the rows of another. Only the calls of workers
/// and of sweepers see the rows of all tenants.
///
/// # Cached scans
///
/// A scan can be returned from the cache if it was saved with `answers_cache` and none of its faces was deleted.
///
/// # Transactions
///
/// Each call that changes rows is one transaction. Either all of its changes are made or none. Dropping the future
/// before it resolves makes none of them, unless the commit was already sent. An audit entry that a call takes is written in its
/// transaction, and only if there is a change. [`save_scan`](Store::save_scan) shares a transaction with the calls that wait beside
/// it, and says what becomes of a dropped one.
///
/// # Errors
///
/// Every method returns [`StoreError::Unavailable`] if the database is unavailable, and [`StoreError::NotMigrated`] if its
/// tables do not exist. Both can be temporary. The next call tries again. Methods that read return [`StoreError::Corrupt`]
/// if a stored value cannot be read. Each method lists what else it returns.
///
/// # Tables of another version
///
/// Methods that change rows return [`StoreError::Schema`], and change nothing, if the tables belong to another version of the
/// program. Each call checks it in its own transaction, because other processes upgrade the tables at any time. Methods that
/// read go on, and return the same error if the tables do not have what they read.
///
/// # Adding a method
///
/// Each folder beside this file is about one noun and has the methods about it, each with its SQL. The macros of `call.rs` run
/// the statements.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    turns: Turns,
}

struct Inner {
    pools: Pools,
    observer: Observer,
    call_timeout: Duration,
    /// Whether a call found that the database cannot be written.
    has_refused_writes: AtomicBool,
    scans_to_save: ScansToSave,
    look_ups: LookUps,
}

impl Store {
    /// Opens the database that the settings name. The scheme of the URL decides which of the two it is.
    ///
    /// This does not connect, so it succeeds while a Postgres server is unavailable. It creates the directory of a SQLite file.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] when the URL has an unknown scheme, [`StoreError::Url`] when it cannot be read, and
    /// [`StoreError::Directory`] when the directory cannot be created. No message contains the user or the password.
    pub async fn open(settings: &StoreSettings, observer: Observer) -> Result<Self, StoreError> {
        let url = settings.url.expose_secret();
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        let pools = match scheme {
            "postgres" | "postgresql" => postgres::open(url, settings)?,
            "sqlite" => sqlite::open(url, settings)?,
            _ => {
                return Err(StoreError::Invalid(
                    "the database URL must start with `postgres://`, `postgresql://` or `sqlite:`"
                        .into(),
                ));
            }
        };
        Ok(Self {
            inner: Arc::new(Inner {
                pools,
                observer,
                call_timeout: settings.call_timeout,
                has_refused_writes: AtomicBool::new(false),
                scans_to_save: ScansToSave::default(),
                look_ups: LookUps::default(),
            }),
            turns: Arc::new(|| Box::pin(async {})),
        })
    }

    /// Returns a store of the same database which waits for its turn before it looks scans up or saves them together. The calls that
    /// come meanwhile share the next transaction. So a processor that is busy anyway does fewer of them.
    #[must_use]
    pub fn with_turns(
        self,
        turns: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            turns: Arc::new(turns),
            ..self
        }
    }

    /// Creates the tables, or upgrades them to this version of the program.
    ///
    /// It is safe to call this again, and to call it from several processes at once.
    ///
    /// # Errors
    ///
    /// [`StoreError::Schema`] when another version of the program made the tables.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let migrations = Box::pin(async {
            match self.run_migrations().await {
                // SQLite takes no lock around all migrations. If two processes migrate at once, the second one fails
                // because the table exists. When it runs again, it finds the migration applied.
                Err(StoreError::Refused(_)) => self.run_migrations().await,
                done => done,
            }
        });
        self.observe_without_limit("migrate", migrations).await
    }

    /// A migrator that fails keeps its lock until its connection ends. The connection is therefore given back only after a
    /// success.
    async fn run_migrations(&self) -> Result<(), StoreError> {
        let mut acquired = self.writer().await?;
        acquired.connection().migrate().await?;
        acquired.finish();
        Ok(())
    }

    /// Checks that the database answers and has the tables of this version of the program.
    ///
    /// # Errors
    ///
    /// [`StoreError::Schema`] when another version of the program made the tables.
    pub async fn ping(&self) -> Result<(), StoreError> {
        query!(self, "ping", |connection| {
            schema::check(connection).await?;
            connection.execute(PING, params!()).await?;
            Ok(())
        })
    }

    /// Checks that the database can be written, if a call has found since the last check that it cannot.
    pub async fn check_writes(&self) -> Result<(), StoreError> {
        let has_refused = &self.inner.has_refused_writes;
        if has_refused.load(Ordering::Relaxed) {
            self.try_write().await?;
            has_refused.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns a function that counts the connections. It does not keep the store alive.
    pub fn connection_counts(&self) -> impl Fn() -> ConnectionCounts + Send + Sync + use<> {
        let pools = self.inner.pools.clone();
        move || pools.counts()
    }

    /// Waits for the calls in progress and closes every connection.
    ///
    /// Later calls return [`StoreError::Unavailable`].
    pub async fn close(&self) {
        self.inner.pools.close().await;
    }

    pub(crate) fn pools(&self) -> &Pools {
        &self.inner.pools
    }

    pub(crate) fn scans_to_save(&self) -> &ScansToSave {
        &self.inner.scans_to_save
    }

    pub(crate) fn look_ups(&self) -> &LookUps {
        &self.inner.look_ups
    }

    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        self.inner.call_timeout
    }

    pub(crate) async fn reader(&self) -> Result<CallConnection, StoreError> {
        self.inner.pools.reader().await
    }

    pub(crate) async fn writer(&self) -> Result<CallConnection, StoreError> {
        self.inner.pools.writer().await
    }

    pub(crate) async fn bulk_writer(&self) -> Result<CallConnection, StoreError> {
        self.inner.pools.bulk_writer().await
    }

    /// Reports a call, and ends it after the time limit.
    pub(crate) async fn observe<T: Send>(
        &self,
        name: &'static str,
        call: BoxFuture<'_, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let Inner {
            observer,
            call_timeout,
            ..
        } = &*self.inner;
        let call = self.explain(call);
        observer.observe(name, Some(*call_timeout), call).await
    }

    /// Reports a call whose time depends on the number of rows.
    pub(crate) async fn observe_without_limit<T: Send>(
        &self,
        name: &'static str,
        call: BoxFuture<'_, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let call = self.explain(call);
        self.inner.observer.observe(name, None, call).await
    }

    /// Names the tables as the reason if a statement failed because they belong to another version. Notes that the database is
    /// unavailable.
    async fn explain<T: Send>(
        &self,
        call: BoxFuture<'_, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match call.await {
            Err(error) if error.may_be_another_schema() => Err(self.reason(error).await),
            Err(error @ StoreError::Unavailable(_)) => {
                self.inner.pools.note_failure();
                if error.refuses_writes() {
                    self.inner.has_refused_writes.store(true, Ordering::Relaxed);
                }
                Err(error)
            }
            result => result,
        }
    }

    fn reason(&self, error: StoreError) -> BoxFuture<'_, StoreError> {
        Box::pin(async move {
            let mut acquired = match self.reader().await {
                Ok(acquired) => acquired,
                Err(unavailable) => return unavailable,
            };
            let checked = schema::check(&mut acquired.connection()).await;
            acquired.finish();
            match checked {
                Err(schema @ StoreError::Schema(_)) => schema,
                _ => error,
            }
        })
    }
}
