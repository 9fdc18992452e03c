//! The prices of the operations of `/process`.

use super::{request::ProcessPlan, result::ProcessedFormat, step::Step};
use crate::{
    core::work::{self, Size, pixels},
    models::detector::Detector,
};
use facescan_imaging::{
    crop::{Bounds, Region, bounded_size},
    preprocess::{Preprocess, Profile},
};

impl Step {
    /// Returns the price for an image of a size, without the searches for faces. Regions around faces are priced when they are
    /// found.
    pub(super) fn work(&self, size: Size) -> u64 {
        let area = pixels(size);
        match self {
            Self::GaussianBlur { faces: true, .. }
            | Self::Anonymize { .. }
            | Self::Crop { faces: true, .. } => 0,
            Self::GaussianBlur { kernel, region, .. } => {
                let region = region.map_or(Region::full(size), Region::from);
                let region = region.clipped(size);
                work::blur((region.width(), region.height()), *kernel)
            }
            Self::Resize { .. } => {
                let scaled = self
                    .fitting(size)
                    .map_or(0, |fitting| pixels(fitting.placement(size).scaled));
                work::RESIZE_READ * area + scaled.saturating_mul(work::RESIZE_WRITE)
            }
            Self::Normalize { .. } => work::NORMALIZE * area,
            Self::Rotate { degrees, .. } if degrees % 90.0 != 0.0 => work::ROTATE * area,
            Self::MaskCrop { .. }
            | Self::Crop { .. }
            | Self::Rotate { .. }
            | Self::Flip { .. }
            | Self::Grayscale {} => work::PLAIN * area,
        }
    }

    /// Returns the size after the operation, or the size before it if only the image decides.
    pub(super) fn size_after(&self, size: Size) -> Size {
        match self {
            Self::Resize { .. } => self
                .fitting(size)
                .map_or(size, |fitting| fitting.output_size(size)),
            Self::Rotate { degrees, .. }
                if (degrees / 90.0) % 2.0 != 0.0 && degrees % 90.0 == 0.0 =>
            {
                (size.1, size.0)
            }
            _ => size,
        }
    }

    /// Returns how an image of a size is resized. Returns `None` for other operations.
    pub(super) fn fitting(&self, size: Size) -> Option<Preprocess> {
        let Self::Resize {
            width,
            height,
            profile,
            mode,
            antialias,
            bounded,
            pad,
        } = *self
        else {
            return None;
        };
        let (width, height) = match (width, height) {
            _ if bounded => bounded_size(size, &Bounds::default()),
            (Some(width), Some(height)) => (width, height),
            (Some(width), None) => (width, follow(size.1, size.0, width)),
            (None, Some(height)) => (follow(size.0, size.1, height), height),
            (None, None) => size,
        };
        Some(Preprocess {
            width,
            height,
            // The result has whole levels. All antialiasing profiles use Pillow's filter, and Pillow's profile rounds.
            profile: match antialias.unwrap_or(profile != Profile::Opencv) {
                true => Profile::Pil,
                false => Profile::Opencv,
            },
            mode,
            pad,
            ..Preprocess::default()
        })
    }
}

impl ProcessPlan {
    /// Returns the price of an image of a size. An image that is cut counts in full, because the size of a face is not
    /// known yet.
    pub(super) fn work(&self, size: Size) -> u64 {
        let mut passes = work::DECODE.saturating_mul(work::pixels(size));
        let mut size = size;
        for step in self.steps.iter() {
            passes = passes.saturating_add(step.work(size));
            size = step.size_after(size);
        }
        passes.saturating_add(self.encoding(size))
    }

    /// Returns the price of encoding an image of a size.
    pub(super) fn encoding(&self, size: Size) -> u64 {
        let passes = match self.format {
            ProcessedFormat::Npy => work::PLAIN,
            _ => work::encode(self.output()),
        };
        passes.saturating_mul(work::pixels(size))
    }

    /// Returns the price of the searches for faces in an image of a size: one for each operation that needs them. `anonymize`
    /// prices its further ones when they begin.
    pub(super) fn searches(&self, size: Size, detector: &Detector) -> u64 {
        let (mut size, mut passes) = (size, 0_u64);
        for step in self.steps.iter() {
            if step.finds_faces() {
                passes = passes.saturating_add(detector.work(size, &self.detect));
            }
            size = step.size_after(size);
        }
        passes
    }
}

/// Returns the length that keeps the aspect ratio of `side` and `with` when `with` becomes `to`.
fn follow(side: u32, with: u32, to: u32) -> u32 {
    let scaled = f64::from(side) * f64::from(to) / f64::from(with.max(1));
    (scaled.round() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::work::WorkLimit;

    const LARGE: Size = (10_000, 10_000);

    fn steps(json: &str) -> Vec<Step> {
        serde_json::from_str(json).unwrap()
    }

    /// Returns the price of operations in megapixel passes.
    fn price(json: &str, size: Size) -> u64 {
        let mut size = size;
        let mut passes = 0;
        for step in steps(json) {
            passes += step.work(size);
            size = step.size_after(size);
        }
        passes / 1_000_000
    }

    #[test]
    fn a_resize_decides_the_price_of_the_operations_after_it() {
        let small =
            r#"[{"op":"resize","width":100},{"op":"gaussian_blur","kernel":255,"sigma":100}]"#;
        assert!(price(small, LARGE) < 300);
        let large = r#"[{"op":"gaussian_blur","kernel":255,"sigma":100}]"#;
        assert_eq!(price(large, LARGE), 2_596);
        let enlarged =
            r#"[{"op":"resize","width":10000,"height":10000},{"op":"flip","axis":"vertical"}]"#;
        assert_eq!(price(enlarged, (10, 10)), 800 + 300);
    }

    #[test]
    fn a_region_and_a_right_angle_are_priced_as_they_are() {
        let region = r#"[{"op":"gaussian_blur","kernel":255,"sigma":9,"region":[0,0,1000,1000]}]"#;
        assert_eq!(price(region, LARGE), 35);
        let turned = r#"[{"op":"rotate","degrees":-90},{"op":"resize","width":1000}]"#;
        assert_eq!(steps(turned)[0].size_after((40, 30)), (30, 40));
        assert_eq!(
            steps(r#"[{"op":"rotate","degrees":180}]"#)[0].size_after((40, 30)),
            (40, 30)
        );
        assert_eq!(
            steps(r#"[{"op":"rotate","degrees":45}]"#)[0].size_after((40, 30)),
            (40, 30)
        );
    }

    #[test]
    fn many_large_blurs_are_refused_and_usual_chains_are_not() {
        let limit = WorkLimit { max: 40_000 };
        let blur = r#"{"op":"gaussian_blur","kernel":255,"sigma":100}"#;
        let many = format!("[{}]", [blur; 16].join(","));
        assert!(limit.check(price(&many, LARGE) * 1_000_000).is_err());
        let usual = r#"[{"op":"rotate","degrees":3},{"op":"gaussian_blur","kernel":255,"sigma":40},{"op":"grayscale"},
            {"op":"resize","width":3000},{"op":"anonymize"}]"#;
        limit.check(price(usual, (6000, 4000)) * 1_000_000).unwrap();
    }
}
