//! `facescan serve` and `facescan migrate`.

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use facescan_config::{Config, Server};
use facescan_telemetry::causes::with_causes;
use tokio::net::TcpListener;

use super::{
    runtime::{open_database, parts, run_to_shutdown, start_logs, start_telemetry, tokio_runtime},
    worker,
};
use crate::{
    app::{App, Parts, store_fault},
    descriptors,
    http::{
        self,
        server::tls::{Tls, TlsFiles},
    },
    lifecycle::{self, Ending, Lifecycle},
};
use facescan_store::StoreError;

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
    prepare_store(&app).await;
    check_access(&app).await?;
    let metrics = worker::listen(&app, app.config.metrics.address).await?;
    announce(&app, &bound.to_string());

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

/// Refuses to start a server that nobody could use.
async fn check_access(app: &App) -> anyhow::Result<()> {
    match app.access.is_usable().await {
        Ok(true) => Ok(()),
        Ok(false) => bail!(
            "callers of {} need a key, and there is none; create one with `facescan keys create`, or set access.mode to \
             `off` if something in front of the server decides who may use it",
            app.config.server.host
        ),
        Err(error) => {
            tracing::warn!(error = %with_causes(&error), "the database is unavailable, so it is unknown whether there is a key");
            Ok(())
        }
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
    let image = std::path::Path::new(".runtime/pictures/t1.jpg");
    let image = if image.exists() {
        image.display().to_string()
    } else {
        "photo.jpg".to_owned()
    };
    let scheme = match app.config.server.tls_certificate {
        None => "http",
        Some(_) => "https",
    };
    // Standard error may contain JSON lines, so this goes to standard output. A closed pipe is not an error.
    let lines = format!(
        "facescan listens on {scheme}://{bound} (its pages: {scheme}://{bound}/docs/)\n\
         try:  curl -s -F image=@{image} '{scheme}://{bound}/detect?timings=true'\n"
    );
    io::stdout().write_all(lines.as_bytes()).ok();
}

/// Creates the tables. If the database cannot be used, a background task retries, because an operator can repair it or run
/// another version of the program. Requests without storage work meanwhile.
pub(super) async fn prepare_store(app: &Arc<App>) {
    if is_settled(app).await {
        return;
    }
    let app = Arc::clone(app);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(STORE_RETRY).await;
            if is_settled(&app).await {
                return;
            }
        }
    });
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
