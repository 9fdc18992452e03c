//! A perceptual hash: a hint that two files show the same image, never a proof.

use image::RgbImage;
use image_hasher::{HashAlg, HasherConfig};

use super::quality::measure;
use super::resize::{Filter, resize};

/// The hash sees nothing finer, and its own reduction is slow on large images.
const REDUCED_SIDE: u32 = 64;

/// Below this standard deviation of grey the hash would be noise, and all blank images would look alike.
const FLAT: f32 = 3.0;

/// The 64-bit pHash: median of the low frequencies of the DCT, 8 × 8. Similar images differ in few bits.
/// `None` for a (nearly) flat image.
pub fn perceptual_hash(image: &RgbImage) -> Option<u64> {
    let reduced = resize(image, REDUCED_SIDE, REDUCED_SIDE, Filter::Area);
    if measure(&reduced).contrast < FLAT {
        return None;
    }
    let hash = HasherConfig::with_bytes_type::<[u8; 8]>()
        .hash_size(8, 8)
        .hash_alg(HashAlg::Median)
        .preproc_dct()
        .to_hasher()
        .hash_image(&reduced);
    Some(u64::from_be_bytes(hash.into_inner()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{DecodeOptions, decode};
    use crate::encode::{OutputFormat, encode};
    use crate::synthetic::synthetic;
    use image::{Rgb, imageops};

    #[test]
    fn a_resized_and_recompressed_copy_stays_close() {
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
