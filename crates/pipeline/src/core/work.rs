//! The price of operations on an image, known before they run.
//!
//! The unit is a plain pass over a pixel, such as copying it. It takes about a nanosecond of a core, so a million of them,
//! a megapixel pass, takes about a millisecond. `docs/operations.md` has the prices.

use super::error::PipelineError;
use facescan_imaging::{
    decode::stated_size,
    encode::OutputFormat,
    enhance::{Apply, EnhanceOptions, Gamma, LOW_RESOLUTION, MAX_UPSCALED_SIDE, Upscale},
    quality::CANONICAL_SIDE,
    warp::ALIGNED_SIDE,
};

/// A width and a height in pixels.
pub type Size = (u32, u32);

/// Passes over each pixel of an image that is decoded.
pub(crate) const DECODE: u64 = 20;
/// Passes over each pixel of an image in which faces are searched for, without the run of the model.
const SEARCH: u64 = 2;
/// Passes over each pixel of an input of the detector. YuNet takes 9.2 ms for 640 × 640 pixels.
const DETECT: u64 = 25;
/// Passes over each pixel of an aligned crop of which the embedder makes a vector. `SFace` takes 7 to 14 ms for 112 × 112.
const EMBED: u64 = 1000;
/// Passes over each pixel of an input of the encoder of whole images. CLIP ViT-B/32 takes 50 to 100 ms for 224 × 224.
const ENCODE: u64 = 2000;
/// Passes over each pixel of an image whose quality is measured.
const MEASURE: u64 = 20;
/// Passes over each pixel that a resize reads.
pub(crate) const RESIZE_READ: u64 = 2;
/// Passes over each pixel that a resize writes.
pub(crate) const RESIZE_WRITE: u64 = 8;
/// Passes over each value of a tensor.
pub(crate) const NORMALIZE: u64 = 4;
/// Passes over each pixel of an image that is turned by any angle.
pub(crate) const ROTATE: u64 = 25;
/// Passes over each pixel of an image that is mirrored, turned by a right angle, cut or made gray.
pub(crate) const PLAIN: u64 = 3;
/// Passes over each pixel of a region that is pixelated or filled.
pub(crate) const PIXELATE: u64 = 3;

const DENOISE: u64 = 10;
const UPSCALE: u64 = 60;
const GAMMA: u64 = 6;
const CLAHE: u64 = 20;
const CONTRAST: u64 = 6;
const SHARPEN: u64 = 80;

/// The most passes of a blur: the time of a long kernel does not grow with it.
const LONG_BLUR: u64 = 25;

/// Plain passes over a million pixels.
const PER_UNIT: u64 = 1_000_000;

/// The pixels of the smallest input that the price of a run tells apart. A run on fewer pixels takes as long.
const SMALLEST_INPUT: u64 = 128 * 128;

/// The largest value of `limits.max_pixels`. Decoding refuses an image that states more, whatever its price.
const MAX_PIXELS: u64 = 1_000_000_000;

const ALIGNED: Size = (ALIGNED_SIDE, ALIGNED_SIDE);

/// The most work on one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkLimit {
    /// The limit in megapixel passes.
    pub max: u64,
}

impl WorkLimit {
    /// Checks that work of `passes` over a pixel is allowed.
    ///
    /// # Errors
    /// [`PipelineError::TooMuchWork`] if it is not.
    pub fn check(self, passes: u64) -> Result<(), PipelineError> {
        let needed = passes.div_ceil(PER_UNIT);
        if needed <= self.max {
            return Ok(());
        }
        Err(PipelineError::TooMuchWork {
            needed,
            limit: self.max,
        })
    }

    /// Checks the price of an image by the size that its file states. The image may be turned while it is decoded, so
    /// `price` is asked for both orientations. A file that states no size is checked while its operations run.
    ///
    /// # Errors
    /// [`PipelineError::TooMuchWork`] if the price is too high.
    pub(crate) fn check_file(
        self,
        bytes: &[u8],
        price: impl Fn(Size) -> u64,
    ) -> Result<(), PipelineError> {
        let stated = stated_size(bytes).filter(|size| pixels(*size) <= MAX_PIXELS);
        let Some((width, height)) = stated else {
            return Ok(());
        };
        self.check(price((width, height)).max(price((height, width))))
    }
}

