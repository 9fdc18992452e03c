//! `facescan submit`: sends files and URLs to a server as one batch.
//!
//! The command creates an open batch, adds the items in pieces, and closes it. Each item has its path or URL as its id, and a
//! batch has each id once. So an interrupted command can be repeated with its key: it finds its batch and sends what is
//! missing.

use std::{
    collections::HashSet,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use facescan_pipeline::operation::BatchOperation;
use futures::TryStreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    client::{Client, ServerArgs, image_entry, json_object},
    files::{self, Found},
    runtime::{success_if, tokio_runtime},
};

/// The largest number of items in one request.
const ITEMS_PER_REQUEST: usize = 256;

/// The number of bytes after which a request is sent.
const BYTES_PER_REQUEST: usize = 16 << 20;

/// The time between two looks at a batch with `--wait`.
const POLL: Duration = Duration::from_secs(1);

/// The arguments of `facescan submit`.
#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// Images, folders, URLs, or text files with one path or URL a line; `-` reads such lines from standard input.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
    /// The operation.
    #[arg(long, default_value = "embed", value_parser = operations())]
    operation: BatchOperation,
    /// The options of the operation, as a JSON object.
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    options: Option<Value>,
    /// A name for the batch.
    #[arg(long)]
    name: Option<String>,
    /// The priority: interactive or bulk.
    #[arg(long)]
    priority: Option<String>,
    /// The idempotency key of an interrupted command, which it has printed. The command continues there.
    #[arg(long, value_name = "KEY")]
    resume: Option<String>,
    /// Wait until all items are finished.
    #[arg(long)]
    wait: bool,
}

fn operations() -> impl TypedValueParser<Value = BatchOperation> {
    let names = BatchOperation::ALL.map(BatchOperation::name);
    PossibleValuesParser::new(names).try_map(BatchOperation::try_from)
}

/// Sends the items and prints the batch.
pub fn run(args: &SubmitArgs, settings: &facescan_config::Sources) -> anyhow::Result<ExitCode> {
    let key = match &args.resume {
        Some(key) => key.clone(),
        None => Uuid::now_v7().to_string(),
    };
    let sources = sources(&args.paths)?;
    tokio_runtime()?.block_on(async {
        let submitting = Submitting::begin(args, &key, settings).await?;
        eprintln!(
            "batch {}; if this is interrupted, continue with --resume {key}",
            submitting.id
        );
        let sent = tokio::select! {
            sent = submitting.send_all(sources) => sent,
            signal = tokio::signal::ctrl_c() => {
                signal.context("listening for signals")?;
                Err(anyhow::anyhow!("interrupted"))
            }
        };
        if sent.is_err() {
            eprintln!(
                "the batch {} is not complete; continue with --resume {key}",
                submitting.id
            );
        }
        if sent? + submitting.known.len() == 0 && submitting.unreadable.get() == 0 {
            let path = format!("/batches/{}", submitting.id);
            submitting.client.json(Method::DELETE, &path).await?;
            anyhow::bail!("the paths name no image, so the batch was deleted again");
        }
        files::say_what_was_left_out(&args.paths);
        let batch = submitting.finish(args.wait).await?;
        writeln!(io::stdout(), "{batch}")?;
        let count = |state: &str| batch["counts"][state].as_u64().unwrap_or(0);
        let unreadable = submitting.unreadable.get();
        let failed = count("error") + count("dead");
        eprintln!(
            "{} images: {} ok, {failed} failed, {} waiting, {unreadable} not sent",
            batch["accepted"],
            count("ok"),
            count("queued") + count("running")
        );
        Ok(success_if(failed + unreadable == 0))
    })
}

/// A batch that gets its items.
struct Submitting {
    client: Client,
    id: Uuid,
    /// The ids that the batch has from an earlier run.
    known: HashSet<String>,
    /// The files that could not be read, and the entries that the server refused.
    unreadable: std::cell::Cell<u64>,
}

