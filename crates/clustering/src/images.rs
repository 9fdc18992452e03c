//! Which faces share an image, and which of them holds a label.

use std::{collections::HashMap, hash::Hash};

use crate::face::Faces;

/// For each image with several faces and each label `L`, the face of the image that has the label.
pub(crate) struct Holders<L> {
    /// The image of each face that is not alone in it.
    shared_images: Vec<Option<u32>>,
    holders: HashMap<(u32, L), u32>,
}

impl<L: Copy + Eq + Hash> Holders<L> {
    /// Creates holders of nothing.
    pub(crate) fn new(faces: &Faces) -> Self {
        let images = faces
            .iter()
            .filter_map(|(at, face)| Some((face.image?, at)));
        let mut images: Vec<(u32, u32)> = images.collect();
        images.sort_unstable();
        let mut shared_images = vec![None; faces.len()];
        for of_image in images.chunk_by(|a, b| a.0 == b.0) {
            if of_image.len() > 1 {
                let shared = of_image.iter();
                shared.for_each(|&(image, face)| shared_images[face as usize] = Some(image));
            }
        }
        Self {
            shared_images,
            holders: HashMap::new(),
        }
    }

    /// Returns another face in the image of a face that has the label.
    pub(crate) fn rival(&self, face: u32, label: L) -> Option<u32> {
        let image = self.shared_images[face as usize]?;
        let holder = self.holders.get(&(image, label)).copied();
        holder.filter(|&holder| holder != face)
    }

    /// Notes that a face has a label. The first face of an image that has it stays its holder.
    pub(crate) fn hold(&mut self, face: u32, label: L) {
        if let Some(image) = self.shared_images[face as usize] {
            self.holders.entry((image, label)).or_insert(face);
        }
    }

    /// Notes that a face no longer has a label.
    pub(crate) fn release(&mut self, face: u32, label: L) {
        if let Some(image) = self.shared_images[face as usize]
            && self.holders.get(&(image, label)) == Some(&face)
        {
            self.holders.remove(&(image, label));
        }
    }
}
