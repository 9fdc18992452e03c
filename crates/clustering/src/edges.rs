//! The edges between faces that may show one person.

use crate::{
    face::{Faces, Neighbor},
    marks::Marks,
    settings::Settings,
};

/// The fraction of a similarity that a weight counts: 2⁻²⁰, so that 2⁴⁰ weights fit into `u64`.
const WEIGHTS_PER_SIMILARITY: f32 = (1u32 << 20) as f32;

/// The edges of all faces.
///
/// An edge is a bit for an entry in the lists of neighbors, so that a million faces with 32 neighbors take 4 MB.
pub(crate) struct Edges<'a> {
    faces: &'a Faces,
    weak_threshold: f32,
    /// One bit for each entry in the lists.
    bits: Vec<u64>,
    unlisted: Unlisted,
}

impl<'a> Edges<'a> {
    /// Finds the edges between all faces, and cuts those that must not or should not connect.
    pub(crate) fn find(faces: &'a Faces, settings: &Settings) -> Self {
        let mut edges = Self {
            faces,
            weak_threshold: settings.weak_threshold,
            bits: vec![0; faces.total_neighbors().div_ceil(64)],
            unlisted: Unlisted::default(),
        };
        edges.connect(settings);
        edges.unlisted = Unlisted::find(&edges);
        edges.cut_bridges(settings);
        edges.unlisted = Unlisted::find(&edges);
        edges
    }

    /// Returns the faces that are connected with a face.
    pub(crate) fn of(&self, face: u32) -> impl Iterator<Item = Neighbor> {
        self.listed(face)
            .chain(self.unlisted.of(face).iter().copied())
    }

    /// Returns the faces in the list of a face that are connected with it.
    fn listed(&self, face: u32) -> impl Iterator<Item = Neighbor> {
        let list = (self.faces.start(face)..).zip(self.faces.neighbors(face));
        list.filter(|&(at, _)| self.is_edge(at))
            .map(|(_, &neighbor)| neighbor)
    }

    /// Returns whether the list of a face has an edge to another face.
    fn lists(&self, face: u32, other: u32) -> bool {
        self.listed(face).any(|edge| edge.face == other)
    }

    /// Returns the weight of an edge: how far its similarity exceeds the weak threshold, at least 1.
    pub(crate) fn weight(&self, edge: Neighbor) -> u64 {
        let excess = (edge.similarity - self.weak_threshold).clamp(0.0, 2.0);
        (excess * WEIGHTS_PER_SIMILARITY) as u64 + 1
    }

    /// Returns the faces that the edges connect.
    pub(crate) fn faces(&self) -> &'a Faces {
        self.faces
    }

    fn is_edge(&self, at: usize) -> bool {
        self.bits[at / 64] >> (at % 64) & 1 == 1
    }

    /// Sets the bits of all edges.
    fn connect(&mut self, settings: &Settings) {
        let faces = self.faces;
        let mut neighbors = Marks::new(faces.len());
        for (face, _) in faces.iter() {
            neighbors.clear();
            let list = faces.neighbors(face);
            list.iter().for_each(|entry| neighbors.add(entry.face));
            for (at, entry) in (faces.start(face)..).zip(list) {
                if entry.similarity < settings.weak_threshold {
                    break;
                }
                let is_edge = may_connect(faces, face, entry.face)
                    && (entry.similarity >= settings.threshold
                        || is_mutual(faces, face, entry.face)
                            && shared(faces, &neighbors, entry.face) >= settings.shared);
                self.bits[at / 64] |= u64::from(is_edge) << (at % 64);
            }
        }
    }

    /// Cuts bridges that are not similar enough.
    ///
    /// A bridge is an edge whose two faces have no edge to a common acceptable face (in a graph, a local bridge). It stays if
    /// it reaches the threshold for bridges, or if it reaches the threshold and each of its faces is the most similar one to
    /// the other. All bridges are found before the first is cut, so the order of the faces does not matter.
    fn cut_bridges(&mut self, settings: &Settings) {
        let faces = self.faces;
        let strongest: Vec<f32> = faces.iter().map(|(face, _)| self.strongest(face)).collect();
        let is_similar = |face: u32, edge: Neighbor| {
            let of_both = strongest[face as usize].max(strongest[edge.face as usize]);
            edge.similarity >= settings.bridge_threshold
                || edge.similarity >= settings.threshold && edge.similarity >= of_both
        };
        let mut kept = self.bits.clone();
        let mut connected = Marks::new(faces.len());
        let mut reached = Marks::new(faces.len());
        for (face, _) in faces.iter() {
            let list = (faces.start(face)..).zip(faces.neighbors(face));
            let weaker = list.filter(|&(at, &edge)| self.is_edge(at) && !is_similar(face, edge));
            let mut weaker: Vec<(usize, Neighbor)> = weaker.map(|(at, &edge)| (at, edge)).collect();
            if weaker.is_empty() {
                continue;
            }
            connected.clear();
            self.acceptable(face)
                .for_each(|edge| connected.add(edge.face));
            let is_common = |edge: Neighbor| connected.contains(edge.face);
            weaker.retain(|&(_, edge)| !self.listed(edge.face).any(is_common));
            if weaker.is_empty() {
                continue;
            }
            // A common face can be in neither list and still list both. To read the edges of each neighbor instead would
            // take quadratic time if many faces list one.
            reached.clear();
            for edge in self.acceptable(face) {
                self.listed(edge.face)
                    .for_each(|next| reached.add(next.face));
            }
            for (at, edge) in weaker {
                if !reached.contains(edge.face) {
                    kept[at / 64] &= !(1 << (at % 64));
                }
            }
        }
        self.bits = kept;
    }

    /// Returns the acceptable faces that are connected with a face.
    pub(crate) fn acceptable(&self, face: u32) -> impl Iterator<Item = Neighbor> {
        let edges = self.of(face);
        edges.filter(|edge| self.faces.get(edge.face).is_acceptable)
    }

    /// Returns the highest similarity of the edges of a face to acceptable faces.
    fn strongest(&self, face: u32) -> f32 {
        let similarities = self.acceptable(face).map(|edge| edge.similarity);
        similarities.fold(f32::NEG_INFINITY, f32::max)
    }
}

