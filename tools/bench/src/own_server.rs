//! A facescan server that is started for a measurement and stopped after it.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow};
use tempfile::TempDir;

use crate::{
    Settings,
    load::{connection, target::Target},
};

/// The time limit for a started server to become ready after it listens.
const PATIENCE: Duration = Duration::from_secs(30);

/// The interval between readiness checks.
const PAUSE: Duration = Duration::from_millis(20);

/// The number of log lines in the error of a failed start.
const LOG_LINES: usize = 5;

/// A running server on a free port, with a temporary data folder. Dropping it kills the server and removes the folder.
pub struct OwnServer {
    process: Child,
    /// Keeps standard output open. Without a reader, the server's writes would fail.
    _stdout: BufReader<ChildStdout>,
    _data: TempDir,
    url: String,
}

impl OwnServer {
    /// Starts `facescan serve` with the settings of this process and waits until it is ready.
    ///
    /// # Errors
    /// Returns an error with the end of the log if the server does not start.
    pub async fn start(settings: &Settings) -> anyhow::Result<Self> {
        let data = tempfile::tempdir().context("creating a temporary data folder")?;
        let log = data.path().join("serve.log");
        let mut process = command(settings, data.path(), &log)?
            .spawn()
            .context("starting `facescan serve`")?;
        let stdout = process
            .stdout
            .take()
            .context("the server's output is not piped")?;
        let mut server = Self {
            process,
            _stdout: BufReader::new(stdout),
            _data: data,
            url: String::new(),
        };
        server.url = server.address().with_context(|| {
            format!(
                "`facescan serve` did not start; its log ends with\n{}",
                end_of(&log)
            )
        })?;
        server.wait_until_ready().await?;
        Ok(server)
    }

    /// Returns the address, such as `http://127.0.0.1:40123`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Reads the address from the first line that the server prints. A server that fails prints no line.
    fn address(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self._stdout
            .read_line(&mut line)
            .context("reading its output")?;
        line.split_whitespace()
            .find(|word| word.starts_with("http://"))
            .map(str::to_owned)
            .ok_or_else(|| anyhow!("its first line contains no address"))
    }

    async fn wait_until_ready(&self) -> anyhow::Result<()> {
        let target = Target::parse(&self.url, "/readyz", "")?;
        let until = Instant::now() + PATIENCE;
        loop {
            let state = match connection::get(&target).await {
                Ok((status, _)) if status.is_success() => return Ok(()),
                Ok((_, body)) => String::from_utf8_lossy(&body).into_owned(),
                Err(error) => format!("{error:#}"),
            };
            anyhow::ensure!(
                Instant::now() < until,
                "the started server is not ready: {state}"
            );
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // The data is deleted after the measurement, so a clean shutdown is not necessary.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn command(settings: &Settings, data: &Path, log: &Path) -> anyhow::Result<Command> {
    let binary = binary(settings)?;
    let database = format!("sqlite://{}?mode=rwc", data.join("bench.sqlite").display());
    let mut command = Command::new(binary);
    if let Some(file) = &settings.file {
        command.arg("--config").arg(absolute(file)?);
    }
    command
        .arg("serve")
        .env("FACESCAN__SERVER__HOST", "127.0.0.1")
        .env("FACESCAN__SERVER__PORT", "0")
        .env("FACESCAN__DATA_DIR", data)
        // Only one of the two names may be set, because two different values are a conflict.
        .env_remove("FACESCAN__DATABASE__URL")
        .env("DATABASE_URL", database)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(log).context("creating the server's log")?);
    Ok(command)
}

/// Returns the binary of the server: the one in the arguments, or the one in the folder of this binary.
fn binary(settings: &Settings) -> anyhow::Result<PathBuf> {
    let binary = match &settings.facescan {
        Some(named) => named.clone(),
        None => std::env::current_exe()
            .context("finding this binary")?
            .with_file_name(format!("facescan{}", std::env::consts::EXE_SUFFIX)),
    };
    anyhow::ensure!(
        binary.is_file(),
        "{} is missing; build it, or name another binary with --facescan",
        binary.display()
    );
    Ok(binary)
}

fn absolute(file: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(file).context("finding the settings file")
}

fn end_of(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
