//! `facescan serve` and `facescan migrate`.

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use clap::Args;
use facescan_config::{Config, Server, SettingOption};
use facescan_telemetry::causes::with_causes;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::net::TcpListener;

use super::{
    runtime::{open_database, parts, run_to_shutdown, start_logs, start_telemetry, tokio_runtime},
    worker,
};
use crate::{
    access::first_key::{self, FirstKey},
    app::{App, Parts, store_fault},
    descriptors,
    http::{
        self,
        server::tls::{Tls, TlsFiles},
    },
    lifecycle::{self, Ending, Lifecycle},
};
use facescan_store::StoreError;

mod banner;

/// The settings that most servers change.
#[derive(Debug, Default, Args)]
pub struct ServeArgs {
    /// The address to listen on: `server.host`.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// The port to listen on: `server.port`.
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// The folder for files that the server writes: `data_dir`.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// The URL of the database: `database.url`. Other users of the machine see a password in it: DATABASE_URL hides it from them.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

impl ServeArgs {
    /// Returns the settings that the options set.
    pub fn settings(&self) -> Vec<SettingOption> {
        [
            ("server.host", "--host", &self.host),
            ("server.port", "--port", &self.port),
            ("data_dir", "--data-dir", &self.data_dir),
            ("database.url", "--database", &self.database),
        ]
        .into_iter()
        .filter_map(|(key, name, value)| {
            let value = value.clone()?;
            Some(SettingOption { key, name, value })
        })
        .collect()
    }
}

/// The time limit for closing the connections of the database.
const STORE_CLOSE: Duration = Duration::from_secs(2);

/// How long the last entries of the audit trail and its heads may take.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// The wait before the next attempt to create the tables, if the database is unavailable.
const STORE_RETRY: Duration = Duration::from_secs(5);

/// Serves requests until a signal arrives.
///
/// # Errors
/// Returns an error if the start or the listener fails.
pub fn run(config: Config) -> anyhow::Result<ExitCode> {
    run_on(config, parts)
}

/// Serves requests with the parts that `open` returns until a signal arrives.
///
/// # Errors
/// The errors of [`run`].
pub fn run_on(
    mut config: Config,
    open: impl FnOnce(&Config) -> anyhow::Result<Parts>,
) -> anyhow::Result<ExitCode> {
    let _traces = start_telemetry(&config)?;
    limit_connections(&mut config.server);
    let parts = open(&config)?;
    run_to_shutdown(serve(config, parts))
}

/// Makes the limit of connections one that the file descriptors of the process allow.
fn limit_connections(server: &mut Server) {
    descriptors::raise_limit();
    let allowed = descriptors::allowed_connections(server.max_connections);
    if allowed < server.max_connections {
        tracing::warn!(
            asked = server.max_connections,
            allowed,
            "the limit of open files allows fewer connections than `server.max_connections`; raise it with `ulimit -n`"
        );
        server.max_connections = allowed;
    }
}

async fn serve(config: Config, parts: Parts) -> anyhow::Result<ExitCode> {
    let address = (config.server.host.clone(), config.server.port);
    let deadline = config.server.shutdown_timeout_ms.duration();
    let tls = open_tls(&config.server)?;
    let app = Arc::new(parts.start(config).await?);
    let listener = TcpListener::bind(&address).await.with_context(|| {
        format!(
            "listening on {}:{}; is another server running there? set server.port to a free port",
            address.0, address.1
        )
    })?;
    let bound = listener
        .local_addr()
        .context("reading the listener's address")?;
    let metrics = worker::listen(&app, app.config.metrics.address).await?;
    check_database(&app).await?;
    // Nothing may fail from here to the line that shows the key.
    let first_key = match is_settled(&app).await {
        true => check_access(&app).await?,
        false => {
            check_access_later(Arc::clone(&app));
            None
        }
    };
    announce(&app, &bound.to_string());
    show(first_key);

    load_index(&app);
    let lifecycle = app.lifecycle.clone();
    let forced = stop_at_signal(lifecycle.clone(), "finishing the requests in flight");
    let workers = worker::start(&app, app.config.batches.workers);
    let server = http::serve(listener, tls, Arc::clone(&app), lifecycle.stopped());
    let server = async {
        tokio::join!(server, metrics, workers.stopped());
    };
    let ending = lifecycle.drive(server, deadline, forced).await;
    close_store(&app).await;
    match ending {
        Ending::Clean => {
            tracing::info!("stopped");
            Ok(ExitCode::SUCCESS)
        }
        Ending::Cut => {
            tracing::warn!("stopped with requests still in flight");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Loads the enrolled faces in the background. A search that comes first loads its collection itself.
fn load_index(app: &App) {
    let index = Arc::clone(&app.collections.index);
    tokio::spawn(async move {
        if let Err(error) = index.load().await {
            tracing::warn!(%error, "not all enrolled faces are loaded; searches load the rest");
        }
    });
}

/// Reads the certificate, if the settings name one.
fn open_tls(server: &Server) -> anyhow::Result<Option<Tls>> {
    let files = match (server.tls_certificate.clone(), server.tls_key.clone()) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => TlsFiles { certificate, key },
        _ => bail!("server.tls_certificate and server.tls_key belong together; set both or none"),
    };
    Ok(Some(Tls::open(files).context("setting up TLS")?))
}

/// Says in one line why the database cannot be used, if that is so. The server serves requests without storage meanwhile, unless
/// the database does not exist: then a name is wrong.
async fn check_database(app: &App) -> anyhow::Result<()> {
    match app.store.try_connection().await {
        Ok(()) => Ok(()),
        Err(error) if error.is_lasting() => Err(error.into()),
        Err(error) => {
            tracing::warn!("{error}; until then, only requests with store=false are answered");
            Ok(())
        }
    }
}

/// Gives a new server that needs keys its first one, and refuses to start one that nobody could use.
///
/// Returns the key if it was made here, to show it once.
async fn check_access(app: &App) -> anyhow::Result<Option<SecretString>> {
    match app.access.is_usable().await {
        Ok(true) => return Ok(None),
        Ok(false) => {}
        Err(error) => {
            tracing::warn!(error = %with_causes(&error), "the database is unavailable, so it is unknown whether there is a key");
            return Ok(None);
        }
    }
    let clock = app.pipeline.clock.as_ref();
    match first_key::store_first_key(&app.store, &app.config, clock).await? {
        FirstKey::Made(key) => return Ok(Some(key)),
        FirstKey::Stored => tracing::info!("the first key of the settings is stored"),
        FirstKey::Known => {}
    }
    Ok(None)
}

/// Waits in the background until the database can be used, and then checks who can use the server.
fn check_access_later(app: Arc<App>) {
    tokio::spawn(async move {
        settle(&app).await;
        match check_access(&app).await {
            Ok(first_key) => show(first_key),
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "nobody can use the server");
            }
        }
    });
}

/// Shows a first key that was made here.
fn show(first_key: Option<SecretString>) {
    if let Some(key) = first_key {
        say(&format!(
            "the first key, which is not shown again: {}\n",
            key.expose_secret()
        ));
    }
}

/// Stops the lifecycle at the first signal. The returned future resolves at the second one.
pub(super) fn stop_at_signal(lifecycle: Lifecycle, work: &'static str) -> impl Future<Output = ()> {
    let signals = async move {
        lifecycle::signal().await?;
        tracing::info!("shutting down: {work}");
        lifecycle.stop();
        lifecycle::signal().await
    };
    let forced = tokio::spawn(async move {
        if let Err(error) = signals.await {
            tracing::error!(%error, "cannot listen for signals");
            // Otherwise this would end like a second signal.
            std::future::pending::<()>().await;
        }
    });
    async {
        forced.await.ok();
    }
}

/// Writes what waits for it, and closes the connections of the database. A hanging query keeps its connection. It already had
/// enough time.
pub(super) async fn close_store(app: &App) {
    let last = async {
        // The store warns about a failed call with its cause.
        app.refusals.write().await.ok();
        if let Some(heads) = &app.audit_heads {
            heads.publish_or_warn().await;
        }
    };
    tokio::time::timeout(LAST_WRITES, last).await.ok();
    tokio::time::timeout(STORE_CLOSE, app.store.close())
        .await
        .ok();
}

fn announce(app: &App, bound: &str) {
    if app.config.is_for_this_machine() {
        tracing::warn!(
            "this server needs no key, because only this machine reaches {bound}; a proxy on this machine opens it to whoever \
             reaches the proxy, and not every proxy can be recognized: set access.mode to `required` before you put one in front"
        );
    }
    tracing::info!(
        address = %bound,
        detector = %app.pipeline.models.detector.spec.id,
        embedder = %app.pipeline.models.embedder.spec().id,
        "listening"
    );
    say(&banner::banner(app, bound));
}

/// Writes lines for a person. Standard error may contain JSON lines, so they go to standard output. A closed pipe is not an error.
fn say(lines: &str) {
    io::stdout().write_all(lines.as_bytes()).ok();
}

/// Creates the tables. If the database cannot be used, a background task retries, because an operator can repair it or run
/// another version of the program. Requests without storage work meanwhile.
pub(super) async fn prepare_store(app: &Arc<App>) {
    if !is_settled(app).await {
        let app = Arc::clone(app);
        tokio::spawn(async move { settle(&app).await });
    }
}

/// Tries to create the tables until that succeeds.
async fn settle(app: &App) {
    loop {
        tokio::time::sleep(STORE_RETRY).await;
        if is_settled(app).await {
            return;
        }
    }
}

/// Makes one attempt. Returns whether it succeeded.
async fn is_settled(app: &App) -> bool {
    match app.prepare_store().await {
        Ok(()) => {
            app.store_fault.replace(None);
            true
        }
        Err(
            error @ (StoreError::Unavailable(_) | StoreError::Tls(_) | StoreError::NotMigrated(_)),
        ) => {
            tracing::warn!(error = %with_causes(&error), "the database is unavailable; the server creates the tables when it is available again");
            false
        }
        Err(error) => {
            if app.store_fault.replace(Some(store_fault::reason(&error))) {
                tracing::error!(error = %with_causes(&error), "nothing is written to the database; requests with store=false are served");
            }
            false
        }
    }
}

/// Creates or upgrades the tables.
///
/// # Errors
/// Returns an error if the database is unavailable or the tables cannot be created.
pub fn migrate(config: &Config) -> anyhow::Result<ExitCode> {
    start_logs(config, &config.log.level, None)?;
    tokio_runtime()?.block_on(async {
        open_database(config).await?.close().await;
        eprintln!("the database is up to date");
        Ok(ExitCode::SUCCESS)
    })
}
