//! A perceptual hash: equal or similar hashes suggest that two files show the same image, but do not prove it.
//!
//! This is pHash. The luma at 32 × 32 pixels is transformed by a DCT-II. Each bit says whether one of the 8 × 8 lowest
//! frequencies is above their median. See C. Zauner, "Implementation and Benchmarking of Perceptual Image Hash
//! Functions", 2010, section 3.2.1.

use std::{array::from_fn, f32::consts::PI};

use image::RgbImage;

use super::luma::exact;
use super::quality::measure;
use super::resize::{Filter, resize};

/// The side of the reduced image. The hash ignores finer detail.
const SIDE: usize = 32;

/// The number of frequencies in each direction, from the lowest. Each frequency is one bit of the hash.
const FREQUENCIES: usize = 8;

/// Images below this standard deviation of gray get no hash: it would be noise, and equal for all blank images.
const FLAT: f32 = 3.0;

/// Returns the 64-bit hash. Bit 63 is the lowest frequency, and the frequency along the width changes fastest. The
/// hashes of similar images differ in few bits. Returns `None` if the image is nearly flat.
pub fn perceptual_hash(image: &RgbImage) -> Option<u64> {
    let side = SIDE as u32;
    let reduced = resize(image, side, side, Filter::Area);
    if measure(&reduced).contrast < FLAT {
        return None;
    }
    let frequencies = low_frequencies(&reduced);
    // The lowest frequency is the mean brightness, which says nothing about the content.
    let mut sorted = frequencies[1..].to_vec();
    sorted.sort_by(f32::total_cmp);
    let median = sorted[sorted.len() / 2];
    let bits = frequencies.iter();
    Some(bits.fold(0, |hash, &value| (hash << 1) | u64::from(value > median)))
}

/// Returns the lowest frequencies of the DCT-II of an image of [`SIDE`] × [`SIDE`] pixels, row by row. They are not
/// scaled, because the scale does not affect the comparison with the median.
fn low_frequencies(image: &RgbImage) -> [f32; FREQUENCIES * FREQUENCIES] {
    let basis: [[f32; SIDE]; FREQUENCIES] = from_fn(|frequency| {
        from_fn(|at| ((2 * at + 1) as f32 * frequency as f32 * PI / (2 * SIDE) as f32).cos())
    });
    let mut along_rows = [[0.0; FREQUENCIES]; SIDE];
    for (row, sums) in image.rows().zip(&mut along_rows) {
        for (x, pixel) in row.enumerate() {
            let level = exact(pixel.0);
            for (sum, wave) in sums.iter_mut().zip(&basis) {
                *sum += level * wave[x];
            }
        }
    }
    from_fn(|at| {
        let (v, u) = (at / FREQUENCIES, at % FREQUENCIES);
        let column = along_rows.iter().zip(&basis[v]);
        column.map(|(sums, weight)| sums[u] * weight).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{DecodeOptions, decode};
    use crate::encode::{OutputFormat, encode};
    use crate::synthetic::synthetic;
    use image::{Rgb, imageops};

    #[test]
    fn a_resized_and_recompressed_copy_has_a_similar_hash() {
        let image = synthetic(300, 200);
        let hash = perceptual_hash(&image).unwrap();
        let small = resize(&image, 150, 100, Filter::Bilinear);
        let file = encode(&small, OutputFormat::Jpeg { quality: 60 }).unwrap();
        let copy = decode(&file, &DecodeOptions::default()).unwrap().pixels;
        let near = (hash ^ perceptual_hash(&copy).unwrap()).count_ones();
        let turned = imageops::rotate90(&image);
        let far = (hash ^ perceptual_hash(&turned).unwrap()).count_ones();
        assert!(near <= 8, "{near} bits");
        assert!(far >= 16, "{far} bits");
    }

    #[test]
    fn flat_images_have_no_hash() {
        assert_eq!(perceptual_hash(&RgbImage::new(100, 80)), None);
        let nearly = RgbImage::from_fn(90, 90, |x, y| Rgb([200 + ((x + y) % 3) as u8; 3]));
        assert_eq!(perceptual_hash(&nearly), None);
        assert_eq!(perceptual_hash(&RgbImage::new(0, 0)), None);
    }
}
