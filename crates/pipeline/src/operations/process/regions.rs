//! The regions of an image around its faces.

use facescan_imaging::{
    blur::Gaussian,
    crop::{Region, padded},
};

use crate::core::{scan::Face, work};

/// Returns the smallest region of whole pixels around a face's box. `margin` is a share of its sides.
pub(super) fn around(face: &Face, size: (u32, u32), margin: f32) -> Region {
    let inside = face.bbox.clipped(size.0, size.1);
    let region = Region {
        x1: inside.x1.floor() as u32,
        y1: inside.y1.floor() as u32,
        x2: inside.x2.ceil() as u32,
        y2: inside.y2.ceil() as u32,
    };
    padded(size, region, margin)
}

/// Returns the regions around all faces. If their total area is many times the area of the image, this returns one
/// region around all of them. With low thresholds, the detector finds thousands of overlapping faces, and each would
/// cost time.
pub(super) fn around_all(faces: &[Face], size: (u32, u32), margin: f32) -> Vec<Region> {
    const MAX_AREA_RATIO: u64 = 4;
    let area = |region: &Region| u64::from(region.width()) * u64::from(region.height());
    let regions: Vec<Region> = faces
        .iter()
        .map(|face| around(face, size, margin))
        .collect();
    let sum: u64 = regions.iter().map(area).sum();
    if sum <= MAX_AREA_RATIO * area(&Region::full(size)) {
        return regions;
    }
    regions
        .into_iter()
        .reduce(Region::union)
        .into_iter()
        .collect()
}

pub(super) fn price_of_blur(region: Region, gaussian: &Gaussian) -> u64 {
    work::blur((region.width(), region.height()), gaussian.kernel())
}