/// Returns whether two faces may be connected, however similar they are.
///
/// A pinned face is not connected with a face of another person. If a user moves a face to another person, the other faces
/// would follow it otherwise.
fn may_connect(faces: &Faces, a: u32, b: u32) -> bool {
    let (a, b) = (faces.get(a), faces.get(b));
    let is_one_image = a.image.is_some() && a.image == b.image;
    let is_parted = (a.is_pinned || b.is_pinned)
        && a.person.is_some()
        && b.person.is_some()
        && a.person != b.person;
    !is_one_image
        && !is_parted
        && !a.is_nobody()
        && !b.is_nobody()
        && (a.is_acceptable || b.is_acceptable)
}

/// Returns whether the list of `neighbor` names `face`.
fn is_mutual(faces: &Faces, face: u32, neighbor: u32) -> bool {
    let list = faces.neighbors(neighbor);
    list.iter().any(|entry| entry.face == face)
}

/// Returns how many faces of a set are in the list of a face.
fn shared(faces: &Faces, set: &Marks, face: u32) -> u32 {
    let list = faces.neighbors(face).iter();
    list.filter(|entry| set.contains(entry.face))
        .map(|_| 1)
        .sum()
}

/// Edges that are in the list of only one of their faces, for the other face.
///
/// A face whose list has the full length and consists of edges needs none: it has enough edges of its own, and these are
/// more similar. So there are few, although many faces may name one face.
#[derive(Default)]
struct Unlisted {
    /// The end of the edges of each face; empty if there are none at all.
    ends: Vec<usize>,
    edges: Vec<Neighbor>,
}

impl Unlisted {
    fn find(edges: &Edges) -> Self {
        let faces = edges.faces;
        let full = faces.longest_list();
        let mut found: Vec<(u32, Neighbor)> = Vec::new();
        let is_full = |face| {
            let list = faces.neighbors(face).len();
            let mut bits = faces.start(face)..faces.start(face) + list;
            list == full && bits.all(|at| edges.is_edge(at))
        };
        let is_full: Vec<bool> = faces.iter().map(|(face, _)| is_full(face)).collect();
        for (face, _) in faces.iter() {
            for edge in edges.listed(face) {
                if !is_full[edge.face as usize] && !edges.lists(edge.face, face) {
                    let similarity = edge.similarity;
                    found.push((edge.face, Neighbor { face, similarity }));
                }
            }
        }
        found.sort_unstable_by_key(|&(face, edge)| (face, edge.face));
        let end = |(face, _)| found.partition_point(|&(of, _)| of <= face);
        Self {
            ends: faces.iter().map(end).collect(),
            edges: found.into_iter().map(|(_, edge)| edge).collect(),
        }
    }

    fn of(&self, face: u32) -> &[Neighbor] {
        let at = face as usize;
        let Some(&end) = self.ends.get(at) else {
            return &[];
        };
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.edges[start..end]
    }
}
