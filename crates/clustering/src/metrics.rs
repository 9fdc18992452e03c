//! How well groups agree with the truth.
//!
//! A face without a person counts as a group of its own. So it lowers the recall and never the precision.

use std::collections::BTreeMap;

/// The agreement of groups with the truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// The share of what is together that belongs together, from 0 to 1.
    pub precision: f64,
    /// The share of what belongs together that is together, from 0 to 1.
    pub recall: f64,
}

impl Agreement {
    /// Returns the harmonic mean of precision and recall, from 0 to 1.
    pub fn f(&self) -> f64 {
        let sum = self.precision + self.recall;
        if sum == 0.0 {
            return 0.0;
        }
        2.0 * self.precision * self.recall / sum
    }
}

/// Returns the BCubed agreement: the mean over all faces of their own precision and recall.
///
/// The precision of a face is the share of the faces of its group that show its true person. Its recall is the share of the
/// faces of its true person that are in its group. The face itself counts in both. Each entry has the true person of a face
/// and the found one. Without faces, both are 1.
pub fn bcubed(faces: &[(u32, Option<u32>)]) -> Agreement {
    if faces.is_empty() {
        return Agreement {
            precision: 1.0,
            recall: 1.0,
        };
    }
    let sizes = Sizes::of(faces);
    let (mut precision, mut recall) = (0.0, 0.0);
    for (&(truth, found), &both) in &sizes.both {
        let both = both as f64;
        precision += both * both / sizes.found[&found] as f64;
        recall += both * both / sizes.truth[&truth] as f64;
    }
    for &(truth, _) in faces.iter().filter(|(_, found)| found.is_none()) {
        precision += 1.0;
        recall += 1.0 / sizes.truth[&truth] as f64;
    }
    let faces = faces.len() as f64;
    Agreement {
        precision: precision / faces,
        recall: recall / faces,
    }
}

/// Returns the pairwise agreement: that of the pairs of faces that are together with the pairs that show one person.
///
/// Each entry has the true person of a face and the found one. Without pairs that are together the precision is 1, and
/// without pairs that belong together the recall is 1.
pub fn pairwise(faces: &[(u32, Option<u32>)]) -> Agreement {
    let sizes = Sizes::of(faces);
    let right = pairs(sizes.both.values());
    let share = |all: f64| if all == 0.0 { 1.0 } else { right / all };
    Agreement {
        precision: share(pairs(sizes.found.values())),
        recall: share(pairs(sizes.truth.values())),
    }
}

/// The numbers of faces with a true person, a found person, and both.
struct Sizes {
    truth: BTreeMap<u32, u64>,
    found: BTreeMap<u32, u64>,
    both: BTreeMap<(u32, u32), u64>,
}

impl Sizes {
    fn of(faces: &[(u32, Option<u32>)]) -> Self {
        let found = |&(truth, found): &(u32, Option<u32>)| Some((truth, found?));
        Self {
            truth: count(faces.iter().map(|&(truth, _)| truth)),
            found: count(faces.iter().filter_map(|&(_, found)| found)),
            both: count(faces.iter().filter_map(found)),
        }
    }
}

fn count<K: Ord>(keys: impl Iterator<Item = K>) -> BTreeMap<K, u64> {
    let mut counts = BTreeMap::new();
    keys.for_each(|key| *counts.entry(key).or_insert(0) += 1);
    counts
}

/// Returns the number of pairs within groups of these sizes.
fn pairs<'a>(sizes: impl Iterator<Item = &'a u64>) -> f64 {
    sizes
        .map(|&size| size as f64 * (size as f64 - 1.0) / 2.0)
        .sum()
}
