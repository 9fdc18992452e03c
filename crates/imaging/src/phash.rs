//! A perceptual hash: equal or similar hashes suggest that two files show the same image, but do not prove it.

use image::RgbImage;
use image_hasher::{HashAlg, HasherConfig};

use super::quality::measure;
use super::resize::{Filter, resize};

/// Images are reduced to this side first. The hash ignores finer detail, and its own reduction of large images is slow.
const REDUCED_SIDE: u32 = 64;

/// Images below this standard deviation of grey get no hash: it would be noise, and equal for all blank images.
const FLAT: f32 = 3.0;

/// The 64-bit pHash: the 8 × 8 low frequencies of the DCT, compared with their median. The hashes of similar images differ in few
/// bits. `None` for a nearly flat image.
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
