//! `facescan scan`, and `facescan embed` if it prints faces: runs the pipeline on files, in constant memory.

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    pin::pin,
    process::ExitCode,
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use facescan_config::{Config, DecodeMode, DetectionRequest, EmbeddingFormat, Provenance};
use facescan_fields::{FieldErrors, groups::checked};
use facescan_pipeline::{
    context::RequestContext,
    core::{
        options::{RunRequest, StorageRequest},
        run::RunOutput,
        scan::Scan,
    },
    ingest::intake::LoadedImage,
    operation::ScanKind,
    operations::scan::{plan::ScanPlan, request::ScanRequest},
    results::{ErrorEntry, ScanResult, response::Outcome},
};
use futures::StreamExt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::runtime::{start_app, start_quiet_logs, store_nothing, tokio_runtime};
use crate::{app::App, http::error::entry_in_full};

mod draw;
pub(super) mod files;
mod table;

/// The images to scan and the output format.
#[derive(Debug, Args)]
pub struct ScanArgs {
    /// Images, folders of images, or URLs (URLs need `urls.enabled`).
    #[arg(required = true, value_name = "FILE|DIR|URL")]
    pub(super) paths: Vec<PathBuf>,
    /// The format of the results.
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    format: Format,
    /// Write a copy of every image with its faces drawn to this folder.
    #[arg(long, value_name = "DIR")]
    draw: Option<PathBuf>,
    /// Also measure the quality of the faces.
    #[arg(long)]
    quality: bool,
    #[command(flatten)]
    detection: DetectionRequest,
    /// How much of a JPEG is decoded: `full`, or `fast` to reduce large JPEGs while they are decoded.
    #[arg(long, value_name = "MODE")]
    decode: Option<DecodeMode>,
    /// The images are aligned 112×112 crops (embed only).
    #[arg(long)]
    aligned: bool,
    /// The format of vectors: float, base64-f32 or base64-f16.
    #[arg(long, value_name = "FORMAT", value_parser = embedding_format)]
    embedding_format: Option<EmbeddingFormat>,
    /// Store the results in the database, and reuse stored results of earlier scans.
    #[arg(long)]
    pub(super) store: bool,
    /// Add the duration of each stage in milliseconds.
    #[arg(long)]
    timings: bool,
    /// The number of images that are processed at a time; 0 means the number of CPU workers plus one.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(super) jobs: usize,
}

/// The format of the printed results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table on a terminal, JSON lines otherwise.
    Auto,
    /// One JSON object per image.
    Jsonl,
    /// One row per face.
    Table,
}

fn embedding_format(text: &str) -> Result<EmbeddingFormat, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned()))
        .map_err(|_| "must be one of float, base64-f32 and base64-f16".to_owned())
}

/// A line of the output: the entry of the image in a response, and its path.
#[derive(Serialize)]
struct Line<'a> {
    path: String,
    #[serde(flatten)]
    outcome: &'a Outcome<ScanResult>,
}

impl ScanArgs {
    /// Refuses options that have no effect when vectors are written to a file.
    pub(super) fn check_prints_vectors(&self) -> anyhow::Result<()> {
        let printed = [
            ("--draw", self.draw.is_some()),
            ("--format table", self.format == Format::Table),
            ("--quality", self.quality),
            ("--embedding-format", self.embedding_format.is_some()),
            ("--timings", self.timings),
        ];
        match printed.into_iter().find(|(_, is_there)| *is_there) {
            Some((option, _)) => anyhow::bail!(
                "{option} applies only to results on standard output; do not use it with --out or --kind image"
            ),
            None => Ok(()),
        }
    }

    /// Creates the scan request. Options that the command line leaves out have their defaults.
    pub(super) fn request(&self) -> Result<ScanRequest, FieldErrors> {
        checked(ScanRequest {
            detection: self.detection.clone(),
            decode: self.decode,
            quality: self.quality.then_some(true),
            aligned: self.aligned.then_some(true),
            embedding_format: self.embedding_format,
            storage: StorageRequest::new(self.store),
            run: RunRequest {
                timings: self.timings.then_some(true),
                ..RunRequest::default()
            },
            ..ScanRequest::default()
        })
    }
}

