//! Chinese whispers: each face takes the label with the greatest weight among its neighbors.

use std::cmp::Reverse;

use crate::{edges::Edges, face::Neighbor, images::Holders, labels::Labels, settings::Settings};

/// Spreads the labels until nothing changes or the passes are used up.
///
/// Free faces are visited in an order that depends on the similarities of their edges and on the seed. It depends on the
/// numbers of the faces only if two faces have equal similarities.
///
/// In a first pass, faces hear only free faces. Otherwise the label of a kept face spreads through a group before the group
/// has a label of its own.
pub(crate) fn spread(edges: &Edges, settings: &Settings, labels: &mut Labels) {
    let order = order(edges, labels, settings.seed);
    let mut whispers = Whispers::new(edges, labels, &order);
    for pass in 0..=settings.passes {
        whispers.hears_kept = pass > 0;
        let changes = order.iter().filter(|&&face| whispers.visit(face)).count();
        if changes == 0 && pass > 0 {
            break;
        }
    }
}

/// Returns the free faces in the order in which they are visited.
fn order(edges: &Edges, labels: &Labels, seed: u64) -> Vec<u32> {
    let free = edges.faces().iter().filter(|&(at, _)| labels.is_free(at));
    let key = |at| {
        let similarities = edges
            .of(at)
            .map(|edge| mix(edge.similarity.to_bits().into()));
        mix(similarities.fold(seed, u64::wrapping_add))
    };
    let mut keyed: Vec<(u64, u32)> = free.map(|(at, _)| (key(at), at)).collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, face)| face).collect()
}

/// Returns a number all of whose bits depend on all bits of `x` (the finalizer of SplitMix64).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The labels while they spread.
struct Whispers<'a> {
    edges: &'a Edges<'a>,
    labels: &'a mut Labels,
    holders: Holders<u32>,
    /// Whether faces hear those that keep their labels.
    hears_kept: bool,
    /// The rank of each label, which decides between labels of equal weight: people first, then faces by their order.
    ranks: Vec<u32>,
    /// The weight of each label during a visit, otherwise 0.
    totals: Vec<u64>,
}

impl<'a> Whispers<'a> {
    fn new(edges: &'a Edges<'a>, labels: &'a mut Labels, order: &[u32]) -> Self {
        let faces = edges.faces();
        let mut holders = Holders::new(faces);
        for (face, _) in faces.iter() {
            if let Some(label) = labels.get(face) {
                holders.hold(face, label);
            }
        }
        let mut ranks = vec![0; labels.count()];
        (0..)
            .zip(faces.len()..labels.count())
            .for_each(|(rank, person)| ranks[person] = rank);
        let people = (labels.count() - faces.len()) as u32;
        (people..)
            .zip(order)
            .for_each(|(rank, &face)| ranks[face as usize] = rank);
        Self {
            edges,
            holders,
            hears_kept: true,
            ranks,
            totals: vec![0; labels.count()],
            labels,
        }
    }

    /// Gives a face the best label that it may have, and returns whether this is another one.
    fn visit(&mut self, face: u32) -> bool {
        let mut candidates = self.candidates(face);
        let current = self.labels.get(face);
        let key = |&(label, weight): &(u32, u64)| {
            (
                Reverse(weight),
                current != Some(label),
                self.ranks[label as usize],
            )
        };
        candidates.sort_unstable_by_key(key);
        for (label, weight) in candidates {
            if self.win(face, label, weight) {
                self.set(face, Some(label));
                return current != Some(label);
            }
        }
        if current.is_none() {
            self.found(face);
        }
        false
    }

    /// Returns the label of `other` if `face` hears it in this pass.
    fn heard(&self, face: u32, other: u32) -> Option<u32> {
        let is_loud = self.hears_kept || self.labels.is_free(other);
        is_loud.then(|| self.labels.heard(face, other)).flatten()
    }

    /// Returns the labels that a face hears, with their weights.
    fn candidates(&mut self, face: u32) -> Vec<(u32, u64)> {
        let mut heard = Vec::new();
        for edge in self.edges.of(face) {
            if let Some(label) = self.heard(face, edge.face) {
                let total = &mut self.totals[label as usize];
                if *total == 0 {
                    heard.push(label);
                }
                *total += self.edges.weight(edge);
            }
        }
        let take = |label| (label, std::mem::take(&mut self.totals[label as usize]));
        heard.into_iter().map(take).collect()
    }

    /// Returns whether a face may have a label. If another face of its image has it with less weight, this face takes it from
    /// the other.
    fn win(&mut self, face: u32, label: u32, weight: u64) -> bool {
        let Some(rival) = self.holders.rival(face, label) else {
            return true;
        };
        let is_stronger = self.labels.is_free(rival) && weight > self.weight(rival, label);
        if is_stronger {
            // The rival may have begun with this label, so it must not get its label back before the face has it.
            self.set(rival, None);
            self.set(face, Some(label));
            self.found(rival);
        }
        is_stronger
    }

    /// Returns the weight of a label among the neighbors of a face.
    fn weight(&self, face: u32, label: u32) -> u64 {
        let has_label = |edge: &Neighbor| self.heard(face, edge.face) == Some(label);
        let edges = self.edges.of(face).filter(has_label);
        edges.map(|edge| self.edges.weight(edge)).sum()
    }

    /// Gives a face the label that it began with, unless another face of its image has this label.
    fn found(&mut self, face: u32) {
        if self.holders.rival(face, face).is_none() {
            self.set(face, Some(face));
        }
    }

    fn set(&mut self, face: u32, label: Option<u32>) {
        if let Some(old) = self.labels.get(face) {
            self.holders.release(face, old);
        }
        if let Some(new) = label {
            self.holders.hold(face, new);
        }
        self.labels.set(face, label);
    }
}
