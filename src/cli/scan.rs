//! `facescan scan`, and `facescan embed` if it prints faces: runs the pipeline on files, in constant memory.

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use facescan_config::{Config, DecodeMode, DetectionRequest, EmbeddingFormat};
use facescan_fields::{FieldErrors, groups::checked};
use facescan_pipeline::{
    context::RequestContext,
    core::{
        options::{RunRequest, StorageRequest},
        run::RunOutput,
        scan::Scan,
    },
    operation::ScanKind,
    operations::scan::request::{ScanPlan, ScanRequest},
    results::{ErrorEntry, ScanResult, response::Outcome},
};
use serde::Serialize;

use super::{
    files::{self, Found},
    image_command::{for_each_image, read, run_storing_if},
    runtime::success_if,
};
use crate::{app::App, http::error::entry_in_full};

use table::Table;

mod draw;
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

impl Format {
    fn is_table(self) -> bool {
        match self {
            Self::Auto => std::io::stdout().is_terminal(),
            Self::Jsonl => false,
            Self::Table => true,
        }
    }
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
    /// Returns the arguments of a scan of one picture whose faces are printed as a table.
    pub(super) fn demo(picture: PathBuf, draw: Option<PathBuf>) -> Self {
        Self {
            paths: vec![picture],
            format: Format::Table,
            draw,
            quality: true,
            detection: DetectionRequest::default(),
            decode: None,
            aligned: false,
            embedding_format: None,
            store: false,
            timings: false,
            jobs: 0,
        }
    }

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
pub fn run(config: Config, args: &ScanArgs, kind: ScanKind) -> anyhow::Result<ExitCode> {
    let mut request = args.request()?;
    let config = config.without_encoder();
    let failed = run_storing_if(args.store, config, &args.paths, async |app| {
        let thresholds = &app.pipeline.models.detector.spec.thresholds;
        let options = request.resolve(kind, &app.config, thresholds)?;
        if options.storage.store {
            app.prepare_store().await.context("creating the tables")?;
        }
        scan_all(app, args, &options).await
    })?;
    Ok(success_if(failed == 0))
}

/// Scans the files in the order of discovery. Returns the number of failures.
async fn scan_all(app: &App, args: &ScanArgs, options: &ScanPlan) -> anyhow::Result<usize> {
    let mut table = args.format.is_table().then(Table::default);
    let (mut index, mut failed) = (0, 0);
    let scan = async |context: &RequestContext, found: &Found| {
        scan_file(app, context, found, args.draw.as_deref(), options).await
    };
    for_each_image(
        app,
        &args.paths,
        args.jobs,
        scan,
        |progress, found, scanned| {
            failed += usize::from(scanned.is_err());
            let scanned = scanned.map(|output| output.map(|scan| ScanResult::new(scan, options)));
            let mut outcome = Outcome::new(index, None, scanned, options.run.timings);
            outcome.keep_fallbacks_only();
            index += 1;
            progress
                .suspend(|| print(table.as_mut(), &found.path, &outcome))
                .context("writing to standard output")
        },
    )
    .await?;
    if let Some(table) = table {
        let finished = table.finish(&mut std::io::stdout().lock());
        finished.context("writing to standard output")?;
    }
    Ok(failed)
}

async fn scan_file(
    app: &App,
    context: &RequestContext,
    found: &Found,
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

/// Writes the result of an image to standard output: its rows in the table, or else a line of JSON.
fn print(
    table: Option<&mut Table>,
    path: &Path,
    outcome: &Outcome<ScanResult>,
) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match table {
        Some(table) => table.print(&mut out, path, outcome),
        None => {
            let line = Line {
                path: files::name(path),
                outcome,
            };
            writeln!(out, "{}", serde_json::to_string(&line)?)
        }
    }
}
