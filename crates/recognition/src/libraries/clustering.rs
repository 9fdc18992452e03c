//! A clustering: the faces of a library are grouped into people.

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::{AtomicU64, Ordering},
};

use facescan_clustering::{Assignment as Group, Face, Faces, Neighbor, Scope, Settings, group};
use facescan_pipeline::core::error::InvalidOption;
use facescan_store::{
    Assignment, ClusteringProgress, Collection, FaceRow, IndexRow, LeasedClustering,
};
use uuid::Uuid;

use super::neighbors::{NEIGHBORS, NeighborSearch};
use crate::{
    calibration::Calibration,
    collections::{Collections, disclosure::round_up, terms::check_far},
    error::RecognitionError,
    index::IndexError,
};

/// The faces that are read at a time.
const PAGE: u32 = 4096;

/// The faces that one transaction assigns, so that other writers do not wait long.
const ASSIGNMENTS: usize = 2000;

/// The expected number of wrong links among all faces, if each face is linked by its most similar one.
const WRONG_LINKS: f64 = 0.01;

/// The highest false accept rate at which two faces are linked. Small libraries would have a higher one.
const MAX_FAR: f64 = 1e-4;

/// The greatest value of `min_faces`.
const MAX_MIN_FACES: u32 = 1000;

/// The people without faces that one transaction deletes.
const EMPTY_PEOPLE: u32 = 1000;

/// Checks the options of a clustering. `max_far` is the highest false accept rate of a search.
///
/// # Errors
/// [`InvalidOption`] with the option that is out of range.
pub fn check(
    calibration: &Calibration,
    max_far: f64,
    (far, min_faces): (Option<f64>, Option<u32>),
) -> Result<(), InvalidOption> {
    if !min_faces.is_none_or(|faces| (1..=MAX_MIN_FACES).contains(&faces)) {
        let detail = format!("must be from 1 to {MAX_MIN_FACES}");
        return Err(InvalidOption::new("min_faces", detail));
    }
    check_far(far, Some(calibration), max_far)
}

/// How far a clustering is. The task that renews the lease reads it.
#[derive(Debug, Default)]
pub(super) struct ComparisonCounts {
    compared: AtomicU64,
    faces: AtomicU64,
}

impl ComparisonCounts {
    pub(crate) fn progress(&self) -> ClusteringProgress {
        ClusteringProgress {
            compared: self.compared.load(Ordering::Relaxed),
            faces: self.faces.load(Ordering::Relaxed),
            ..ClusteringProgress::default()
        }
    }
}

/// Returns the settings for `faces` faces. `far` is the false accept rate at which two faces are linked. Without it, the rate is
/// so low that few links are wrong among all faces.
///
/// Faces below the threshold that have neighbors in common are not linked: on photographs of known people that cost precision.
pub fn settings(
    calibration: &Calibration,
    faces: usize,
    (far, min_faces): (Option<f64>, u32),
) -> Option<Settings> {
    let chosen = || (WRONG_LINKS / faces.max(1) as f64).min(MAX_FAR);
    let threshold = match far {
        // Who is linked at many close rates would tell more than one.
        Some(far) => round_up(calibration.extrapolated_threshold(far)?),
        None => calibration.extrapolated_threshold(chosen())?,
    };
    Some(Settings {
        min_faces,
        ..Settings::new(threshold, threshold)
    })
}

/// The faces of a library with their people, before the clustering.
struct LibraryFaces {
    rows: Vec<FaceRow>,
    /// The rows in the index, in ascending order.
    numbers: Vec<u64>,
    /// The people who have faces.
    people: Vec<Uuid>,
    /// The place of each person in `people`.
    people_by_id: HashMap<Uuid, u32>,
}

impl LibraryFaces {
    fn new(rows: Vec<FaceRow>) -> Self {
        let mut people = Vec::new();
        let mut people_by_id = HashMap::new();
        for person in rows.iter().filter_map(|face| face.membership.person_id) {
            people_by_id.entry(person).or_insert_with(|| {
                people.push(person);
                people.len() as u32 - 1
            });
        }
        Self {
            numbers: rows.iter().map(|face| face.row).collect(),
            rows,
            people,
            people_by_id,
        }
    }

    /// Returns the faces for the grouping, with the neighbors that are known.
    fn grouped(&self, mut neighbors: Vec<Vec<Neighbor>>) -> Faces {
        let mut images = HashMap::new();
        let mut faces = Faces::with_capacity(self.rows.len(), NEIGHBORS);
        for (row, neighbors) in self.rows.iter().zip(&mut neighbors) {
            let next = images.len() as u32;
            let image = row.image_id.map(|id| *images.entry(id).or_insert(next));
            let person = row.membership.person_id;
            let face = Face {
                image,
                person: person.and_then(|person| self.people_by_id.get(&person).copied()),
                is_acceptable: row.is_acceptable,
                is_pinned: row.membership.is_pinned,
            };
            faces.push(face, &std::mem::take(neighbors));
        }
        faces
    }
}

/// The people after a clustering, and what changes.
struct Outcome {
    new_people: Vec<Uuid>,
    changes: Vec<Assignment>,
    progress: ClusteringProgress,
}

