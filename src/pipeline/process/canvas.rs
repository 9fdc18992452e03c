//! The pictures of one request on their way through the operations.

use std::sync::Arc;

use image::RgbImage;

use super::{ProcessPlan, ProcessResult, ProcessedFormat, ProcessedPicture, Step, StepReport};
use crate::{
    pipeline::error::PipelineError,
    pipeline::{
        Pipeline, PooledImage,
        answer::ImageInfo,
        detect::{DetectedFace, Pixels},
        options::DetectOptions,
    },
};
use facescan_imaging::{
    blur::Gaussian,
    crop::{self, Region, mask_crop, padded},
    encode::encode,
    luma, npy, orientation,
    preprocess::{Layout, Preprocess, Profile},
};
use facescan_inference::operation::Operation;

/// The pictures so far, and what was done.
pub(super) struct Canvas<'a> {
    pipeline: &'a Pipeline,
    plan: &'a ProcessPlan,
    info: ImageInfo,
    pictures: Vec<Piece>,
    floats: Option<Floats>,
    steps: Vec<StepReport>,
}

/// A picture, and what it was cut out of the one before.
struct Piece {
    pixels: RgbImage,
    region: Option<[u32; 4]>,
}

/// How samples become floats at the end.
struct Floats {
    mean: [f32; 3],
    std: [f32; 3],
    layout: Layout,
}

/// The whole pixels that a face's box touches, with a margin as a share of its sides.
pub(super) fn around(face: &DetectedFace, size: (u32, u32), margin: f32) -> Region {
    let inside = face.bbox.clipped(size.0, size.1);
    let region = Region {
        x1: inside.x1.floor() as u32,
        y1: inside.y1.floor() as u32,
        x2: inside.x2.ceil() as u32,
        y2: inside.y2.ceil() as u32,
    };
    padded(size, region, margin)
}

/// The same of all faces. Those that together have many times the picture's area become the one region around them: low
/// thresholds find thousands of faces in the same place, each of which would be worked on.
pub(super) fn around_all(faces: &[DetectedFace], size: (u32, u32), margin: f32) -> Vec<Region> {
    const MOST_PICTURES: u64 = 4;
    let area = |region: &Region| u64::from(region.width()) * u64::from(region.height());
    let regions: Vec<Region> = faces
        .iter()
        .map(|face| around(face, size, margin))
        .collect();
    let sum: u64 = regions.iter().map(area).sum();
    if sum <= MOST_PICTURES * area(&Region::full(size)) {
        return regions;
    }
    regions
        .into_iter()
        .reduce(Region::union)
        .into_iter()
        .collect()
}

impl<'a> Canvas<'a> {
    pub fn new(
        pipeline: &'a Pipeline,
        plan: &'a ProcessPlan,
        held: &PooledImage,
        info: ImageInfo,
    ) -> Self {
        Self {
            pipeline,
            plan,
            info,
            pictures: vec![Piece {
                pixels: RgbImage::clone(held),
                region: None,
            }],
            floats: None,
            steps: Vec::new(),
        }
    }

    /// Does one operation on every picture.
    pub async fn take(&mut self, step: &Step) -> Result<(), PipelineError> {
        let mut report = StepReport {
            op: step.name(),
            ..StepReport::default()
        };
        match step {
            Step::MaskCrop {
                padding_ratio,
                min_size,
                max_aspect,
            } => {
                let options = Step::mask_options(*padding_ratio, *min_size, *max_aspect);
                self.cut_by_masks(&options, &mut report)?;
            }
            Step::Crop {
                r#box: Some(sides),
                margin,
                ..
            } => {
                self.each(|piece| {
                    let size = piece.pixels.dimensions();
                    let region = Region::from(*sides).clipped(size);
                    if region.is_empty() {
                        return Err(outside("crop", size));
                    }
                    piece.cut(padded(size, region, *margin));
                    Ok(())
                })?;
            }
            Step::Crop { margin, .. } => self.cut_faces(*margin, &mut report).await?,
            Step::Resize {
                profile, antialias, ..
            } => {
                // Told otherwise, it is no library's resize any more.
                report.profile = antialias.is_none().then_some(*profile);
                self.resize(step).await?;
            }
            Step::GaussianBlur {
                kernel,
                sigma,
                region,
                faces,
            } => {
                let gaussian = Gaussian::new(*kernel, *sigma)
                    .ok_or_else(|| PipelineError::invalid_option("operations", "gaussian_blur"))?;
                let mut found = 0;
                for piece in &mut self.pictures {
                    let size = piece.pixels.dimensions();
                    let regions = match (region, faces) {
                        (_, true) => {
                            let faces = faces_of(self.pipeline, self.plan, piece).await?;
                            found += faces.len();
                            around_all(&faces, size, 0.0)
                        }
                        (Some(sides), _) => vec![Region::from(*sides).clipped(size)],
                        (None, _) => vec![Region::full(size)],
                    };
                    for region in regions {
                        let strict = self.plan.strict_device;
                        let pixels = &mut piece.pixels;
                        self.pipeline
                            .blur(pixels, region, &gaussian, strict)
                            .await?;
                        tokio::task::yield_now().await;
                    }
                }
                report.faces = faces.then_some(found);
            }
            Step::Normalize { mean, std, layout } => {
                let usual = Preprocess::default();
                self.floats = Some(Floats {
                    mean: mean.unwrap_or(usual.mean),
                    std: std.unwrap_or(usual.std),
                    layout: *layout,
                });
            }
            Step::Rotate {
                degrees,
                background,
            } => self.each(|piece| {
                piece.pixels = orientation::rotate(&piece.pixels, *degrees, *background);
                Ok(())
            })?,
            Step::Flip { axis } => self.each(|piece| {
                piece.pixels = orientation::flip(&piece.pixels, *axis);
                Ok(())
            })?,
            Step::Grayscale {} => self.each(|piece| {
                piece.pixels = luma::grayscale(&piece.pixels);
                Ok(())
            })?,
            Step::Anonymize {
                method,
                margin,
                colour,
            } => {
                let hiding = super::anonymize::Hiding {
                    method: *method,
                    margin: *margin,
                    colour: *colour,
                };
                let (mut faces, mut searches) = (0, 0);
                for piece in &mut self.pictures {
                    let pixels = std::mem::take(&mut piece.pixels);
                    let hidden = self.pipeline.hide_faces(pixels, &hiding, self.plan).await?;
                    piece.pixels = hidden.pixels;
                    faces += hidden.faces;
                    searches = searches.max(hidden.searches);
                }
                report.faces = Some(faces);
                report.searches = Some(searches);
            }
        }
        self.steps.push(report);
        // Between two operations, so that a caller that has left is noticed.
        tokio::task::yield_now().await;
        Ok(())
    }