impl Submitting {
    /// Creates the batch, or finds that of an earlier run.
    async fn begin(
        args: &SubmitArgs,
        key: &str,
        settings: &facescan_config::Sources,
    ) -> anyhow::Result<Self> {
        let client = Client::new(&args.server, settings)?;
        let mut body = json!({"operation": args.operation, "open": true});
        for (field, value) in [("name", &args.name), ("priority", &args.priority)] {
            if let Some(value) = value {
                body[field] = value.as_str().into();
            }
        }
        if let Some(options) = &args.options {
            body["options"] = options.clone();
        }
        let response = client
            .send(|| {
                let request = client.request(Method::POST, "/batches")?;
                Ok(request.header("idempotency-key", key).json(&body))
            })
            .await?;
        let is_known = response.status() == reqwest::StatusCode::OK;
        let receipt: Value = response.json().await.context("parsing the response")?;
        let id = receipt["id"].as_str().and_then(|id| id.parse().ok());
        let id = id.context("the response has no id")?;
        let known = match is_known {
            true => known_ids(&client, id).await?,
            false => HashSet::new(),
        };
        Ok(Self {
            client,
            id,
            known,
            unreadable: std::cell::Cell::new(0),
        })
    }

    /// Sends the items that the batch does not have.
    ///
    /// Returns their number.
    async fn send_all(&self, sources: Sources) -> anyhow::Result<usize> {
        let progress = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {pos} sent · {per_sec} · {msg}");
        progress.set_style(style.context("the style of the progress bar")?);
        let mut lines = Vec::new();
        let (mut count, mut total) = (0, 0);
        for found in sources {
            let found = found?;
            if self.known.contains(&found.name()) {
                progress.inc(1);
                continue;
            }
            match line(&found).await {
                Ok(line) => {
                    serde_json::to_writer(&mut lines, &line)?;
                    lines.push(b'\n');
                    count += 1;
                    total += 1;
                }
                Err(error) => {
                    self.unreadable.set(self.unreadable.get() + 1);
                    progress.suspend(|| eprintln!("{}: {error}", found.path.display()));
                }
            }
            if count == ITEMS_PER_REQUEST || lines.len() >= BYTES_PER_REQUEST {
                self.send(std::mem::take(&mut lines)).await?;
                progress.inc(std::mem::take(&mut count) as u64);
            }
        }
        if !lines.is_empty() {
            self.send(lines).await?;
            progress.inc(count as u64);
        }
        progress.finish_and_clear();
        Ok(total)
    }

    async fn send(&self, lines: Vec<u8>) -> anyhow::Result<()> {
        let lines = bytes::Bytes::from(lines);
        let path = format!("/batches/{}/items", self.id);
        let response = self
            .client
            .send(|| {
                let request = self.client.request(Method::POST, &path)?;
                let request = request.header("content-type", "application/x-ndjson");
                Ok(request.body(lines.clone()))
            })
            .await?;
        let receipt: Value = response.json().await.context("parsing the response")?;
        for refused in receipt["refused"].as_array().into_iter().flatten() {
            self.unreadable.set(self.unreadable.get() + 1);
            let id = refused["id"].as_str().unwrap_or("an item");
            let detail = refused["error"]["detail"].as_str().unwrap_or_default();
            eprintln!("{id}: {detail}");
        }
        Ok(())
    }

    /// Closes the batch. With `wait`, waits until it is done. Returns the batch.
    async fn finish(&self, wait: bool) -> anyhow::Result<Value> {
        let path = format!("/batches/{}", self.id);
        let close = format!("{path}/close");
        let mut batch = self.client.json(Method::POST, &close).await?;
        let total = batch["accepted"].as_u64().unwrap_or(0);
        let progress = match wait {
            true => ProgressBar::new(total),
            false => ProgressBar::hidden(),
        };
        while wait && !["done", "cancelled"].contains(&batch["state"].as_str().unwrap_or("done")) {
            let counts = &batch["counts"];
            let waiting = ["queued", "running"].map(|state| counts[state].as_u64().unwrap_or(0));
            progress.set_position(total.saturating_sub(waiting.iter().sum()));
            tokio::time::sleep(POLL).await;
            batch = self.client.json(Method::GET, &path).await?;
        }
        progress.finish_and_clear();
        Ok(batch)
    }
}