/// The work on one image so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkMeter {
    limit: WorkLimit,
    passes: u64,
}

impl Default for WorkMeter {
    /// Returns a meter without a limit.
    fn default() -> Self {
        Self::new(WorkLimit { max: u64::MAX })
    }
}

impl WorkMeter {
    pub(crate) fn new(limit: WorkLimit) -> Self {
        Self { limit, passes: 0 }
    }

    pub(crate) fn limit(&self) -> WorkLimit {
        self.limit
    }

    /// Adds work before it is done. Faces and crops have sizes that are known only then.
    ///
    /// # Errors
    /// [`PipelineError::TooMuchWork`] if the sum is above the limit.
    pub(crate) fn add(&mut self, passes: u64) -> Result<(), PipelineError> {
        self.passes = self.passes.saturating_add(passes);
        self.limit.check(self.passes)
    }
}

/// Returns the sum of the prices of those parts that run.
pub(crate) fn sum(parts: impl IntoIterator<Item = (bool, u64)>) -> u64 {
    let parts = parts.into_iter().filter(|(runs, _)| *runs);
    parts.map(|(_, passes)| passes).sum()
}

pub(crate) fn pixels((width, height): Size) -> u64 {
    u64::from(width) * u64::from(height)
}

/// Returns the price of a blur of a region. The rows above and below it, of half a kernel each, are blurred in one direction,
/// and each row begins with a sum over the kernel.
pub(crate) fn blur((width, height): Size, kernel: u32) -> u64 {
    let passes = u64::from(kernel).div_ceil(2).min(LONG_BLUR);
    let area = pixels((
        width.saturating_add(kernel),
        height.saturating_add(kernel / 2),
    ));
    area.saturating_mul(passes)
}

/// Returns the price of a search for faces in an image, with a run of the detector on each input.
pub(crate) fn search(image: Size, inputs: impl Iterator<Item = Size>) -> u64 {
    let runs = inputs.map(|input| pixels(input).max(SMALLEST_INPUT) * DETECT);
    runs.fold(pixels(image) * SEARCH, u64::saturating_add)
}

/// Returns the price of cutting out and aligning a face.
pub(crate) fn align() -> u64 {
    pixels(ALIGNED) * ROTATE
}

/// Returns the price of the vector of an aligned crop.
pub(crate) fn embed(input: Size) -> u64 {
    pixels(input) * (NORMALIZE + EMBED)
}

/// Returns the price of the vector of a whole image.
pub(crate) fn encode_image(image: Size, input: Size) -> u64 {
    pixels(image) * RESIZE_READ + pixels(input) * (RESIZE_WRITE + NORMALIZE + ENCODE)
}

/// Returns the price of measuring the quality of an aligned crop.
pub(crate) fn measure_face() -> u64 {
    pixels(ALIGNED) * MEASURE
}

/// Returns the price of measuring the quality of a whole image, which is scaled to the canonical side.
pub(crate) fn measure_image(image: Size) -> u64 {
    let side = CANONICAL_SIDE;
    pixels(image) * RESIZE_READ + pixels((side, side)) * (RESIZE_WRITE + MEASURE)
}

/// Returns the price of the PNG of an aligned crop.
pub(crate) fn encode_face() -> u64 {
    pixels(ALIGNED) * encode(OutputFormat::Png)
}

/// Returns the price of decoding a mask and finding its box, by the size that its file states.
pub(crate) fn mask(bytes: &[u8]) -> u64 {
    let size = stated_size(bytes).filter(|size| pixels(*size) <= MAX_PIXELS);
    size.map_or(0, |size| pixels(size) * (DECODE + PLAIN))
}

/// Returns the price of encoding each pixel.
pub(crate) fn encode(output: OutputFormat) -> u64 {
    match output {
        OutputFormat::Jpeg { .. } => 30,
        OutputFormat::Png => 20,
        OutputFormat::Webp => 40,
        OutputFormat::Avif => 1600,
    }
}

