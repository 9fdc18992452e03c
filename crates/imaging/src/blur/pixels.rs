//! Pixelation and fill of regions.

use image::RgbImage;

use super::CHANNELS;
use crate::crop::{Region, rows, rows_mut};

/// Pixelates `region`: divides its longer side into `blocks` blocks and the other side into blocks of about the same
/// length, and fills each block with its mean color. The number of blocks is clamped to between one and the number of
/// pixels.
pub fn pixelate(image: &mut RgbImage, region: Region, blocks: u32) {
    let region = region.clipped(image.dimensions());
    if region.is_empty() {
        return;
    }
    let long = u64::from(region.width().max(region.height()));
    let blocks = u64::from(blocks).clamp(1, long);
    let edges = |start: u32, length: u32| -> Vec<u32> {
        let length = u64::from(length);
        let count = ((length * blocks + long / 2) / long).max(1);
        (0..=count)
            .map(|i| start + (i * length / count) as u32)
            .collect()
    };
    let columns = edges(region.x1, region.width());
    for rows in edges(region.y1, region.height()).windows(2) {
        for columns in columns.windows(2) {
            let block = Region {
                x1: columns[0],
                y1: rows[0],
                x2: columns[1],
                y2: rows[1],
            };
            let color = mean(image, block);
            fill(image, block, color);
        }
    }
}

/// Returns the mean color of a region, rounded to the nearest level. The region has pixels and lies inside the image.
fn mean(image: &RgbImage, region: Region) -> [u8; 3] {
    let mut sums = [0u64; CHANNELS];
    for row in rows(image, region) {
        for pixel in row.as_chunks::<CHANNELS>().0 {
            for (sum, sample) in sums.iter_mut().zip(pixel) {
                *sum += u64::from(*sample);
            }
        }
    }
    let count = u64::from(region.width()) * u64::from(region.height());
    sums.map(|sum| ((sum + count / 2) / count) as u8)
}

/// Fills `region` with the RGB `color`.
pub fn fill(image: &mut RgbImage, region: Region, color: [u8; 3]) {
    let region = region.clipped(image.dimensions());
    for row in rows_mut(image, region) {
        row.as_chunks_mut().0.fill(color);
    }
}
