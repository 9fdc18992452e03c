//! `facescan scan`, and `facescan embed` where it prints faces: the pipeline on files, in constant memory.

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use futures::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::runtime::{start_app, start_quiet_logs, tokio_runtime};
use crate::{
    app::App,
    config::{Config, EmbeddingFormat, Provenance},
    context::RequestContext,
    ingest::intake::Loaded,
    pipeline::{
        answer::{ErrorEntry, ImageResult, Outcome, ScanResult},
        options::{ScanKind, ScanOptions, ScanRequest},
        scan::Scan,
    },
};

mod draw;
pub(super) mod files;
mod table;

/// What to scan and how to print it.
#[derive(Debug, Args)]
pub struct ScanArgs {
    /// Pictures, folders of them, or URLs where `urls.enabled` is set.
    #[arg(required = true, value_name = "FILE|DIR|URL")]
    pub(super) paths: Vec<PathBuf>,
    /// How to print the results.
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    format: Format,
    /// Write a copy of every picture with its faces drawn in to this folder.
    #[arg(long, value_name = "DIR")]
    draw: Option<PathBuf>,
    /// Measure the faces too.
    #[arg(long)]
    quality: bool,
    /// Lowest detection score of a face, 0 to 1.
    #[arg(long, value_name = "SCORE")]
    min_score: Option<f32>,
    /// Side of the square that pictures are fitted into for detection, a multiple of 32.
    #[arg(long, value_name = "PIXELS")]
    det_size: Option<u32>,
    /// A second such side, for faces that fill the frame.
    #[arg(long, value_name = "PIXELS")]
    second_det_size: Option<u32>,
    /// How many faces at most, the largest first; 0 for all.
    #[arg(long, value_name = "COUNT")]
    max_faces: Option<usize>,
    /// Drop faces whose box has a shorter side below this.
    #[arg(long, value_name = "PIXELS")]
    min_face_size: Option<f32>,
    /// The pictures are aligned 112×112 crops (embed only).
    #[arg(long)]
    aligned: bool,
    /// How vectors are written: float, base64-f32 or base64-f16.
    #[arg(long, value_name = "FORMAT", value_parser = embedding_format)]
    embedding_format: Option<EmbeddingFormat>,
    /// Keep the results in the database, and answer from it what was scanned before.
    #[arg(long)]
    pub(super) store: bool,
    /// Add the milliseconds by stage.
    #[arg(long)]
    timings: bool,
    /// Pictures in work at a time; 0 for one more than there are CPU workers.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(super) jobs: usize,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table on a terminal, JSON lines elsewhere.
    Auto,
    /// One JSON object a picture.
    Jsonl,
    /// One row a face.
    Table,
}

fn embedding_format(text: &str) -> Result<EmbeddingFormat, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned()))
        .map_err(|_| "is one of float, base64-f32 and base64-f16".to_owned())
}

/// A line of the output: what HTTP answers for the picture, and its path.
#[derive(Serialize)]
struct Line<'a> {
    path: String,
    #[serde(flatten)]
    result: &'a ImageResult<ScanResult>,
}

impl ScanArgs {
    /// Refuses what has no meaning where vectors are written and results are not printed.
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
                "{option}: is for results on standard output; leave it out with --out and --kind image"
            ),
            None => Ok(()),
        }
    }

    /// What is asked of each picture; what the command line does not say has its default.
    pub(super) fn request(&self) -> ScanRequest {
        ScanRequest {
            min_score: self.min_score,
            det_size: self.det_size,
            second_det_size: self.second_det_size,
            max_faces: self.max_faces,
            min_face_size: self.min_face_size,
            quality: self.quality.then_some(true),
            aligned: self.aligned.then_some(true),
            embedding_format: self.embedding_format,
            store: Some(self.store),
            timings: self.timings.then_some(true),
            ..ScanRequest::default()
        }
    }
}

