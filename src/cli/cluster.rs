//! `facescan cluster`: groups the faces in the images of a folder into people.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;
use facescan_clustering::{
    Assignment, Face, Faces, Neighbor, Scope, group,
    metrics::{bcubed, pairwise},
};
use facescan_config::Config;
use facescan_fields::groups::checked;
use facescan_imaging::quality::acceptance::Preset;
use facescan_pipeline::core::scan::Scan;
use facescan_recognition::{
    libraries::{
        clustering::{check, settings},
        neighbors::all_neighbors,
    },
    verify::{FaceChoice, VerifyRequest},
};
use serde::Serialize;

mod contact_sheet;

use super::{
    files::{self, Found},
    folder::FolderArgs,
    image_command,
    runtime::success_if,
};
use crate::app::App;

/// The images, and how their faces are grouped.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    #[command(flatten)]
    folder: FolderArgs,
    /// Write the people to this file [default: the standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write a page with the faces of each person to this file. It needs no other file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The fewest faces of a person.
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    min_faces: u32,
    /// The false accept rate at which two faces are linked [default: the number of faces decides].
    #[arg(long, value_name = "RATE")]
    far: Option<f64>,
    /// Group only the `largest` or the `central` face of each image [default: all faces].
    #[arg(long, value_name = "FACE")]
    face: Option<FaceChoice>,
    /// Print how well the people agree with the folders: each folder has the images of one person.
    #[arg(long)]
    evaluate: bool,
    /// The lowest detection score of a face, 0 to 1.
    #[arg(long, value_name = "SCORE")]
    min_score: Option<f32>,
    /// The seed of the order in which faces are visited.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Groups the faces, and writes one line for each person.
pub fn run(config: Config, args: &ClusterArgs) -> anyhow::Result<ExitCode> {
    let paths = args.folder.paths();
    let request = checked(args.request())?;
    files::check(paths)?;
    // Before the models are loaded, so that a wrong path costs no time.
    let out: Box<dyn Write> = match &args.out {
        Some(path) => {
            let file = File::create(path);
            let file = file.with_context(|| format!("writing {}", path.display()))?;
            Box::new(BufWriter::new(file))
        }
        None => Box::new(std::io::stdout()),
    };
    let page = args.html.as_deref().map(|path| {
        let file = File::create(path);
        file.with_context(|| format!("writing {}", path.display()))
    });
    let page = page.transpose()?;
    let (found, people) = image_command::run(config, paths, async |app| {
        let calibration = app
            .calibrations
            .of(&app.pipeline.models.embedder.vector_space);
        if let Some(calibration) = calibration {
            let max_far = app.config.recognition.max_search_far;
            check(calibration, max_far, (args.far, Some(args.min_faces)))?;
        }
        let found = FoundFaces::find(app, args, request).await?;
        let people = found.group(app, args)?;
        found.write(&people, out)?;
        if let Some(page) = page {
            contact_sheet::write(app, &found, &people, BufWriter::new(page)).await?;
        }
        Ok((found, people))
    })?;
    eprintln!("{}", found.summary(&people));
    if args.evaluate {
        eprintln!("{}", found.agreement(&people));
    }
    Ok(success_if(found.failed == 0))
}

impl ClusterArgs {
    fn request(&self) -> VerifyRequest {
        let mut request = self.folder.request();
        request.detection.min_score = self.min_score;
        // The quality that a search asks for suffices to found a person.
        request.preset = Some(Preset::Search);
        request
    }
}

/// The faces of a folder.
#[derive(Default)]
struct FoundFaces {
    faces: Vec<FoundFace>,
    vectors: Vec<Vec<f32>>,
    images: u32,
    /// The images that could not be read.
    failed: u32,
}

struct FoundFace {
    /// The path in the folder.
    path: PathBuf,
    /// The file, or the URL.
    source: PathBuf,
    image: u32,
    bbox: [f32; 4],
    is_acceptable: bool,
}

/// A line of the output: a person, or all faces of nobody.
#[derive(Serialize)]
struct PersonLine {
    /// The number of the person, from 1. Null for the faces of nobody.
    person: Option<u32>,
    faces: Vec<FaceLine>,
}

#[derive(Serialize)]
struct FaceLine {
    file: String,
    bbox: [f32; 4],
}

impl FoundFaces {
    /// Embeds the faces of every image, in the order of the names.
    async fn find(app: &App, args: &ClusterArgs, request: VerifyRequest) -> anyhow::Result<Self> {
        let thresholds = &app.pipeline.models.detector.spec.thresholds;
        let plan = &request.resolve(&app.config, thresholds)?;
        let mut faces = Self::default();
        let scans = args.folder.scan_each(app, plan, |progress, found, scan| {
            match scan {
                Ok(scan) => faces.add(found, scan, args.face),
                Err(error) => {
                    faces.failed += 1;
                    progress.suspend(|| eprintln!("{}: {error:#}", found.name()));
                }
            }
            Ok(())
        });
        scans.await?;
        Ok(faces)
    }

