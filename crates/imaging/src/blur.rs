//! Anonymization of regions: Gaussian blur, pixelation and fill.

use image::RgbImage;

use super::crop::{Region, copy};

pub use pixels::{fill, pixelate};

mod direct;
mod line;
mod pixels;
mod series;
mod sliding;

const CHANNELS: usize = 3;

/// The number of samples of a row that are blurred at a time.
const BLOCK: usize = 64;

/// The longest kernel that is summed weight by weight. Sums of a longer one [slide](sliding), which takes less time.
const MAX_DIRECT: usize = 65;

/// Every f32 from this value to its double is a whole number. Adding this value to a smaller number rounds that number.
const ROUNDING: f32 = (1 << 23) as f32;

/// The longest kernel in pixels.
const MAX_KERNEL: u32 = 255;

/// A Gaussian kernel of odd length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gaussian {
    kernel: u32,
    sigma: f32,
}

impl Gaussian {
    /// Creates a kernel of `kernel` pixels and a standard deviation of `sigma` pixels. Returns `None` unless `kernel`
    /// is odd and in 1..=255, and `sigma` is finite and above 0.
    pub fn new(kernel: u32, sigma: f32) -> Option<Self> {
        let odd = kernel % 2 == 1 && kernel <= MAX_KERNEL;
        (odd && sigma > 0.0 && sigma.is_finite()).then_some(Self { kernel, sigma })
    }

    /// Returns the length of the kernel in pixels. It is odd.
    pub fn kernel(&self) -> u32 {
        self.kernel
    }

    /// Returns the weights along one axis: [`Self::kernel`] values that add up to 1.
    pub fn weights(&self) -> Vec<f32> {
        let spread = 2.0 * f64::from(self.sigma).powi(2);
        let center = f64::from(self.kernel / 2);
        let raw: Vec<f64> = (0..self.kernel)
            .map(|i| (-(f64::from(i) - center).powi(2) / spread).exp())
            .collect();
        let sum: f64 = raw.iter().sum();
        raw.iter().map(|weight| (weight / sum) as f32).collect()
    }
}

/// Blurs an image, to within one level of OpenCV's `GaussianBlur` with `BORDER_REFLECT_101`.
pub fn gaussian_blur(image: &RgbImage, gaussian: &Gaussian) -> RgbImage {
    let mut blurred = copy(image);
    blur_region(&mut blurred, Region::full(image.dimensions()), gaussian);
    blurred
}

/// Blurs the pixels of `region` as [`gaussian_blur`] does. The kernel reads the pixels around the region, which do not
/// change.
///
/// The cost is that of the region, extended by half a kernel on each side. It grows with the kernel up to 65 pixels.
pub fn blur_region(image: &mut RgbImage, region: Region, gaussian: &Gaussian) {
    let region = region.clipped(image.dimensions());
    if region.is_empty() {
        return;
    }
    let weights = gaussian.weights();
    let used = series::without_tails(&weights);
    if used.len() <= MAX_DIRECT {
        // All weights of a kernel that is short by itself.
        let weights = if weights.len() <= MAX_DIRECT {
            &weights
        } else {
            used
        };
        direct::Blur::new(region, weights).run(image);
    } else {
        let series = series::Series::new(used);
        sliding::Blur::new(region, &series, image.height()).run(image);
    }
}

#[cfg(test)]
mod tests;
