//! `facescan calibrate`: measures the error rates of the embedder on images of known people.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;
use comfy_table::{Table, presets::NOTHING};
use facescan_config::Config;
use facescan_fields::groups::checked;
use facescan_imaging::precision::NumericPrecision;
use facescan_pipeline::core::{image_file::hex, scan::Scan};
use facescan_recognition::{
    calibration::{Calibration, CalibrationSet, measure::measure},
    verify::{FaceChoice, FaceVector, VerifyPlan, VerifyRequest},
};
use sha2::{Digest, Sha256};

use super::{folder::FolderArgs, image_command};
use crate::app::App;

/// The fewest people that a bootstrap is of any use for.
const MIN_PEOPLE: usize = 30;

/// The images to measure on, and the target of the table.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    #[command(flatten)]
    folder: FolderArgs,
    /// The name of the set, which responses contain.
    #[arg(long, value_name = "NAME")]
    set: String,
    /// Write the table to this file, for the setting recognition.calibrations.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Which face of an image counts: `largest` or `central`.
    #[arg(long, value_name = "FACE", default_value = "central")]
    face: FaceChoice,
    /// The seed of the intervals. The same seed returns the same intervals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Measures, prints the table, and writes it if there is a target.
pub fn run(config: Config, args: &CalibrateArgs) -> anyhow::Result<ExitCode> {
    let request = checked(VerifyRequest {
        face: Some(args.face),
        ..args.folder.request()
    })?;
    let calibration = image_command::run(config, args.folder.paths(), async |app| {
        calibrate(app, args, request).await
    })?;
    println!("{}", table(&calibration));
    if let Some(path) = &args.out {
        let text = serde_saphyr::to_string(&[&calibration])?;
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The faces of a set.
#[derive(Default)]
struct Faces {
    /// The vectors of each person.
    people: BTreeMap<PathBuf, Vec<Vec<f32>>>,
    digest: Sha256,
    without_face: u64,
    precision: Option<NumericPrecision>,
}

async fn calibrate(
    app: &App,
    args: &CalibrateArgs,
    request: VerifyRequest,
) -> anyhow::Result<Calibration> {
    let models = &app.pipeline.models;
    let plan = request.resolve(&app.config, &models.detector.spec.thresholds)?;
    let mut faces = Faces::default();
    // In the order of the names.
    let scans = args.folder.scan_each(app, &plan, |_, found, scan| {
        let scan = scan.with_context(|| found.name())?;
        faces.add(app, &plan, &found.relative, scan)
    });
    scans.await?;
    let people: Vec<_> = faces.people.into_values().collect();
    let measured = measure(&people, args.seed);
    anyhow::ensure!(
        people.len() >= MIN_PEOPLE && measured.genuine_pairs > 0 && measured.points.len() > 1,
        "the set is too small: it has {} people, {} pairs of one person and {} pairs of two; use at least {MIN_PEOPLE} people, some of \
         them with several images",
        people.len(),
        measured.genuine_pairs,
        measured.impostor_pairs
    );
    Ok(Calibration {
        vector_space: models.embedder.vector_space.clone(),
        embedder: models.embedder.spec().id.clone(),
        detector: models.detector.spec.id.clone(),
        precision: faces.precision,
        set: CalibrationSet {
            name: args.set.clone(),
            sha256: hex(&faces.digest.finalize()),
            images: people.iter().map(|vectors| vectors.len() as u64).sum(),
            without_face: faces.without_face,
            people: people.len() as u64,
        },
        genuine_pairs: measured.genuine_pairs,
        impostor_pairs: measured.impostor_pairs,
        points: measured.points,
    })
}

impl Faces {
    fn add(&mut self, app: &App, plan: &VerifyPlan, path: &Path, scan: Scan) -> anyhow::Result<()> {
        let person = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let person =
            person.with_context(|| format!("{} is not in a folder of a person", path.display()))?;
        let line = format!("{} {}\n", path.display(), scan.image.sha256);
        self.digest.update(line);
        let vector_space = &app.pipeline.models.embedder.vector_space;
        let face = plan.face.choose(scan);
        let vector = face
            .as_ref()
            .and_then(|face| FaceVector::of_found(vector_space, face));
        let Some(vector) = vector else {
            self.without_face += 1;
            return Ok(());
        };
        self.precision = face.and_then(|face| face.embedding?.precision);
        let vectors = self.people.entry(person.to_owned()).or_default();
        vectors.push(vector.values);
        Ok(())
    }
}

fn table(calibration: &Calibration) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header([
        "FAR",
        "interval",
        "threshold",
        "interval",
        "TAR",
        "interval",
    ]);
    for point in &calibration.points {
        table.add_row([
            point.far.to_string(),
            format!("{:.2e} to {:.2e}", point.far_low, point.far_high),
            format!("{:.3}", point.threshold),
            format!("{:.3} to {:.3}", point.threshold_low, point.threshold_high),
            format!("{:.2} %", point.tar * 100.0),
            format!(
                "{:.2} to {:.2} %",
                point.tar_low * 100.0,
                point.tar_high * 100.0
            ),
        ]);
    }
    table
}