    fn add(&mut self, found: &Found, scan: Scan, choice: Option<FaceChoice>) {
        let faces = match choice {
            Some(choice) => choice.choose(scan).into_iter().collect(),
            None => scan.faces,
        };
        for face in faces {
            let Some(embedding) = face.embedding else {
                continue;
            };
            let quality = face.results.quality.as_ref();
            self.faces.push(FoundFace {
                path: found.relative.clone(),
                source: found.path.clone(),
                image: self.images,
                bbox: face.bbox.to_array(),
                is_acceptable: quality.is_none_or(|quality| quality.acceptable),
            });
            self.vectors.push(embedding.vector);
        }
        self.images += 1;
    }

    /// Returns the person of each face.
    fn group(&self, app: &App, args: &ClusterArgs) -> anyhow::Result<Vec<Option<u32>>> {
        let vector_space = &app.pipeline.models.embedder.vector_space;
        let settings = app.calibrations.of(vector_space).and_then(|calibration| {
            settings(calibration, self.faces.len(), (args.far, args.min_faces))
        });
        let mut settings = settings.context(
            "the embedder has no calibration; measure one with `facescan calibrate`, and add it to \
             recognition.calibrations",
        )?;
        settings.seed = args.seed;
        let neighbors: Vec<Vec<Neighbor>> = all_neighbors(&self.vectors)?;
        let mut faces = Faces::with_capacity(self.faces.len(), 0);
        for (face, neighbors) in self.faces.iter().zip(&neighbors) {
            let face = Face {
                image: Some(face.image),
                is_acceptable: face.is_acceptable,
                ..Face::default()
            };
            faces.push(face, neighbors);
        }
        let assignments = group(&faces, &settings, Scope::Full)?;
        let number = |assignment| match assignment {
            Assignment::Person(person) | Assignment::New(person) => Some(person),
            Assignment::None => None,
        };
        Ok(assignments.into_iter().map(number).collect())
    }

    /// Returns the indices of the faces of each person, those with most faces first, and then those of nobody.
    fn by_person(&self, people: &[Option<u32>]) -> Vec<(Option<u32>, Vec<usize>)> {
        let mut members: BTreeMap<Option<u32>, Vec<usize>> = BTreeMap::new();
        for (face, person) in people.iter().enumerate() {
            members.entry(*person).or_default().push(face);
        }
        let nobody = members.remove(&None);
        let mut people: Vec<Vec<usize>> = members.into_values().collect();
        people.sort_by_key(|faces| std::cmp::Reverse(faces.len()));
        let numbered = (1..).map(Some).zip(people);
        numbered.chain(nobody.map(|faces| (None, faces))).collect()
    }

    /// Writes a line for each person.
    fn write(&self, people: &[Option<u32>], mut out: impl Write) -> anyhow::Result<()> {
        for (person, faces) in self.by_person(people) {
            let faces = faces.into_iter().map(|face| &self.faces[face]);
            let faces = faces.map(|face| FaceLine {
                file: files::name(&face.path),
                bbox: face.bbox,
            });
            let faces = faces.collect();
            serde_json::to_writer(&mut out, &PersonLine { person, faces })?;
            writeln!(out)?;
        }
        Ok(out.flush()?)
    }

    /// Returns a sentence with the counts.
    fn summary(&self, people: &[Option<u32>]) -> String {
        let unassigned = people.iter().filter(|person| person.is_none()).count();
        let mut found: Vec<u32> = people.iter().flatten().copied().collect();
        found.sort_unstable();
        found.dedup();
        format!(
            "{} faces in {} images: {} people, {unassigned} faces of nobody; {} images failed",
            self.faces.len(),
            self.images,
            found.len(),
            self.failed
        )
    }

    /// Returns a text that says how well the people agree with the folders of the images.
    fn agreement(&self, people: &[Option<u32>]) -> String {
        let mut folders = BTreeMap::new();
        let faces = self.faces.iter().zip(people).map(|(face, person)| {
            let next = folders.len() as u32;
            let folder = face.path.parent().map(Path::to_owned);
            (*folders.entry(folder).or_insert(next), *person)
        });
        let faces: Vec<(u32, Option<u32>)> = faces.collect();
        let line = |name, agreement: facescan_clustering::metrics::Agreement| {
            format!(
                "{name}: precision {:.4}, recall {:.4}, F {:.4}",
                agreement.precision,
                agreement.recall,
                agreement.f()
            )
        };
        format!(
            "{} folders\n{}\n{}",
            folders.len(),
            line("BCubed", bcubed(&faces)),
            line("pairs", pairwise(&faces)),
        )
    }
}
