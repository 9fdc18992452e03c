//! `facescan batches`: reads and changes the batches of a server.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use comfy_table::{Table, presets::NOTHING};
use facescan_config::Sources;
use futures::TryStreamExt;
use reqwest::Method;
use serde_json::Value;
use uuid::Uuid;

use super::{
    client::{Client, ServerArgs, path_with},
    runtime::tokio_runtime,
};

/// The commands of `facescan batches`.
#[derive(Debug, Subcommand)]
pub enum BatchesCommand {
    /// List batches, newest first.
    List {
        #[command(flatten)]
        server: ServerArgs,
        /// Only batches in this state: open, queued, running, done or cancelled.
        #[arg(long)]
        state: Option<String>,
        /// Only batches with this name.
        #[arg(long)]
        name: Option<String>,
        /// The largest number of batches.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show a batch with its counts.
    Show(OneBatch),
    /// Print the items of a batch with their results, one JSON line each.
    Items {
        #[command(flatten)]
        batch: OneBatch,
        /// Only items in this state: queued, running, ok, error, dead or cancelled.
        #[arg(long)]
        state: Option<String>,
        /// The format of vectors: float, base64-f32, base64-f16 or none.
        #[arg(long)]
        embedding_format: Option<String>,
    },
    /// Close an open batch, so that it ends when its items are finished.
    Close(OneBatch),
    /// Cancel a batch; workers stop the items that they are working on.
    Cancel(OneBatch),
    /// Retry the items that failed.
    Retry(OneBatch),
    /// Delete a batch with its images, its items, and the results that nothing else uses.
    Delete(OneBatch),
}

/// A batch of a server.
#[derive(Debug, Args)]
pub struct OneBatch {
    #[command(flatten)]
    server: ServerArgs,
    /// The id of the batch.
    id: Uuid,
}

pub fn run(command: BatchesCommand, sources: &Sources) -> anyhow::Result<ExitCode> {
    tokio_runtime()?.block_on(async {
        match command {
            BatchesCommand::List {
                server,
                state,
                name,
                limit,
            } => {
                let mut query = vec![("limit", limit.to_string())];
                query.extend(state.map(|state| ("state", state)));
                query.extend(name.map(|name| ("name", name)));
                list(&Client::new(&server, sources)?, &query).await?;
            }
            BatchesCommand::Show(batch) => act(&batch, sources, Method::GET, "").await?,
            BatchesCommand::Close(batch) => act(&batch, sources, Method::POST, "/close").await?,
            BatchesCommand::Cancel(batch) => act(&batch, sources, Method::POST, "/cancel").await?,
            BatchesCommand::Retry(batch) => act(&batch, sources, Method::POST, "/retry").await?,
            BatchesCommand::Delete(batch) => act(&batch, sources, Method::DELETE, "").await?,
            BatchesCommand::Items {
                batch,
                state,
                embedding_format,
            } => {
                let mut query = Vec::new();
                query.extend(state.map(|state| ("state", state)));
                query.extend(embedding_format.map(|format| ("embedding_format", format)));
                items(&batch, sources, &query).await?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints a table on a terminal, and one JSON line for each batch otherwise.
async fn list(client: &Client, query: &[(&str, String)]) -> anyhow::Result<()> {
    let page = client
        .json(Method::GET, &path_with("/batches", query))
        .await?;
    let batches = page["results"].as_array().cloned().unwrap_or_default();
    let mut out = io::stdout();
    if !out.is_terminal() {
        for batch in batches {
            writeln!(out, "{batch}")?;
        }
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header([
        "id",
        "name",
        "operation",
        "state",
        "ok",
        "failed",
        "waiting",
    ]);
    for batch in batches {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let count = |name: &str| batch["counts"][name].as_u64().unwrap_or(0);
        table.add_row([
            text(&batch["id"]),
            text(&batch["name"]),
            text(&batch["operation"]),
            text(&batch["state"]),
            count("ok").to_string(),
            (count("error") + count("dead")).to_string(),
            (count("queued") + count("running")).to_string(),
        ]);
    }
    writeln!(out, "{table}")?;
    Ok(())
}

/// Sends a request about one batch and prints the response.
async fn act(
    batch: &OneBatch,
    sources: &Sources,
    method: Method,
    action: &str,
) -> anyhow::Result<()> {
    let client = Client::new(&batch.server, sources)?;
    let path = format!("/batches/{}{action}", batch.id);
    let response = client.json(method, &path).await?;
    if !response.is_null() {
        writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&response)?)?;
    }
    Ok(())
}

/// Prints all items as they arrive.
async fn items(
    batch: &OneBatch,
    sources: &Sources,
    query: &[(&str, String)],
) -> anyhow::Result<()> {
    let client = Client::new(&batch.server, sources)?;
    let path = path_with(&format!("/batches/{}/items", batch.id), query);
    let mut lines = client.lines(&path).await?.bytes_stream();
    let mut out = io::stdout();
    while let Some(part) = lines.try_next().await? {
        out.write_all(&part)?;
    }
    Ok(())
}
