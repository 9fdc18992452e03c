//! `facescan embed`: vectors of faces or of whole pictures, to standard output or into a file, in constant memory.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use futures::{StreamExt, stream};

use super::{
    runtime::{start_app, start_quiet_logs, tokio_runtime},
    scan::{self, ScanArgs, files, in_work, progress_bar, read},
};
use crate::{
    app::App,
    config::{Config, Provenance},
    context::RequestContext,
    ingest::intake::Loaded,
    pipeline::{
        answer::ErrorEntry,
        encode::EncodePlan,
        options::{ScanKind, ScanOptions},
    },
};
use file::{Ending, VectorFile};
use record::{Record, Vector};

mod file;
mod record;

/// What to embed, and where the vectors go.
#[derive(Debug, Args)]
pub struct EmbedArgs {
    #[command(flatten)]
    scan: ScanArgs,
    /// What vectors are made of.
    #[arg(long, value_enum, default_value_t = Kind::Face)]
    kind: Kind,
    /// Write the vectors to this file instead: its name ends in .npy, .parquet or .jsonl. Pictures that fail are named
    /// in it, for .npy in the file beside it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// What vectors are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Each face.
    Face,
    /// The whole picture, by the model that models.encoder names.
    Image,
}

/// How the pictures are embedded.
enum Plan {
    Faces(Box<ScanOptions>),
    Images(EncodePlan),
}

/// Embeds every picture, in order.
///
/// # Errors
/// When the start fails or the output cannot be written; a picture that fails is a result.
pub fn run(
    mut config: Config,
    provenance: &Provenance,
    args: EmbedArgs,
) -> anyhow::Result<ExitCode> {
    if args.kind == Kind::Face && args.out.is_none() {
        return scan::run(config, provenance, args.scan, ScanKind::Embed);
    }
    start_quiet_logs(&config, provenance)?;
    if !args.scan.store {
        // Nothing is kept, so no file may appear.
        config.database.url = Some("sqlite::memory:".to_owned().into());
    }
    files::check(&args.scan.paths)?;
    args.scan.check_prints_vectors()?;
    let ending = args.out.as_deref().map(Ending::of).transpose()?;
    if args.kind == Kind::Face {
        config = config.without_encoder();
    }
    tokio_runtime()?.block_on(async {
        let app = start_app(config).await?;
        let plan = args.plan(&app)?;
        if args.scan.store {
            app.prepare_store().await.context("making the tables")?;
        }
        let out = args.out.as_deref().zip(ending);
        let failures = embed_all(&app, &args, &plan, out).await?;
        app.store.close().await;
        Ok(if failures == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    })
}

impl EmbedArgs {
    fn plan(&self, app: &App) -> anyhow::Result<Plan> {
        let asked = self.scan.request();
        Ok(match self.kind {
            Kind::Face => {
                let thresholds = &app.pipeline.detector.spec.thresholds;
                let options = asked.resolve(ScanKind::Embed, &app.config, thresholds)?;
                Plan::Faces(Box::new(options))
            }
            Kind::Image => {
                app.pipeline.encoder()?;
                Plan::Images(EncodePlan::resolve(asked, &app.config)?)
            }
        })
    }
}

/// Embeds the files as they are found; gives the number that failed.
async fn embed_all(
    app: &App,
    args: &EmbedArgs,
    plan: &Plan,
    out: Option<(&Path, Ending)>,
) -> anyhow::Result<usize> {
    let (contract, dim) = match (plan, &app.pipeline.encoder) {
        (Plan::Images(_), Some(encoder)) => (&encoder.contract, encoder.dim),
        _ => (&app.pipeline.embedder.contract, app.pipeline.embedder.dim),
    };
    let mut file = VectorFile::create(out, contract, dim)?;
    let progress = progress_bar(&args.scan.paths);
    let context = &app.run_context();
    let mut failures = 0;
    let mut results = stream::iter(files::pictures(&args.scan.paths))
        .map(|found| async move {
            let vectors = vectors_of(app, context, &found, plan).await;
            (found, vectors)
        })
        .buffered(in_work(app, args.scan.jobs));
    while let Some((found, vectors)) = results.next().await {
        failures += usize::from(vectors.is_err());
        for record in Record::of(&found.path, vectors) {
            file.write(record)?;
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    let written = file.finish()?;
    if let Some(out) = &args.out {
        eprintln!(
            "{written} vectors of {dim} in {} ({failures} pictures failed)",
            out.display()
        );
    }
    Ok(failures)
}

/// The vectors of one file.
async fn vectors_of(
    app: &App,
    context: &RequestContext,
    found: &files::Found,
    plan: &Plan,
) -> Result<Vec<Vector>, ErrorEntry> {
    let Loaded {
        bytes,
        url,
        reservation: _reservation,
        ..
    } = read(app, found).await?;
    let pipeline = &app.pipeline;
    Ok(match plan {
        Plan::Faces(options) => {
            let options = options
                .for_image(None, None, url)
                .map_err(ErrorEntry::in_full)?;
            let scanned = app.scans.scan(context, bytes, &options).await;
            let faces = scanned.map_err(ErrorEntry::in_full)?.faces.into_iter();
            faces.enumerate().filter_map(Vector::of_face).collect()
        }
        Plan::Images(plan) => {
            let encoded = pipeline
                .encode(context, bytes, plan)
                .await
                .map_err(ErrorEntry::in_full)?;
            let vector = encoded.embedding.map(Vector::of_picture);
            vector.into_iter().collect()
        }
    })
}