/// Scans every picture and prints its result, in order.
///
/// # Errors
/// When the start fails or the output cannot be written; a picture that fails is a result.
pub fn run(
    mut config: Config,
    provenance: &Provenance,
    args: ScanArgs,
    kind: ScanKind,
) -> anyhow::Result<ExitCode> {
    start_quiet_logs(&config, provenance)?;
    if !args.store {
        // Nothing is kept, so no file may appear.
        config.database.url = Some("sqlite::memory:".to_owned().into());
    }
    files::check(&args.paths)?;
    tokio_runtime()?.block_on(async {
        let app = start_app(config.without_encoder()).await?;
        let thresholds = &app.pipeline.detector.spec.thresholds;
        let options = args.request().resolve(kind, &app.config, thresholds)?;
        if options.store {
            app.prepare_store().await.context("making the tables")?;
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

/// Scans the files as they are found and returns how many failed.
async fn scan_all(app: &App, args: &ScanArgs, options: &ScanOptions) -> anyhow::Result<usize> {
    let jobs = in_work(app, args.jobs);
    let context = &app.run_context();
    let progress = progress_bar(&args.paths);
    let mut printer = Printer::new(args.format);
    let mut failed = 0;
    let mut results = stream::iter(files::pictures(&args.paths).enumerate())
        .map(|(index, found)| async move {
            let scanned = scan_file(app, context, &found, args.draw.as_deref(), options).await;
            (index, found, scanned)
        })
        .buffered(jobs);
    while let Some((index, found, scanned)) = results.next().await {
        let outcome = match scanned {
            Ok(scan) => Outcome::Ok(ScanResult::new(scan, options)),
            Err(error) => {
                failed += 1;
                Outcome::Error { error }
            }
        };
        let result = ImageResult {
            index,
            id: None,
            outcome,
        };
        progress.suspend(|| printer.print(&found.path, &result))?;
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
    options: &ScanOptions,
) -> Result<Scan, ErrorEntry> {
    let pipeline = &app.pipeline;
    let Loaded {
        bytes,
        url,
        fetch_ms,
        reservation: _reservation,
        ..
    } = read(app, found).await?;
    let options = options
        .for_image(None, None, url)
        .map_err(ErrorEntry::in_full)?;
    let mut scan = app
        .scans
        .scan(context, bytes.clone(), &options)
        .await
        .map_err(ErrorEntry::in_full)?;
    scan.timings = scan.timings.after_fetch(fetch_ms);
    if let Some(folder) = drawings {
        let target = draw::target(folder, &found.relative);
        draw::write(pipeline, bytes, &scan.faces, target)
            .await
            .map_err(ErrorEntry::in_full)?;
    }
    Ok(scan)
}

/// The bytes of a file or a URL. To be held until they are worked on: they bound how much is fetched meanwhile.
///
/// # Errors
/// Why it cannot be read, as an answer would tell it.
pub(super) async fn read(app: &App, found: &files::Found) -> Result<Loaded, ErrorEntry> {
    found.source()?.load(app).await
}

/// How many pictures are in work at a time: as asked, or enough to keep the workers busy while files are read.
pub(super) fn in_work(app: &App, jobs: usize) -> usize {
    match jobs {
        0 => app.config.imaging.worker_threads().get() + 1,
        jobs => jobs,
    }
}

/// A bar on a terminal's standard error; nothing elsewhere.
pub(super) fn progress_bar(paths: &[PathBuf]) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    let style =
        ProgressStyle::with_template("{bar:40} {pos}/{len} pictures  {per_sec}  {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(files::pictures(paths).count() as u64).with_style(style)
}

/// Writes results to standard output as they come.
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

    fn print(&mut self, path: &Path, result: &ImageResult<ScanResult>) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        match &mut self.table {
            Some(table) => table.print(&mut out, path, result),
            None => {
                let line = Line {
                    path: path.display().to_string(),
                    result,
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
