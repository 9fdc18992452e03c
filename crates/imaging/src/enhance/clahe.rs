//! Contrast-limited adaptive histogram equalization (Zuiderveld 1994), as OpenCV's `createCLAHE(2.0, (8, 8))`.

use image::RgbImage;

use super::{CLAHE_CLIP_LIMIT, CLAHE_TILES};
use crate::{
    border::reflect_101,
    checkpoint::{STRIP, passed},
    luma,
};

/// Equalizes the luma and adds its change to the three channels, which keeps the chroma.
pub(super) fn equalize(image: &mut RgbImage) {
    let (width, height) = (image.width() as usize, image.height() as usize);
    let mut plane = Vec::with_capacity(width * height);
    for strip in image.as_chunks::<3>().0.chunks(STRIP) {
        plane.extend(strip.iter().map(|pixel| luma::opencv(*pixel)));
        passed(3 * strip.len());
    }
    let equalized = equalize_plane(&plane, width, height);
    let strips = image.as_chunks_mut::<3>().0.chunks_mut(STRIP);
    let levels = plane.chunks(STRIP).zip(equalized.chunks(STRIP));
    for (strip, (before, after)) in strips.zip(levels) {
        for (pixel, (before, after)) in strip.iter_mut().zip(before.iter().zip(after)) {
            let shift = i16::from(*after) - i16::from(*before);
            *pixel = pixel.map(|v| (i16::from(v) + shift).clamp(0, 255) as u8);
        }
        passed(6 * strip.len());
    }
}

fn equalize_plane(plane: &[u8], width: usize, height: usize) -> Vec<u8> {
    let grid = Grid::over(plane, width, height);
    let (columns, rows) = (
        grid.axis(width, grid.tile_width),
        grid.axis(height, grid.tile_height),
    );
    let mut equalized = Vec::with_capacity(plane.len());
    for (line, row) in plane.chunks_exact(width).zip(&rows) {
        for (sample, column) in line.iter().zip(&columns) {
            let at = |x: usize, y: usize| {
                f32::from(grid.tables[y * CLAHE_TILES as usize + x][usize::from(*sample)])
            };
            let across = |y: usize| {
                at(column.first, y) * (1.0 - column.share) + at(column.second, y) * column.share
            };
            let value = across(row.first) * (1.0 - row.share) + across(row.second) * row.share;
            equalized.push(value.round_ties_even() as u8);
        }
        passed(32 * width);
    }
    equalized
}

/// The two tiles between which a coordinate lies, and the share of the second.
struct Between {
    first: usize,
    second: usize,
    share: f32,
}

struct Grid {
    tile_width: usize,
    tile_height: usize,
    /// A lookup table for each tile, row by row.
    tables: Vec<[u8; 256]>,
}

impl Grid {
    fn over(plane: &[u8], width: usize, height: usize) -> Self {
        let tiles = CLAHE_TILES as usize;
        // A side that is not a multiple of the tiles is extended by reflection. OpenCV then extends the other side too,
        // by a complete step if it is a multiple.
        let (extended_width, extended_height) =
            if width.is_multiple_of(tiles) && height.is_multiple_of(tiles) {
                (width, height)
            } else {
                (
                    width + tiles - width % tiles,
                    height + tiles - height % tiles,
                )
            };
        let (tile_width, tile_height) = (extended_width / tiles, extended_height / tiles);
        let tables = (0..tiles * tiles)
            .map(|tile| {
                let (left, top) = (tile % tiles * tile_width, tile / tiles * tile_height);
                let mut histogram = [0u32; 256];
                for y in top..top + tile_height {
                    let line = reflect_101(y as i64, height as u32) * width;
                    for x in left..left + tile_width {
                        histogram
                            [usize::from(plane[line + reflect_101(x as i64, width as u32)])] += 1;
                    }
                    passed(16 * tile_width);
                }
                table(histogram, (tile_width * tile_height) as u32)
            })
            .collect();
        Self {
            tile_width,
            tile_height,
            tables,
        }
    }

    fn axis(&self, length: usize, tile: usize) -> Vec<Between> {
        let last = CLAHE_TILES as i64 - 1;
        let inverse = 1.0 / tile as f32;
        (0..length)
            .map(|i| {
                let position = i as f32 * inverse - 0.5;
                let first = position.floor();
                let clamped = |index: i64| index.clamp(0, last) as usize;
                Between {
                    first: clamped(first as i64),
                    second: clamped(first as i64 + 1),
                    share: position - first,
                }
            })
            .collect()
    }
}

/// Clips the histogram, spreads the excess over all bins, and accumulates.
fn table(mut histogram: [u32; 256], area: u32) -> [u8; 256] {
    let limit = ((CLAHE_CLIP_LIMIT * area as f32 / 256.0) as u32).max(1);
    let mut excess = 0;
    for bin in &mut histogram {
        excess += bin.saturating_sub(limit);
        *bin = (*bin).min(limit);
    }
    let (share, rest) = (excess / 256, excess % 256);
    for bin in &mut histogram {
        *bin += share;
    }
    if let Some(step) = 256_u32.checked_div(rest) {
        let step = step.max(1) as usize;
        for bin in histogram.iter_mut().step_by(step).take(rest as usize) {
            *bin += 1;
        }
    }
    let scale = 255.0 / area as f32;
    let mut sum = 0;
    histogram.map(|count| {
        sum += count;
        (sum as f32 * scale).round_ties_even() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{fixture, synthetic};
    use image::{GenericImageView, Rgb};

    #[test]
    fn the_luma_equals_opencv() {
        let source = synthetic(131, 90);
        let plane: Vec<u8> = source.pixels().map(|p| luma::opencv(p.0)).collect();
        let ours = equalize_plane(&plane, 131, 90);
        let theirs = image::load_from_memory(&fixture("clahe_luma.png")).unwrap();
        assert_eq!(theirs.dimensions(), (131, 90));
        let worst = ours
            .iter()
            .zip(theirs.to_luma8().as_raw())
            .map(|(a, b)| a.abs_diff(*b))
            .max();
        assert!(worst <= Some(1), "{worst:?}");
    }

    #[test]
    fn chroma_is_kept_and_small_images_work() {
        for (width, height) in [(1, 1), (3, 2), (8, 8), (9, 1)] {
            let mut image = RgbImage::from_pixel(width, height, Rgb([90, 100, 110]));
            equalize(&mut image);
            let [r, g, b] = image.get_pixel(0, 0).0.map(i16::from);
            assert!((g - r, b - g) == (10, 10) || b == 255, "{r} {g} {b}");
        }
    }

    #[test]
    fn a_faint_texture_gets_more_contrast() {
        let mut faint = RgbImage::from_fn(64, 64, |x, y| Rgb([100 + ((x * 3 + y) % 16) as u8; 3]));
        equalize(&mut faint);
        let grays = faint.pixels().map(|p| p[0]);
        let (low, high) = (grays.clone().min().unwrap(), grays.max().unwrap());
        assert!(high - low > 25, "{low}..{high}");
    }
}
