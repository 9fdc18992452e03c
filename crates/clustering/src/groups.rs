//! Connected faces of one label.

use crate::{edges::Edges, labels::Labels};

/// Faces that belong together.
pub(crate) struct Group {
    /// The person that the group has because of the faces that keep it.
    pub(crate) person: Option<u32>,
    /// The faces, ascending.
    pub(crate) faces: Vec<u32>,
}

/// Returns the groups of all faces that have a label, by their first face.
///
/// Two faces belong together if one hears the other and they have one label. A label can remain on faces that are no longer
/// connected, because the faces between them took another label. The faces that keep a person always belong together.
pub(crate) fn find(edges: &Edges, labels: &Labels) -> Vec<Group> {
    let faces = edges.faces();
    let mut sets = Sets::new(faces.len());
    let mut first_of_label = vec![None; labels.count()];
    for (face, _) in faces.iter() {
        let Some(label) = labels.get(face) else {
            continue;
        };
        if !labels.is_free(face) {
            let first = *first_of_label[label as usize].get_or_insert(face);
            sets.join(first, face);
            continue;
        }
        for edge in edges.of(face) {
            let is_heard =
                labels.heard(face, edge.face).is_some() || labels.heard(edge.face, face).is_some();
            if is_heard && labels.get(edge.face) == Some(label) {
                sets.join(face, edge.face);
            }
        }
    }
    collect(edges, labels, &mut sets)
}

fn collect(edges: &Edges, labels: &Labels, sets: &mut Sets) -> Vec<Group> {
    let labeled = edges
        .faces()
        .iter()
        .filter(|&(face, _)| labels.get(face).is_some());
    let mut members: Vec<(u32, u32)> = labeled.map(|(face, _)| (sets.first(face), face)).collect();
    members.sort_unstable();
    let group = |members: &[(u32, u32)]| {
        let faces: Vec<u32> = members.iter().map(|&(_, face)| face).collect();
        let kept = faces.iter().find(|&&face| !labels.is_free(face));
        let person = kept
            .and_then(|&face| labels.get(face))
            .and_then(|label| labels.person(label));
        Group { person, faces }
    };
    members.chunk_by(|a, b| a.0 == b.0).map(group).collect()
}

/// Disjoint sets of faces (union-find). The smallest face of a set represents it.
struct Sets {
    parents: Vec<u32>,
}

impl Sets {
    fn new(faces: usize) -> Self {
        Self {
            parents: (0..faces as u32).collect(),
        }
    }

    /// Returns the smallest face of the set of a face.
    fn first(&mut self, mut face: u32) -> u32 {
        while self.parents[face as usize] != face {
            let parent = self.parents[face as usize];
            self.parents[face as usize] = self.parents[parent as usize];
            face = parent;
        }
        face
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.first(a), self.first(b));
        self.parents[a.max(b) as usize] = a.min(b);
    }
}
