//! Makes tensor rows from images, for any model.

use std::sync::Arc;

use bytes::Bytes;
use facescan_config::{Config, Dtype};
use facescan_fields::request_options;
use facescan_imaging::{
    checkpoint,
    preprocess::{Layout, Mode, Preprocess, Profile},
};
use facescan_inference::{device::DeviceRun, device_task::DeviceTask};
use half::{bf16, f16};

use crate::{
    Pipeline,
    admission::Priority,
    core::{
        error::PipelineError,
        image_file::ImageInfo,
        memory::{self, Budget},
        options::{RequestOptions, RunRequest, UnstoredRequest, schema},
        run::{ImageRun, RunOptions, millis},
        work::{self, Size},
    },
    ingest::intake::LoadedImage,
    models::{preprocessing::PREPROCESSING, row_job::RowJob},
    operation::Operation,
    plan::Plan,
};

request_options! {
    /// Options of `/preprocess`. The settings have the defaults.
    #[schema(as = PreprocessOptions)]
    pub struct PreprocessRequest {
        /// The height of the output, in pixels.
        #[schema(minimum = 1, maximum = 8192)]
        pub height: Option<u32>,
        /// The width of the output, in pixels.
        #[schema(minimum = 1, maximum = 8192)]
        pub width: Option<u32>,
        /// The means of red, green and blue, 0 to 1: a list, or its JSON.
        #[param(value_type = Option<String>)]
        #[schema(schema_with = schema::means)]
        pub mean: Option<[f32; 3]>,
        /// The standard deviations in the same units.
        #[param(value_type = Option<String>)]
        #[schema(schema_with = schema::deviations)]
        pub std: Option<[f32; 3]>,
        /// Whether the channels are the first dimension.
        pub data_format: Option<Layout>,
        /// The library whose resize is reproduced.
        pub profile: Option<Profile>,
        /// How to fit an image with another aspect ratio.
        pub mode: Option<Mode>,
        /// The data type of the values.
        pub dtype: Option<Dtype>,
    }
    with {
        unstored: UnstoredRequest,
        run: RunRequest,
    }
    hidden [store]
}

impl RequestOptions for PreprocessRequest {
    fn priority(&self) -> Option<Priority> {
        self.run.priority
    }
}

/// The options of a request, with every default filled in and every range checked.
#[derive(Clone, Debug)]
pub struct PreprocessPlan {
    /// The resize and the normalization.
    pub preprocess: Preprocess,
    /// The data type of the values.
    pub dtype: Dtype,
    /// The options of the run. A strict run fails on another platform too.
    pub run: RunOptions,
    /// The bytes that are left for the response.
    pub budget: Budget,
}

/// The tensor row of an image.
pub struct Row {
    /// The properties of the image.
    pub image: ImageInfo,
    /// The shape: `[3, h, w]` or `[h, w, 3]`.
    pub shape: [usize; 3],
    /// The values, little-endian.
    pub values: Bytes,
}

impl PreprocessRequest {
    /// Fills in the defaults. The options were read, or are [`checked`](facescan_fields::groups::checked).
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] with the name of the option.
    pub fn resolve(self, config: &Config) -> Result<PreprocessPlan, PipelineError> {
        self.unstored.check("tensors")?;
        let usual = &config.preprocess;
        let [height, width] = usual.image_size;
        let preprocess = Preprocess {
            height: self.height.unwrap_or(height),
            width: self.width.unwrap_or(width),
            profile: self.profile.unwrap_or(usual.profile),
            mode: self.mode.unwrap_or(usual.mode),
            layout: self.data_format.unwrap_or(usual.data_format),
            pad: usual.pad,
            mean: self.mean.unwrap_or(usual.mean),
            std: self.std.unwrap_or(usual.std),
        };
        Ok(PreprocessPlan {
            preprocess,
            dtype: self.dtype.unwrap_or(usual.dtype),
            run: self.run.resolve(),
            budget: Budget::default(),
        })
    }
}

/// Converts values to little-endian bytes. Rounds to the nearest value.
pub(crate) fn to_bytes(dtype: Dtype, values: Vec<f32>) -> Bytes {
    match dtype {
        // The values are little-endian in memory already, so they are not copied.
        Dtype::F32 if cfg!(target_endian = "little") => Bytes::from_owner(Floats(values)),
        Dtype::F32 => convert(&values, f32::to_le_bytes),
        Dtype::F16 => convert(&values, |value| f16::from_f32(value).to_le_bytes()),
        Dtype::Bf16 => convert(&values, |value| bf16::from_f32(value).to_le_bytes()),
    }
}

/// Converts values to bytes, with checkpoints.
fn convert<const N: usize>(values: &[f32], bytes: impl Fn(f32) -> [u8; N]) -> Bytes {
    const PART: usize = 1 << 16;
    let mut converted = Vec::with_capacity(values.len() * N);
    for part in values.chunks(PART) {
        converted.extend(part.iter().flat_map(|value| bytes(*value)));
        checkpoint::passed(2 * part.len());
    }
    converted.into()
}

/// Numbers that are read as their bytes.
struct Floats(Vec<f32>);

impl AsRef<[u8]> for Floats {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl Plan for PreprocessPlan {
    type Output = Row;

    fn operation(&self) -> Operation {
        Operation::Preprocess
    }

    fn tasks(&self) -> Vec<DeviceTask> {
        vec![DeviceTask::ImageProcessing]
    }

    fn run_options(&self) -> RunOptions {
        self.run
    }

    fn check(&self, pipeline: &Pipeline) -> Result<(), PipelineError> {
        pipeline.check_platform(self.run.strict_device)
    }

    fn memory(&self, size: Size) -> u64 {
        let row = work::pixels(self.preprocess.output_size(size));
        let value = (Dtype::F32.size() + self.dtype.size()) as u64;
        memory::decoding(size).max(
            memory::samples(work::pixels(size))
                + memory::result(memory::samples(row).saturating_mul(value)),
        )
    }

    async fn run(
        &self,
        pipeline: &Pipeline,
        file: LoadedImage,
        run: &mut ImageRun,
    ) -> Result<Row, PipelineError> {
        let price = |size| {
            let row = work::pixels(self.preprocess.output_size(size));
            work::pixels(size) * (work::DECODE + work::RESIZE_READ)
                + row.saturating_mul(work::RESIZE_WRITE + work::NORMALIZE)
        };
        run.work.limit().check_file(&file.bytes, price)?;
        let (image, pixels) = pipeline.open(file, run, price).await?;
        let (width, height) = self.preprocess.output_size(pixels.dimensions());
        let values = 3 * u64::from(width) * u64::from(height);
        let size = (Dtype::F32.size() + self.dtype.size()) as u64;
        self.budget.take(values * size)?;
        run.keep(values as usize * self.dtype.size())?;
        let began = pipeline.clock.monotonic();
        let job = Arc::new(RowJob::new(&pixels, &self.preprocess));
        let shape = job.shape();
        let assignment = &pipeline.preprocessing.assignment;
        let values = if job.has_graph() {
            let done = pipeline.preprocessing.executor.run(job).await;
            run.record(PREPROCESSING, assignment, done.run)?;
            run.timings.queue += millis(done.queued);
            done.output
        } else {
            run.record(PREPROCESSING, assignment, DeviceRun::CPU)?;
            job.fill()
        };
        let values = to_bytes(self.dtype, values);
        run.timings.process = pipeline.since(began);
        Ok(Row {
            image,
            shape,
            values,
        })
    }
}