    fn each(
        &mut self,
        change: impl FnMut(&mut Piece) -> Result<(), PipelineError>,
    ) -> Result<(), PipelineError> {
        self.pictures.iter_mut().try_for_each(change)
    }

    fn cut_by_masks(
        &mut self,
        options: &crop::MaskCropOptions,
        report: &mut StepReport,
    ) -> Result<(), PipelineError> {
        let Some(mask) = self.plan.mask else {
            return Ok(());
        };
        let Some(tight) = mask.region else {
            report.empty = Some(true);
            return Ok(());
        };
        let found = mask_crop(mask.size, tight, options);
        self.each(|piece| {
            let size = piece.pixels.dimensions();
            if size != mask.size {
                let ((w, h), (mask_w, mask_h)) = (size, mask.size);
                return Err(PipelineError::invalid_option(
                    "mask",
                    format!("the masks are {mask_w}×{mask_h}, and the picture is {w}×{h}"),
                ));
            }
            piece.cut(found.region);
            Ok(())
        })?;
        report.unmet = Some(found.unmet);
        report.padding_clipped = Some(found.padding_clipped);
        Ok(())
    }

    async fn cut_faces(
        &mut self,
        margin: f32,
        report: &mut StepReport,
    ) -> Result<(), PipelineError> {
        let mut cut = Vec::new();
        let mut pixels = 0;
        for piece in &mut self.pictures {
            for face in faces_of(self.pipeline, self.plan, piece).await? {
                let region = around(&face, piece.pixels.dimensions(), margin);
                pixels += u64::from(region.width()) * u64::from(region.height());
                self.plan.check_pixels(pixels)?;
                cut.push(Piece {
                    pixels: crop::crop(&piece.pixels, region),
                    region: Some(region.into()),
                });
            }
        }
        report.faces = Some(cut.len());
        self.pictures = cut;
        Ok(())
    }

    async fn resize(&mut self, step: &Step) -> Result<(), PipelineError> {
        let Step::Resize {
            width,
            height,
            profile,
            mode,
            antialias,
            bounded,
            pad,
        } = *step
        else {
            return Ok(());
        };
        let mut pixels = 0;
        let plan = self.plan;
        for piece in &mut self.pictures {
            let size = piece.pixels.dimensions();
            let (width, height) = match (width, height) {
                _ if bounded => crop::bounded_size(size, &super::step::bounds()),
                (Some(width), Some(height)) => (width, height),
                (Some(width), None) => (width, follow(size.1, size.0, width)),
                (None, Some(height)) => (follow(size.0, size.1, height), height),
                (None, None) => size,
            };
            let fitting = Preprocess {
                width,
                height,
                // What is rounded to a picture is Pillow's, whose filter the others have too.
                profile: match antialias.unwrap_or(profile != Profile::Opencv) {
                    true => Profile::Pil,
                    false => Profile::Opencv,
                },
                mode,
                pad,
                ..Preprocess::default()
            };
            // A long, thin picture is scaled to far more than what is kept of it.
            let placed = fitting.placement(size);
            let area = |(width, height): (u32, u32)| u64::from(width) * u64::from(height);
            plan.check_pixels(area(placed.scaled))?;
            pixels += area(placed.output);
            plan.check_pixels(pixels)?;
            let pixels = &mut piece.pixels;
            self.pipeline
                .fit(pixels, &fitting, plan.strict_device)
                .await?;
        }
        Ok(())
    }

