//! The memory that the operations of `/process` need.

use super::{request::ProcessPlan, result::ProcessedFormat, step::Step};
use crate::core::{
    memory::{self, samples},
    work::{Size, pixels},
};

/// The faces that are cut out of an image have in all at most this many times its pixels.
const CUT_RATIO: u64 = 8;
/// They have at most this many pixels in any case, and as many after each operation on them.
const CUT_PIXELS: u64 = 32_000_000;

/// The bytes for each pixel of a NumPy file of floats: the floats, and the file.
const FLOAT_FILE: u64 = 24;

impl ProcessPlan {
    /// Returns the memory for an image of a size: the most that it needs at any operation.
    pub(super) fn memory_for(&self, size: Size) -> u64 {
        let original = samples(pixels(size));
        let mut most = memory::decoding(size);
        let mut size = size;
        // All images at this point. Their sizes are known until faces are cut out.
        let mut current = pixels(size);
        let mut is_cut = false;
        for step in self.steps.iter() {
            let (mut after, mut scaled) = (current, 0);
            if step.cuts_faces() {
                after = self.cut_pixels(current);
                is_cut = true;
            } else if is_cut && matches!(step, Step::Resize { .. }) {
                after = self.cut_pixels(0);
                scaled = after;
            } else if let Some(fitting) = step.fitting(size) {
                size = fitting.output_size(size);
                after = pixels(size);
                scaled = pixels(fitting.placement(size).scaled);
            } else {
                size = step.size_after(size);
            }
            let search = match step.finds_faces() {
                true => memory::detection(&self.detect),
                false => 0,
            };
            // What is scaled is cut out into the output, unless it has the size of the output.
            let cut = if scaled > after { scaled } else { 0 };
            most = most.max(original + samples(current + after + cut) + search);
            current = after;
        }
        most.max(original + samples(current) + self.encoding_memory(current))
    }

    /// Returns the most pixels that faces cut out of images of `pixels` pixels may have, at any operation after it.
    pub(super) fn cut_pixels(&self, pixels: u64) -> u64 {
        let most = pixels.saturating_mul(CUT_RATIO).max(CUT_PIXELS);
        most.min(self.max_pixels)
    }

    /// Returns the memory of the files of images of `pixels` pixels in all, and of the work that makes them.
    fn encoding_memory(&self, pixels: u64) -> u64 {
        match (self.format, self.steps.last()) {
            (ProcessedFormat::Npy, Some(Step::Normalize { .. })) => {
                memory::result(pixels.saturating_mul(FLOAT_FILE))
            }
            (ProcessedFormat::Npy, _) => memory::result(samples(pixels)),
            _ => memory::encoding(pixels, self.output()),
        }
    }
}

#[cfg(test)]
mod tests {
    use facescan_inference::registry::Thresholds;

    use super::*;
    use crate::operations::process::request::ProcessRequest;
    use facescan_config::{Config, DetSize, DetectionRequest, Sources};

    fn memory(operations: &str, size: Size) -> u64 {
        memory_of_files(operations, None, size)
    }

    fn memory_of_files(operations: &str, format: Option<ProcessedFormat>, size: Size) -> u64 {
        let mut request = ProcessRequest {
            operations: serde_json::from_str(operations).unwrap(),
            format,
            detection: DetectionRequest {
                det_size: Some(DetSize::Side(4096)),
                second_det_size: Some(4064),
                ..DetectionRequest::default()
            },
            ..ProcessRequest::default()
        };
        let (config, _) = Config::load(&Sources::default()).unwrap();
        let plan = request.resolve(&config, &Thresholds::default(), 0).unwrap();
        plan.memory_for(size)
    }

    #[test]
    fn a_small_image_that_is_enlarged_needs_the_memory_of_a_large_one() {
        let enlarged = r#"[{"op":"resize","width":9990,"height":9990},{"op":"rotate","degrees":37},
            {"op":"resize","width":64}]"#;
        let large = 9990 * 9990;
        let needed = memory(enlarged, (1, 1));
        assert!(needed >= 2 * 3 * large, "{needed}");
        assert!(needed < 4 * 3 * large, "{needed}");
        let plain = r#"[{"op":"flip","axis":"vertical"}]"#;
        assert_eq!(memory(plain, (1000, 1000)), 16_000_000);
    }

    #[test]
    fn no_image_needs_more_than_the_part_of_a_tenant() {
        const TENANT: u64 = (5 << 29) / 4 * 3;
        let large = (10_000, 10_000);
        for operations in [
            r#"[{"op":"anonymize"}]"#,
            r#"[{"op":"crop","faces":true},{"op":"resize","width":4000}]"#,
            r#"[{"op":"resize","width":9990,"height":9990},{"op":"normalize"}]"#,
            r#"[{"op":"resize","width":9000,"height":9990,"mode":"center_crop"},{"op":"anonymize"}]"#,
        ] {
            let needed = memory(operations, large);
            assert!(needed <= TENANT, "{operations}: {needed}");
        }
        for format in [ProcessedFormat::Webp, ProcessedFormat::Avif] {
            let gray = r#"[{"op":"grayscale"}]"#;
            let needed = memory_of_files(gray, Some(format), large);
            assert!(needed <= TENANT, "{format:?}: {needed}");
        }
    }

    #[test]
    fn the_encoder_counts() {
        let enlarged = r#"[{"op":"resize","width":2000,"height":2000}]"#;
        let needed = |format| memory_of_files(enlarged, Some(format), (10, 10));
        assert!(needed(ProcessedFormat::Jpeg) <= 7 * 4_000_000);
        assert!(needed(ProcessedFormat::Webp) >= (6 + 11) * 4_000_000);
        assert!(needed(ProcessedFormat::Avif) >= (6 + 71) * 4_000_000);
    }

    #[test]
    fn floats_and_faces_count() {
        let floats = r#"[{"op":"resize","width":2000,"height":2000},{"op":"normalize"}]"#;
        assert!(memory(floats, (10, 10)) >= 27 * 4_000_000);
        let faces = r#"[{"op":"crop","faces":true},{"op":"resize","width":112,"height":112}]"#;
        assert!(memory(faces, (100, 100)) >= 2 * 3 * CUT_PIXELS);
    }
}
