//! The images that the operations of one request work on.

use std::sync::Arc;

use image::RgbImage;

use super::{
    anonymize::HideOptions,
    regions::{around, around_all, price_of_blur},
    request::ProcessPlan,
    result::{ProcessResult, ProcessedFile, ProcessedFormat, StepReport},
    step::Step,
};
use crate::{
    Pipeline,
    core::{
        error::PipelineError,
        image_file::{ImageInfo, PooledImage},
        run::ImageRun,
        work,
    },
    models::row_job::RowJob,
};
use facescan_imaging::{
    blur::Gaussian,
    checkpoint,
    crop::{self, Region, mask_crop, padded},
    luma, npy, orientation,
    preprocess::Preprocess,
};

/// The current images, and the reports of the operations so far.
pub(super) struct Canvas<'a> {
    pipeline: &'a Pipeline,
    plan: &'a ProcessPlan,
    info: ImageInfo,
    frames: Vec<Frame>,
    /// How samples are converted to floats at the end.
    floats: Option<Preprocess>,
    /// The most pixels after a resize.
    resized_limit: u64,
    steps: Vec<StepReport>,
    run: &'a mut ImageRun,
}

/// An image, and the region that the last cut took from the image before it.
struct Frame {
    pixels: RgbImage,
    region: Option<[u32; 4]>,
}

impl<'a> Canvas<'a> {
    pub(crate) fn new(
        pipeline: &'a Pipeline,
        plan: &'a ProcessPlan,
        image: &PooledImage,
        info: ImageInfo,
        run: &'a mut ImageRun,
    ) -> Self {
        Self {
            pipeline,
            plan,
            info,
            frames: vec![Frame {
                pixels: crop::copy(image),
                region: None,
            }],
            floats: None,
            resized_limit: plan.max_pixels,
            steps: Vec::new(),
            run,
        }
    }