    /// The result, encoded.
    pub fn finish(self) -> Result<ProcessResult, PipelineError> {
        let (plan, floats) = (self.plan, self.floats);
        let processed = self.pictures.into_iter().map(|piece| {
            let (width, height) = piece.pixels.dimensions();
            let samples = 3 * u64::from(width) * u64::from(height);
            // As they are, and once more as they are answered.
            let size = if floats.is_some() { 8 } else { 2 };
            let surcharge = match plan.format {
                ProcessedFormat::Npy => 0,
                _ => plan.output.surcharge(),
            };
            plan.budget.take(samples * size + samples / 3 * surcharge)?;
            let data = match (plan.format, &floats) {
                (ProcessedFormat::Npy, Some(floats)) => floats.npy(&piece.pixels),
                (ProcessedFormat::Npy, None) => {
                    let shape = [height as usize, width as usize, 3];
                    let mut file = npy::header(npy::Kind::U8, &shape);
                    file.extend_from_slice(piece.pixels.as_raw());
                    file
                }
                _ => encode(&piece.pixels, plan.output)?,
            };
            Ok(ProcessedPicture {
                format: plan.format,
                width,
                height,
                region: piece.region,
                data: data.into(),
            })
        });
        Ok(ProcessResult {
            image: self.info,
            processed: processed.collect::<Result<_, PipelineError>>()?,
            steps: self.steps,
            timings_ms: None,
        })
    }
}

/// The side that keeps the aspect when `with` becomes `to`.
fn follow(side: u32, with: u32, to: u32) -> u32 {
    let scaled = f64::from(side) * f64::from(to) / f64::from(with.max(1));
    (scaled.round() as u32).max(1)
}

fn outside(step: &str, (width, height): (u32, u32)) -> PipelineError {
    PipelineError::invalid_option(
        "operations",
        format!("{step}: the box lies outside of the picture, which is {width}×{height}"),
    )
}

impl Piece {
    fn cut(&mut self, region: Region) {
        self.pixels = crop::crop(&self.pixels, region);
        self.region = Some(region.into());
    }
}

impl Floats {
    fn npy(&self, picture: &RgbImage) -> Vec<u8> {
        let (width, height) = picture.dimensions();
        let preprocess = Preprocess {
            width,
            height,
            mean: self.mean,
            std: self.std,
            layout: self.layout,
            ..Preprocess::default()
        };
        let (w, h) = (width as usize, height as usize);
        let mut row = vec![0.0; 3 * w * h];
        preprocess.write(picture, &mut row);
        let shape = match self.layout {
            Layout::Nchw => [3, h, w],
            Layout::Nhwc => [h, w, 3],
        };
        let mut file = npy::header(npy::Kind::F32, &shape);
        file.extend(row.iter().flat_map(|value| value.to_le_bytes()));
        file
    }
}

/// A picture that work was done on. The thread of a device may hold on to it when it hangs.
pub(super) fn owned(picture: Arc<RgbImage>) -> RgbImage {
    Arc::try_unwrap(picture).unwrap_or_else(|picture| RgbImage::clone(&picture))
}

/// The faces of a picture, largest first.
async fn faces_of(
    pipeline: &Pipeline,
    plan: &ProcessPlan,
    piece: &mut Piece,
) -> Result<Vec<DetectedFace>, PipelineError> {
    let pixels = Arc::new(std::mem::take(&mut piece.pixels));
    let faces = pipeline.faces_in(&pixels, plan, &plan.detect).await;
    piece.pixels = owned(pixels);
    faces
}

impl Pipeline {
    /// The faces of a picture, as the plan asks for them.
    pub(super) async fn faces_in<P: Pixels>(
        &self,
        picture: &Arc<P>,
        plan: &ProcessPlan,
        detect: &DetectOptions,
    ) -> Result<Vec<DetectedFace>, PipelineError> {
        let submitted = self
            .detector
            .submit_through(&self.processing, picture, detect)
            .await;
        let strict = plan.strict_device;
        self.check_rows(strict, Operation::ImageProcessing, submitted.unprocessed)?;
        let detected = self.detector.finish(submitted).await?;
        self.check_rows(strict, Operation::FaceDetection, detected.fallback)?;
        let size = picture.as_ref().borrow().dimensions();
        self.detector.faces(&detected, size, detect)
    }
}

impl ProcessPlan {
    /// Bounds what one image becomes, in pixels.
    fn check_pixels(&self, pixels: u64) -> Result<(), PipelineError> {
        if pixels <= self.max_pixels {
            return Ok(());
        }
        Err(PipelineError::TooManyPixels {
            limit: self.max_pixels,
        })
    }
}