/// Returns the ids of all items of a batch.
async fn known_ids(client: &Client, id: Uuid) -> anyhow::Result<HashSet<String>> {
    let path = format!("/batches/{id}/items?embedding_format=none&data=false");
    let mut parts = client.lines(&path).await?.bytes_stream();
    let mut known = HashSet::new();
    let mut rest: Vec<u8> = Vec::new();
    while let Some(part) = parts.try_next().await? {
        rest.extend_from_slice(&part);
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let item: Value = serde_json::from_slice(&rest[..end])?;
            known.extend(item["id"].as_str().map(str::to_owned));
            rest.drain(..=end);
        }
    }
    Ok(known)
}

/// Returns the item of a file or URL.
async fn line(found: &Found) -> anyhow::Result<Value> {
    let mut entry = image_entry(found).await?;
    entry["id"] = found.name().into();
    Ok(entry)
}

type Sources = Box<dyn Iterator<Item = anyhow::Result<Found>>>;

/// Returns the images of all paths, in order. Lists are read line by line.
fn sources(paths: &[PathBuf]) -> anyhow::Result<Sources> {
    let mut all: Sources = Box::new(std::iter::empty());
    for path in paths {
        let more: Sources = if path == Path::new("-") {
            Box::new(listed(BufReader::new(io::stdin())))
        } else if is_list(path) {
            let file = std::fs::File::open(path)
                .with_context(|| format!("opening the list {}", path.display()))?;
            Box::new(listed(BufReader::new(file)))
        } else {
            files::check(std::slice::from_ref(path))?;
            let found: Vec<Found> = files::images(std::slice::from_ref(path)).collect();
            Box::new(found.into_iter().map(Ok))
        };
        all = Box::new(all.chain(more));
    }
    Ok(all)
}

/// Returns whether a path is a text file with paths or URLs.
fn is_list(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    path.is_file() && matches!(ending, Some("txt" | "list" | "lst"))
}

/// Returns the image of each line that is not blank.
fn listed(lines: impl BufRead) -> impl Iterator<Item = anyhow::Result<Found>> {
    lines
        .lines()
        .filter(|line| !line.as_ref().is_ok_and(|line| line.trim().is_empty()))
        .flat_map(|line| {
            let found: Vec<_> = match line {
                Ok(line) => files::images(&[PathBuf::from(line.trim())])
                    .map(Ok)
                    .collect(),
                Err(error) => vec![Err(anyhow::Error::new(error).context("reading a list"))],
            };
            found
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_paths_and_urls() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("b.jpg"), "").unwrap();
        std::fs::write(folder.path().join("a.png"), "").unwrap();
        let list = folder.path().join("images.txt");
        let file = folder.path().join("b.jpg");
        let text = format!("https://example.org/c.jpg\n\n {} \n", file.display());
        std::fs::write(&list, text).unwrap();
        let names = |paths: &[PathBuf]| -> Vec<String> {
            sources(paths)
                .unwrap()
                .map(|found| {
                    found
                        .unwrap()
                        .path
                        .file_name()
                        .unwrap()
                        .to_string_lossy()
                        .into_owned()
                })
                .collect()
        };
        assert_eq!(names(&[list]), ["c.jpg", "b.jpg"]);
        assert_eq!(names(&[folder.path().to_owned()]), ["a.png", "b.jpg"]);
        assert!(sources(&["no such folder".into()]).is_err());
    }
}
