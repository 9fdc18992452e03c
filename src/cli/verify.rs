//! `facescan verify`: compares the faces in two images.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::Args;
use facescan_config::{Config, DetSize, DetectionRequest};
use facescan_fields::groups::checked;
use facescan_pipeline::{context::RequestContext, core::scan::Scan};
use facescan_recognition::{
    error::RecognitionError,
    verify::{Comparison, FaceChoice, FaceVector, Side, VerifyPlan, VerifyRequest, compare},
};

use super::{
    files::{self, Found},
    image_command::{self, read},
    runtime::success_if,
};
use crate::app::App;

/// The images to compare.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The image with the first face, or its URL (URLs need `urls.enabled`).
    #[arg(value_name = "FILE|URL")]
    a: PathBuf,
    /// The image with the second face.
    #[arg(value_name = "FILE|URL")]
    b: PathBuf,
    /// The false accept rate that the threshold is chosen for [default: recognition.verify_far].
    #[arg(long, value_name = "RATE", conflicts_with = "threshold")]
    far: Option<f64>,
    /// The cosine from which the faces match.
    #[arg(long, value_name = "COSINE", allow_negative_numbers = true)]
    threshold: Option<f32>,
    /// Which face of an image is compared: `largest` or `central`.
    #[arg(long, value_name = "FACE", default_value = "largest")]
    face: FaceChoice,
    /// The lowest detection score of a face, 0 to 1.
    #[arg(long, value_name = "SCORE")]
    min_score: Option<f32>,
    /// The longer side of the detector's input in pixels, a multiple of 32, or `fit` to enlarge no image.
    #[arg(long, value_name = "PIXELS")]
    det_size: Option<DetSize>,
    /// The images are aligned crops of 112×112 pixels.
    #[arg(long)]
    aligned: bool,
}

/// Compares the faces and prints the result as JSON.
pub fn run(config: Config, args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let paths = [args.a.clone(), args.b.clone()];
    for path in &paths {
        anyhow::ensure!(
            !path.is_dir(),
            "{} is a folder; name an image",
            path.display()
        );
    }
    let request = checked(args.request())?;
    let verified = image_command::run(config, &paths, async |app| {
        compare_files(app, &paths, request).await
    })?;
    println!("{}", serde_json::to_string_pretty(&verified)?);
    Ok(success_if(verified.is_match))
}

impl VerifyArgs {
    fn request(&self) -> VerifyRequest {
        VerifyRequest {
            far: self.far,
            threshold: self.threshold,
            face: Some(self.face),
            detection: DetectionRequest {
                min_score: self.min_score,
                det_size: self.det_size,
                ..DetectionRequest::default()
            },
            aligned: Some(self.aligned),
            ..VerifyRequest::default()
        }
    }
}

async fn compare_files(
    app: &App,
    paths: &[PathBuf; 2],
    request: VerifyRequest,
) -> anyhow::Result<Comparison> {
    let thresholds = &app.pipeline.models.detector.spec.thresholds;
    let plan = request.resolve(&app.config, thresholds)?;
    let context = app.run_context();
    let mut vectors = Vec::with_capacity(2);
    for (side, path) in Side::BOTH.into_iter().zip(paths) {
        let found = files::images(std::slice::from_ref(path)).next();
        let found = found.with_context(|| format!("{} is not an image", path.display()))?;
        let vector = vector(app, &context, &plan, side, &found).await;
        vectors.push(vector.with_context(|| path.display().to_string())?);
    }
    let compared = compare(&vectors[0], &vectors[1], plan.criterion, &app.calibrations);
    Ok(compared?)
}

async fn vector(
    app: &App,
    context: &RequestContext,
    plan: &VerifyPlan,
    side: Side,
    found: &Found,
) -> anyhow::Result<FaceVector> {
    let vector_space = &app.pipeline.models.embedder.vector_space;
    let face = plan.face.choose(scan(app, context, plan, found).await?);
    let vector = face.and_then(|face| FaceVector::of_found(vector_space, &face));
    Ok(vector.ok_or(RecognitionError::NoFace(side))?)
}

/// Scans one file or URL.
pub(super) async fn scan(
    app: &App,
    context: &RequestContext,
    plan: &VerifyPlan,
    found: &Found,
) -> anyhow::Result<Scan> {
    let image = read(app, found).await;
    let image = image.map_err(|error| anyhow::anyhow!(error.detail))?;
    let scanned = app.runner.run(context, image, &plan.scan).await?;
    Ok(scanned.result)
}