    /// Applies one operation to every image.
    pub(crate) async fn apply(&mut self, step: &Step) -> Result<(), PipelineError> {
        let mut report = StepReport {
            op: step.name(),
            ..StepReport::default()
        };
        self.add_work(step)?;
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
            } => self.cut_box(*sides, *margin)?,
            Step::Crop { margin, .. } => self.cut_faces(*margin, &mut report).await?,
            Step::Resize {
                profile, antialias, ..
            } => {
                // With another antialiasing than the profile's, the result matches no library.
                report.profile = antialias.is_none().then_some(*profile);
                self.resize(step).await?;
            }
            Step::GaussianBlur { .. } => self.blur(step, &mut report).await?,
            Step::Normalize { mean, std, layout } => {
                let defaults = Preprocess::default();
                self.floats = Some(Preprocess {
                    mean: mean.unwrap_or(defaults.mean),
                    std: std.unwrap_or(defaults.std),
                    layout: *layout,
                    ..defaults
                });
            }
            Step::Rotate {
                degrees,
                background,
            } => self.map_pixels(|pixels| orientation::rotate(pixels, *degrees, *background)),
            Step::Flip { axis } => self.map_pixels(|pixels| orientation::flip(pixels, *axis)),
            Step::Grayscale {} => self.map_pixels(luma::grayscale),
            Step::Anonymize {
                method,
                margin,
                color,
            } => {
                let options = HideOptions {
                    method: *method,
                    margin: *margin,
                    color: *color,
                };
                self.hide_faces(&options, &mut report).await?;
            }
        }
        self.steps.push(report);
        Ok(())
    }

    fn add_work(&mut self, step: &Step) -> Result<(), PipelineError> {
        for frame in &self.frames {
            self.run.work.add(step.work(frame.pixels.dimensions()))?;
        }
        Ok(())
    }

    fn map_pixels(&mut self, change: impl Fn(&RgbImage) -> RgbImage) {
        for frame in &mut self.frames {
            frame.pixels = change(&frame.pixels);
        }
    }

    fn cut_box(&mut self, sides: [u32; 4], margin: f32) -> Result<(), PipelineError> {
        self.frames.iter_mut().try_for_each(|frame| {
            let size = frame.pixels.dimensions();
            let region = Region::from(sides).clipped(size);
            if region.is_empty() {
                let (width, height) = size;
                let detail =
                    format!("crop: the box is outside the image, which is {width}×{height}");
                return Err(PipelineError::invalid_option("operations", detail));
            }
            frame.cut(padded(size, region, margin));
            Ok(())
        })
    }

    async fn blur(&mut self, step: &Step, report: &mut StepReport) -> Result<(), PipelineError> {
        let Step::GaussianBlur {
            kernel,
            sigma,
            region,
            faces,
        } = step
        else {
            return Ok(());
        };
        let gaussian = Gaussian::new(*kernel | 1, *sigma)
            .ok_or_else(|| PipelineError::invalid_option("operations", "gaussian_blur"))?;
        let mut found = 0;
        for frame in &mut self.frames {
            let size = frame.pixels.dimensions();
            let regions = match (region, faces) {
                (_, true) => {
                    let faces = self
                        .pipeline
                        .faces_of(&mut frame.pixels, &self.plan.detect, self.run)
                        .await?;
                    found += faces.len();
                    around_all(&faces, size, 0.0)
                }
                (Some(sides), _) => vec![Region::from(*sides).clipped(size)],
                (None, _) => vec![Region::full(size)],
            };
            for region in regions {
                if *faces {
                    self.run.work.add(price_of_blur(region, &gaussian))?;
                }
                self.pipeline
                    .blur(&mut frame.pixels, region, &gaussian, self.run)
                    .await?;
            }
        }
        report.faces = faces.then_some(found);
        Ok(())
    }

    async fn hide_faces(
        &mut self,
        options: &HideOptions,
        report: &mut StepReport,
    ) -> Result<(), PipelineError> {
        let (mut faces, mut searches) = (0, 0);
        for frame in &mut self.frames {
            let (hidden, needed) = self
                .pipeline
                .hide_faces(&mut frame.pixels, options, self.plan, self.run)
                .await?;
            faces += hidden;
            searches = searches.max(needed);
        }
        report.faces = Some(faces);
        report.searches = Some(searches);
        Ok(())
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
        self.frames.iter_mut().try_for_each(|frame| {
            let size = frame.pixels.dimensions();
            if size != mask.size {
                let ((w, h), (mask_w, mask_h)) = (size, mask.size);
                return Err(PipelineError::invalid_option(
                    "mask",
                    format!("the masks are {mask_w}×{mask_h}, but the image is {w}×{h}"),
                ));
            }
            frame.cut(found.region);
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
        let whole = self
            .frames
            .iter()
            .map(|frame| work::pixels(frame.pixels.dimensions()));
        let limit = self.plan.cut_pixels(whole.sum());
        let mut cut = Vec::new();
        let mut pixels = 0;
        for frame in &mut self.frames {
            let faces = self
                .pipeline
                .faces_of(&mut frame.pixels, &self.plan.detect, self.run)
                .await?;
            for face in faces {
                let region = around(&face, frame.pixels.dimensions(), margin);
                let area = work::pixels((region.width(), region.height()));
                pixels += area;
                check_pixels(pixels, limit)?;
                self.run.work.add(work::PLAIN * area)?;
                cut.push(Frame {
                    pixels: crop::crop(&frame.pixels, region),
                    region: Some(region.into()),
                });
            }
        }
        report.faces = Some(cut.len());
        self.frames = cut;
        self.resized_limit = self.plan.cut_pixels(0);
        Ok(())
    }

    async fn resize(&mut self, step: &Step) -> Result<(), PipelineError> {
        let mut pixels = 0;
        let limit = self.resized_limit;
        for frame in &mut self.frames {
            let size = frame.pixels.dimensions();
            let Some(fitting) = step.fitting(size) else {
                continue;
            };
            // A long, thin image is scaled to many more pixels than the output has.
            let placed = fitting.placement(size);
            check_pixels(work::pixels(placed.scaled), limit)?;
            pixels += work::pixels(placed.output);
            check_pixels(pixels, limit)?;
            let pixels = &mut frame.pixels;
            self.pipeline.fit(pixels, &fitting, self.run).await?;
        }
        Ok(())
    }

    /// Encodes the images and returns the result.
    pub(crate) async fn finish(self) -> Result<ProcessResult, PipelineError> {
        let (plan, floats) = (self.plan, self.floats);
        let mut processed = Vec::with_capacity(self.frames.len());
        for frame in self.frames {
            let (width, height) = frame.pixels.dimensions();
            self.run.work.add(plan.encoding((width, height)))?;
            let samples = 3 * u64::from(width) * u64::from(height);
            // Counts the samples before and after encoding.
            let size = if floats.is_some() { 8 } else { 2 };
            let surcharge = match plan.format {
                ProcessedFormat::Npy => 0,
                _ => plan.output().surcharge(),
            };
            plan.budget.take(samples * size + samples / 3 * surcharge)?;
            let data = match (plan.format, &floats) {
                (ProcessedFormat::Npy, Some(floats)) => float_file(frame.pixels, floats),
                (ProcessedFormat::Npy, None) => {
                    let shape = [height as usize, width as usize, 3];
                    let mut file = npy::header(npy::Kind::U8, &shape);
                    append(&mut file, frame.pixels.as_raw(), Vec::extend_from_slice);
                    file
                }
                _ => {
                    let pixels = Arc::new(frame.pixels);
                    self.pipeline.encode(&pixels, plan.output()).await?
                }
            };
            self.run.keep(data.len())?;
            processed.push(ProcessedFile {
                format: plan.format,
                width,
                height,
                region: frame.region,
                data: data.into(),
            });
        }
        Ok(ProcessResult {
            image: self.info,
            processed,
            steps: self.steps,
        })
    }
}

impl Frame {
    fn cut(&mut self, region: Region) {
        self.pixels = crop::crop(&self.pixels, region);
        self.region = Some(region.into());
    }
}

/// Returns the NumPy file of an image that is converted to floats.
fn float_file(pixels: RgbImage, floats: &Preprocess) -> Vec<u8> {
    let (width, height) = pixels.dimensions();
    let floats = Preprocess {
        width,
        height,
        ..floats.clone()
    };
    let job = RowJob::new(&Arc::new(pixels), &floats);
    let mut file = npy::header(npy::Kind::F32, &job.shape());
    append(&mut file, &job.fill(), |file, values| {
        file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    });
    file
}

/// Appends values to a file in parts, with a checkpoint after each.
fn append<T>(file: &mut Vec<u8>, values: &[T], write: impl Fn(&mut Vec<u8>, &[T])) {
    const PART: usize = 1 << 16;
    file.reserve(size_of_val(values));
    for part in values.chunks(PART) {
        write(file, part);
        checkpoint::passed(size_of_val(part));
    }
}

/// Checks the number of pixels that one image becomes.
fn check_pixels(pixels: u64, limit: u64) -> Result<(), PipelineError> {
    if pixels <= limit {
        return Ok(());
    }
    Err(PipelineError::TooManyPixels { limit })
}
