//! `facescan embed`: writes vectors of faces or of whole images to standard output or to a file, in constant memory.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use facescan_config::Config;
use facescan_pipeline::{
    context::RequestContext,
    operation::ScanKind,
    operations::{
        embed_image::ImageEmbeddingPlan,
        scan::request::{ScanPlan, ScanRequest},
    },
    results::ErrorEntry,
};

use super::{
    files::Found,
    image_command::{for_each_image, read, run_storing_if},
    runtime::success_if,
    scan::{self, ScanArgs},
};
use crate::{app::App, http::error::entry_in_full};
use file::{Ending, VectorFile};
use record::{Record, Vector};

mod file;
mod record;

/// The images to embed, and the target of the vectors.
#[derive(Debug, Args)]
pub struct EmbedArgs {
    #[command(flatten)]
    scan: ScanArgs,
    /// Make a vector of each face or of the whole image.
    #[arg(long, value_enum, default_value_t = Kind::Face)]
    kind: Kind,
    /// Write the vectors to this file. Its name must end in .npy, .parquet or .jsonl. The file also lists the images
    /// that failed; for .npy, FILE.index.jsonl lists them.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The subject of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Each face.
    Face,
    /// The whole image, embedded by the model in models.encoder.
    Image,
}

/// How the images are embedded.
enum Plan {
    Faces(Box<ScanPlan>),
    Images(ImageEmbeddingPlan),
}

/// Embeds every image, in order.
///
/// # Errors
/// Returns an error if the start fails or the output cannot be written. A failed image is a result and not an error.
pub fn run(mut config: Config, args: &EmbedArgs) -> anyhow::Result<ExitCode> {
    match args.kind {
        Kind::Face if args.out.is_none() => {
            return scan::run(config, &args.scan, ScanKind::Embed);
        }
        Kind::Face => config = config.without_encoder(),
        Kind::Image => {}
    }
    args.scan.check_prints_vectors()?;
    let ending = args.out.as_deref().map(Ending::from_path).transpose()?;
    let mut request = args.scan.request()?;
    let (stores, paths) = (args.scan.store, &args.scan.paths);
    let failures = run_storing_if(stores, config, paths, async |app| {
        let plan = args.plan(app, &mut request)?;
        if stores {
            app.prepare_store().await.context("creating the tables")?;
        }
        let out = args.out.as_deref().zip(ending);
        embed_all(app, args, &plan, out).await
    })?;
    Ok(success_if(failures == 0))
}

impl EmbedArgs {
    fn plan(&self, app: &App, request: &mut ScanRequest) -> anyhow::Result<Plan> {
        Ok(match self.kind {
            Kind::Face => {
                let thresholds = &app.pipeline.models.detector.spec.thresholds;
                let options = request.resolve(ScanKind::Embed, &app.config, thresholds)?;
                Plan::Faces(Box::new(options))
            }
            Kind::Image => {
                app.pipeline.models.encoder()?;
                Plan::Images(ImageEmbeddingPlan::resolve(request, &app.config)?)
            }
        })
    }
}

/// Embeds the files in the order of discovery. Returns the number of failures.
async fn embed_all(
    app: &App,
    args: &EmbedArgs,
    plan: &Plan,
    out: Option<(&Path, Ending)>,
) -> anyhow::Result<usize> {
    let models = &app.pipeline.models;
    let (vector_space, dim) = match plan {
        Plan::Images(_) => {
            let encoder = models.encoder()?;
            (&encoder.vector_space, encoder.dim)
        }
        Plan::Faces(_) => (&models.embedder.vector_space, models.embedder.dim),
    };
    let mut file = VectorFile::create(out, vector_space, dim)?;
    let mut failures = 0;
    let embed =
        async |context: &RequestContext, found: &Found| vectors_of(app, context, found, plan).await;
    let (paths, jobs) = (&args.scan.paths, args.scan.jobs);
    for_each_image(app, paths, jobs, embed, |_, found, vectors| {
        failures += usize::from(vectors.is_err());
        Record::from_vectors(&found.path, vectors)
            .into_iter()
            .try_for_each(|record| file.write(record))
    })
    .await?;
    let written = file.finish()?;
    if let Some(out) = &args.out {
        eprintln!(
            "{written} vectors of {dim} in {} ({failures} images failed)",
            out.display()
        );
    }
    Ok(failures)
}

/// Returns the vectors of one file.
async fn vectors_of(
    app: &App,
    context: &RequestContext,
    found: &Found,
    plan: &Plan,
) -> Result<Vec<Vector>, ErrorEntry> {
    let image = read(app, found).await?;
    let runner = &app.runner;
    Ok(match plan {
        Plan::Faces(options) => {
            let scanned = runner.run(context, image, options.as_ref()).await;
            let scan = scanned.map_err(entry_in_full)?.result;
            let faces = scan.faces.into_iter().enumerate();
            faces.filter_map(Vector::from_face).collect()
        }
        Plan::Images(plan) => {
            let output = runner.run(context, image, plan).await;
            let embedded = output.map_err(entry_in_full)?.result;
            let of_image = |embedding| Vector {
                face: None,
                embedding,
            };
            embedded.embedding.map(of_image).into_iter().collect()
        }
    })
}