impl Collections {
    /// Groups the faces of a library, and stores the result.
    pub(super) async fn cluster(
        &self,
        leased: &LeasedClustering,
        compared: &ComparisonCounts,
    ) -> Result<ClusteringProgress, RecognitionError> {
        let (library, request) = (&leased.collection, &leased.request);
        let uncalibrated = || RecognitionError::Uncalibrated(library.vector_space.clone());
        let calibration = self.calibrations.of(&library.vector_space);
        let calibration = calibration.ok_or_else(uncalibrated)?;
        let faces = LibraryFaces::new(self.rows(library).await?);
        let count = faces.rows.len();
        compared.faces.store(count as u64, Ordering::Relaxed);
        let settings = settings(calibration, count, (request.far, request.min_faces));
        let settings = settings.ok_or_else(uncalibrated)?;
        let scope = match request.is_full {
            true => Scope::Full,
            false => Scope::New,
        };
        let neighbors = self.neighbors(library, (&faces, scope), compared).await?;
        let grouped = faces.grouped(neighbors);
        // The grouping of millions of faces takes a minute, and the threads of the pool serve requests.
        let groups = tokio::task::spawn_blocking(move || group(&grouped, &settings, scope));
        let groups = groups.await.map_err(|_| RecognitionError::Interrupted)??;
        let outcome = self.outcome(&faces, &groups);
        self.store_outcome(leased, &outcome).await?;
        Ok(ClusteringProgress {
            compared: compared.progress().compared,
            ..outcome.progress
        })
    }

    async fn rows(&self, library: &Collection) -> Result<Vec<FaceRow>, RecognitionError> {
        let (mut rows, mut after) = (Vec::new(), 0);
        loop {
            let page = self.store.face_rows(library.id, after, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(rows);
            };
            after = last.row;
            rows.extend(page);
        }
    }

    /// Finds the neighbors of the faces that are grouped. The lists of other faces are empty.
    ///
    /// If only new faces are grouped, the lists of their neighbors are needed too: two faces are compared by the neighbors
    /// that they share.
    async fn neighbors(
        &self,
        library: &Collection,
        (faces, scope): (&LibraryFaces, Scope),
        compared: &ComparisonCounts,
    ) -> Result<Vec<Vec<Neighbor>>, RecognitionError> {
        let search = NeighborSearch {
            index: self.index.as_ref(),
            library: library.index_position(),
            rows: &faces.numbers,
        };
        let mut lists = vec![Vec::new(); faces.rows.len()];
        if scope == Scope::Full {
            let mut after = 0;
            loop {
                let page = self.store.index_rows(library.id, after, PAGE);
                let page = page.await?;
                let Some(last) = page.last() else {
                    return Ok(lists);
                };
                after = last.row;
                add_lists(&search, page, (&mut lists, compared)).await?;
            }
        }
        let is_new =
            |face: &FaceRow| face.membership.person_id.is_none() && !face.membership.is_pinned;
        let new = faces.rows.iter().filter(|face| is_new(face));
        let new: HashSet<u64> = new.map(|face| face.row).collect();
        self.add_lists_of(library, (&search, &new), (&mut lists, compared))
            .await?;
        let near = lists.iter().flatten();
        let near = near.map(|neighbor| faces.numbers[neighbor.face as usize]);
        let near: HashSet<u64> = near.filter(|row| !new.contains(row)).collect();
        self.add_lists_of(library, (&search, &near), (&mut lists, compared))
            .await?;
        Ok(lists)
    }

    async fn add_lists_of(
        &self,
        library: &Collection,
        (search, rows): (&NeighborSearch<'_>, &HashSet<u64>),
        (lists, compared): (&mut [Vec<Neighbor>], &ComparisonCounts),
    ) -> Result<(), RecognitionError> {
        let rows: Vec<u64> = rows.iter().copied().collect();
        for rows in rows.chunks(PAGE as usize) {
            let page = self.store.index_rows_of(library.id, rows);
            add_lists(search, page.await?, (&mut *lists, compared)).await?;
        }
        Ok(())
    }

    /// Gives new people their ids, and finds the faces whose person changes.
    fn outcome(&self, faces: &LibraryFaces, groups: &[Group]) -> Outcome {
        let clock = &self.clock;
        let mut new_people: Vec<Uuid> = Vec::new();
        let mut people = HashSet::new();
        let mut changes = Vec::new();
        let mut progress = ClusteringProgress {
            faces: faces.rows.len() as u64,
            ..ClusteringProgress::default()
        };
        for (face, group) in faces.rows.iter().zip(groups) {
            let person = match *group {
                Group::Person(person) => Some(faces.people[person as usize]),
                Group::New(number) => {
                    while new_people.len() <= number as usize {
                        new_people.push(clock.new_id());
                    }
                    Some(new_people[number as usize])
                }
                Group::None => None,
            };
            people.extend(person);
            let before = face.membership.person_id;
            progress.unassigned += u64::from(person.is_none());
            progress.moved += u64::from(before.is_some() && before != person);
            if before != person {
                changes.push(Assignment {
                    row: face.row,
                    person,
                });
            }
        }
        progress.people = people.len() as u64;
        // A person without faces is deleted, so faces first get their new person.
        changes.sort_by_key(|change| change.person.is_none());
        Outcome {
            new_people,
            changes,
            progress,
        }
    }

    async fn store_outcome(
        &self,
        leased: &LeasedClustering,
        outcome: &Outcome,
    ) -> Result<(), RecognitionError> {
        let now = self.clock.now();
        for people in outcome.new_people.chunks(ASSIGNMENTS) {
            if !self.store.add_people(leased, people, now).await? {
                return Err(RecognitionError::LeaseLost);
            }
        }
        for changes in outcome.changes.chunks(ASSIGNMENTS) {
            if !self.store.assign_people(leased, changes).await? {
                return Err(RecognitionError::LeaseLost);
            }
        }
        while self.store.delete_empty_people(leased, EMPTY_PEOPLE).await? > 0 {}
        Ok(())
    }
}

async fn add_lists(
    search: &NeighborSearch<'_>,
    page: Vec<IndexRow>,
    (lists, compared): (&mut [Vec<Neighbor>], &ComparisonCounts),
) -> Result<(), IndexError> {
    for (face, neighbors) in search.of(page).await? {
        lists[face as usize] = neighbors;
        compared.compared.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