/// Returns the price of decoding an image of a size, enhancing it and encoding the result.
pub(crate) fn enhance(size: Size, options: &EnhanceOptions, output: OutputFormat) -> u64 {
    let (before, after) = (pixels(size), pixels(upscaled(size, options.upscale)));
    let is_low = size.0 < LOW_RESOLUTION.0 || size.1 < LOW_RESOLUTION.1;
    let applies = |apply| match apply {
        Apply::Auto => is_low,
        Apply::Always => true,
        Apply::Never => false,
    };
    let passes = sum([
        (after != before, UPSCALE),
        (options.gamma != Gamma::Off, GAMMA),
        (options.clahe, CLAHE),
        (applies(options.contrast), CONTRAST),
        (applies(options.sharpen), SHARPEN),
        (true, encode(output)),
    ]);
    let denoise = if options.denoise { DENOISE } else { 0 };
    before * (DECODE + denoise + PLAIN) + after * passes
}

/// Returns the largest size that an upscaling can have.
pub(crate) fn upscaled(size: Size, upscale: Upscale) -> Size {
    const LARGEST_AUTOMATIC: f32 = 4.0;
    let factor = match upscale {
        Upscale::Off => 1.0,
        Upscale::Auto => LARGEST_AUTOMATIC,
        Upscale::Factor(factor) => factor,
    };
    let most = MAX_UPSCALED_SIDE as f32 / size.0.max(size.1).max(1) as f32;
    let factor = factor.min(most).max(1.0);
    let scaled = |side: u32| (side as f32 * factor).round() as u32;
    (scaled(size.0), scaled(size.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Size = (10_000, 10_000);
    const LIMIT: WorkLimit = WorkLimit { max: 40_000 };

    #[test]
    fn every_single_step_on_a_large_image_is_allowed() {
        let everything = EnhanceOptions {
            upscale: Upscale::Factor(4.0),
            contrast: Apply::Always,
            sharpen: Apply::Always,
            clahe: true,
            gamma: Gamma::Auto,
            denoise: true,
        };
        for output in [
            OutputFormat::default(),
            OutputFormat::Png,
            OutputFormat::Webp,
        ] {
            LIMIT.check(enhance(LARGE, &everything, output)).unwrap();
        }
        let blurred = pixels(LARGE) * (DECODE + encode(OutputFormat::Png)) + blur(LARGE, 255);
        LIMIT.check(blurred).unwrap();
        assert!(LIMIT.check(16 * blur(LARGE, 255)).is_err());
    }

    #[test]
    fn a_search_is_priced_by_its_inputs() {
        let photo = (4000, 3000);
        let passes = |inputs: &[Size]| search(photo, inputs.iter().copied()) / PER_UNIT;
        assert_eq!(passes(&[]), 24);
        assert_eq!(passes(&[(640, 640)]), 24 + 10);
        assert_eq!(passes(&[(320, 320), (4096, 4096)]), 24 + 421);
        let small = |side: u32| search((side, side), [(side, side)].into_iter());
        assert!(small(32) > pixels((100, 100)) * DETECT, "a run takes time");
    }

    /// A photograph with 500 faces, and the most faces that a search finds in the largest image.
    #[test]
    fn a_crowd_is_allowed() {
        let face = align() + embed(ALIGNED) + measure_face() + encode_face();
        let scan = |size, faces: u64| {
            let search = search(size, [(4096, 4096)].into_iter());
            pixels(size) * DECODE + measure_image(size) + search + faces * face
        };
        LIMIT.check(scan((3840, 2160), 500)).unwrap();
        LIMIT.check(scan(LARGE, 2000)).unwrap();
        assert!(LIMIT.check(scan((3840, 2160), 500) * 6).is_err());
    }

    #[test]
    fn a_meter_adds_up() {
        let mut meter = WorkMeter::new(WorkLimit { max: 3 });
        meter.add(2 * PER_UNIT).unwrap();
        meter.add(PER_UNIT).unwrap();
        let error = meter.add(1).unwrap_err().to_string();
        assert!(
            error.contains("takes 4 megapixel passes, and 3 are allowed"),
            "{error}"
        );
        WorkMeter::default().add(u64::MAX).unwrap();
        assert!(meter.add(u64::MAX).is_err());
    }

    #[test]
    fn enlarged_images_cost_more_than_large_ones() {
        let options = EnhanceOptions::default();
        let price = |size| enhance(size, &options, OutputFormat::default());
        assert!(price((600, 600)) > 2 * price((601, 1200)) / 3);
        assert_eq!(upscaled((100, 100), Upscale::Auto), (400, 400));
        assert_eq!(upscaled((5000, 10), Upscale::Factor(4.0)), (5000, 10));
    }
}