/// Scans every image and prints the results in order.
///
/// # Errors
/// Returns an error if the start fails or the output cannot be written. A failed image is a result and not an error.
pub fn run(
    mut config: Config,
    provenance: &Provenance,
    args: ScanArgs,
    kind: ScanKind,
) -> anyhow::Result<ExitCode> {
    start_quiet_logs(&config, provenance)?;
    if !args.store {
        store_nothing(&mut config);
    }
    files::check(&args.paths)?;
    tokio_runtime()?.block_on(async {
        let app = start_app(config.without_encoder()).await?;
        let thresholds = &app.pipeline.models.detector.spec.thresholds;
        let options = args.request()?.resolve(kind, &app.config, thresholds)?;
        if options.storage.store {
            app.prepare_store().await.context("creating the tables")?;
        }
        let failed = scan_all(&app, &args, &options).await?;
        app.store.close().await;
        Ok(if failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    })
}

/// Scans the files in the order of discovery. Returns the number of failures.
async fn scan_all(app: &App, args: &ScanArgs, options: &ScanPlan) -> anyhow::Result<usize> {
    let jobs = in_work(app, args.jobs);
    let context = &app.run_context();
    let progress = progress_bar(&args.paths);
    let mut printer = Printer::new(args.format);
    let mut failed = 0;
    let images = files::images(&args.paths).enumerate();
    let results = app
        .runner
        .admit_each(context, images, jobs, async |(index, found)| {
            let scanned = scan_file(app, context, &found, args.draw.as_deref(), options).await;
            (index, found, scanned)
        });
    let mut results = pin!(results);
    while let Some((index, found, scanned)) = results.next().await {
        failed += usize::from(scanned.is_err());
        let scanned = scanned.map(|output| output.map(|scan| ScanResult::new(scan, options)));
        let mut outcome = Outcome::new(index, None, scanned, options.run.timings);
        outcome.keep_fallbacks_only();
        progress.suspend(|| printer.print(&found.path, &outcome))?;
        progress.inc(1);
    }
    progress.finish_and_clear();
    printer.finish()?;
    Ok(failed)
}

async fn scan_file(
    app: &App,
    context: &RequestContext,
    found: &files::Found,
    drawings: Option<&Path>,
    options: &ScanPlan,
) -> Result<RunOutput<Scan>, ErrorEntry> {
    let image = read(app, found).await?;
    let bytes = drawings.map(|folder| (folder, image.bytes.clone()));
    let scanned = app
        .runner
        .run(context, image, options)
        .await
        .map_err(entry_in_full)?;
    if let Some((folder, bytes)) = bytes {
        let target = draw::target(folder, &found.relative);
        draw::write(&app.pipeline, bytes, &scanned.result.faces, target)
            .await
            .map_err(entry_in_full)?;
    }
    Ok(scanned)
}

/// Loads the bytes of a file or a URL. Keep the result until the image has been processed, because its reservation
/// limits how much is fetched.
///
/// # Errors
/// Returns the error entry that an answer would contain.
pub(super) async fn read(app: &App, found: &files::Found) -> Result<LoadedImage, ErrorEntry> {
    found.source()?.load(app).await
}

/// Returns how many images are processed at a time: `jobs`, or enough to keep the workers busy while files are read.
pub(super) fn in_work(app: &App, jobs: usize) -> usize {
    match jobs {
        0 => app.config.imaging.worker_threads().get() + 1,
        jobs => jobs,
    }
}

/// Creates a progress bar on standard error. It is visible only on a terminal.
pub(super) fn progress_bar(paths: &[PathBuf]) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} images  {per_sec}  {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(files::images(paths).count() as u64).with_style(style)
}

/// Writes results to standard output as they arrive.
struct Printer {
    table: Option<table::Table>,
}

impl Printer {
    fn new(format: Format) -> Self {
        let as_table = match format {
            Format::Auto => std::io::stdout().is_terminal(),
            Format::Jsonl => false,
            Format::Table => true,
        };
        Self {
            table: as_table.then(table::Table::default),
        }
    }

    fn print(&mut self, path: &Path, outcome: &Outcome<ScanResult>) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        match &mut self.table {
            Some(table) => table.print(&mut out, path, outcome),
            None => {
                let line = Line {
                    path: path.display().to_string(),
                    outcome,
                };
                let line = serde_json::to_string(&line).context("writing a result")?;
                writeln!(out, "{line}")
            }
        }
        .context("writing to standard output")
    }

    fn finish(self) -> anyhow::Result<()> {
        match self.table {
            Some(table) => table
                .finish(&mut std::io::stdout().lock())
                .context("writing to standard output"),
            None => Ok(()),
        }
    }
}
