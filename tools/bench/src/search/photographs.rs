//! Faces of real people, and strangers made of them.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::vectors::{direction, nearly_normal, unit};

/// The vectors that are mixed into a stranger. With fewer, a stranger would look like one of them.
const MIXED: usize = 64;

/// The share of a stranger that is a random direction. It was chosen so that as many strangers reach a cosine of 0.435 as in
/// LFW, where one of 10,000 pairs of different people does.
const NOISE: f32 = 0.42;

/// A line of the file that `facescan embed --out FILE.jsonl` writes.
#[derive(Deserialize)]
struct Line {
    path: String,
    /// The index of the face in its image. Absent if the image has no face.
    face: Option<usize>,
    embedding: Option<Vec<f32>>,
}

/// The faces of people with at least two photographs.
pub(super) struct Photographs {
    /// The enrolled faces: all but one of each person.
    pub enrolled: Vec<Vec<f32>>,
    /// The last face of each person, which is searched for.
    pub queries: Vec<Vec<f32>>,
    /// Every face, also of people with one photograph.
    all: Vec<Vec<f32>>,
}

impl Photographs {
    /// Reads the largest face of each image. The folder of an image names its person.
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        let opened = File::open(file).with_context(|| format!("opening {}", file.display()))?;
        let mut people: BTreeMap<String, Vec<Vec<f32>>> = BTreeMap::new();
        for line in BufReader::new(opened).lines() {
            let line: Line = serde_json::from_str(&line?).context("parsing a line of vectors")?;
            let (Some(0), Some(embedding)) = (line.face, line.embedding) else {
                continue;
            };
            let folder = Path::new(&line.path).parent().and_then(Path::file_name);
            let folder = folder.context("an image has no folder, which would name the person")?;
            let person = folder.to_string_lossy().into_owned();
            people.entry(person).or_default().push(unit(embedding));
        }
        let mut photographs = Self {
            enrolled: Vec::new(),
            queries: Vec::new(),
            all: people.values().flatten().cloned().collect(),
        };
        for mut faces in people.into_values().filter(|faces| faces.len() > 1) {
            photographs.queries.extend(faces.pop());
            photographs.enrolled.extend(faces);
        }
        let has_mixed = photographs.all.len() >= MIXED && !photographs.queries.is_empty();
        ensure!(has_mixed, "{} has too few people", file.display());
        Ok(photographs)
    }

    /// Returns the length of the vectors.
    pub(super) fn dim(&self) -> usize {
        self.all[0].len()
    }

    /// Returns a vector of nobody. It is a mixture of faces of many people and a random direction, so its cosines to faces are
    /// spread as those of strangers are.
    pub(super) fn stranger(&self, random: &mut fastrand::Rng) -> Vec<f32> {
        let mut mixed = vec![0.0; self.dim()];
        for _ in 0..MIXED {
            let face = &self.all[random.usize(..self.all.len())];
            let weight = nearly_normal(random);
            for (sum, value) in mixed.iter_mut().zip(face) {
                *sum += weight * value;
            }
        }
        let noise = direction(random, self.dim());
        let (own, other) = ((1.0 - NOISE).sqrt(), NOISE.sqrt());
        let values = unit(mixed).into_iter().zip(noise);
        unit(
            values
                .map(|(mixed, noise)| mixed * own + noise * other)
                .collect(),
        )
    }
}
