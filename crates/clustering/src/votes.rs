//! Faces that keep a person vote for the group that they would join.

use std::collections::BTreeMap;

use crate::{edges::Edges, groups::Group, labels::Labels};

/// Returns, for each group without a person, the person whose kept faces vote for it with the greatest weight.
///
/// A face that keeps its person votes for the group of most of its weight, if that is not the group of its person. The label
/// of a single pinned face rarely wins in a group that has agreed on another one, although the face belongs there.
pub(crate) fn count(edges: &Edges, labels: &Labels, groups: &[Group]) -> Vec<Option<u32>> {
    let mut group_of = vec![None; edges.faces().len()];
    for (at, group) in (0u32..).zip(groups) {
        group
            .faces
            .iter()
            .for_each(|&face| group_of[face as usize] = Some(at));
    }
    let mut votes = BTreeMap::new();
    for group in groups {
        let Some(person) = group.person else { continue };
        let kept = group.faces.iter().filter(|&&face| !labels.is_free(face));
        for &face in kept {
            if let Some((chosen, weight)) = choose(edges, labels, &group_of, face)
                && groups[chosen as usize].person.is_none()
            {
                *votes.entry((chosen, person)).or_insert(0) += weight;
            }
        }
    }
    let mut elected: Vec<Option<(u64, u32)>> = vec![None; groups.len()];
    for ((group, person), weight) in votes {
        let best = &mut elected[group as usize];
        if best.is_none_or(|(most, _)| weight > most) {
            *best = Some((weight, person));
        }
    }
    elected.into_iter().map(|best| Some(best?.1)).collect()
}

/// Returns the group with the greatest weight among the neighbors of a face that other faces hear, and the weight.
fn choose(
    edges: &Edges,
    labels: &Labels,
    group_of: &[Option<u32>],
    face: u32,
) -> Option<(u32, u64)> {
    if !labels.spreads(face) {
        return None;
    }
    let mut weights = BTreeMap::new();
    for edge in edges.of(face) {
        if let (Some(_), Some(group)) =
            (labels.heard(face, edge.face), group_of[edge.face as usize])
        {
            *weights.entry(group).or_insert(0) += edges.weight(edge);
        }
    }
    let own = group_of[face as usize];
    weights
        .into_iter()
        .max_by_key(|&(group, weight)| (weight, Some(group) == own))
}
