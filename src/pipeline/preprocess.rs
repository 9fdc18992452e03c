//! Pictures made into rows of a tensor, ready for any model.

use std::sync::Arc;

use bytes::Bytes;
use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    admission::Priority,
    config::{Config, Dtype},
    context::RequestContext,
    pipeline::error::PipelineError,
    pipeline::{
        Pipeline, PooledImage,
        answer::{ImageInfo, Timings},
        budget::Budget,
        options::{HasPriority, schema},
        scan::{content_hash, image_info, millis},
    },
};
use facescan_clock::Clock;
use facescan_imaging::{
    decode::decode_within,
    npy,
    preprocess::{LONGEST_SIDE, Layout, Mode, Preprocess, Profile},
};
use facescan_inference::{device::Assignment, image_executor::ImageExecutor, operation::Operation};

pub(crate) use filling::Filling;

mod filling;

/// Options of `/preprocess`; what is absent has its default from the settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[schema(as = PreprocessOptions)]
#[into_params(parameter_in = Query)]
pub struct PreprocessRequest {
    /// Height of the output in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 8192)]
    pub height: Option<u32>,
    /// Width of the output in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 8192)]
    pub width: Option<u32>,
    /// Means of red, green and blue, in 0 to 1: a list, or its JSON.
    #[serde(
        default,
        deserialize_with = "three",
        skip_serializing_if = "Option::is_none"
    )]
    #[param(value_type = Option<String>, example = "[0.5,0.5,0.5]", pattern = "^\\[(0(\\.[0-9]{1,6})?|1)(,(0(\\.[0-9]{1,6})?|1)){2}\\]$")]
    #[schema(schema_with = schema::means)]
    pub mean: Option<[f32; 3]>,
    /// Standard deviations in the same units.
    #[serde(
        default,
        deserialize_with = "three",
        skip_serializing_if = "Option::is_none"
    )]
    #[param(value_type = Option<String>, example = "[0.5,0.5,0.5]", pattern = "^\\[(0|[1-9][0-9]{0,2})\\.[0-9]{0,5}[1-9](,(0|[1-9][0-9]{0,2})\\.[0-9]{0,5}[1-9]){2}\\]$")]
    #[schema(schema_with = schema::deviations)]
    pub std: Option<[f32; 3]>,
    /// Whether the channels come first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_format: Option<Layout>,
    /// Whose resize is matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// How a picture of another aspect is fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The type of the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
    /// Tensors are never stored: `false`, or absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    #[param(ignore)]
    pub store: Option<bool>,
    /// Which queue the images wait in; absent for bulk when there are many, interactive otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Fail when pictures would not be preprocessed on the platform that the settings ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_device: Option<bool>,
    /// Whether results carry `timings_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<bool>,
}

impl HasPriority for PreprocessRequest {
    fn priority(&self) -> Option<Priority> {
        self.priority
    }
}

/// The query string and the parts of a form carry a list as text.
fn three<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<[f32; 3]>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a list of three numbers")]
    enum Sent {
        Text(String),
        List([f32; 3]),
    }
    match Option::<Sent>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Sent::List(list)) => Ok(Some(list)),
        Some(Sent::Text(text)) => serde_json::from_str(&text)
            .map(Some)
            .map_err(serde::de::Error::custom),
    }
}

/// A request's options with every default filled in and every range checked.
#[derive(Clone, Debug)]
pub struct PreprocessPlan {
    /// What is done.
    pub preprocess: Preprocess,
    /// The type of the values.
    pub dtype: Dtype,
    /// Whether falling back to another platform is an error.
    pub strict_device: bool,
    /// Whether results carry timings.
    pub timings: bool,
    /// How large the answer may become.
    pub budget: Budget,
}

/// What preprocessing runs on, and what it took to get ready.
#[derive(Clone)]
pub struct Preprocessing {
    /// Where it is done.
    pub executor: ImageExecutor,
    /// What was asked for and what is in use.
    pub assignment: Arc<Assignment>,
    /// Milliseconds that the graphs took to be built and run for the first time; `None` on the CPU.
    pub warm_up_ms: Option<f64>,
}

impl Preprocessing {
    /// Builds and runs every graph on the device, where there is one.
    pub async fn warm_up(&mut self, clock: &dyn Clock) {
        if !self.executor.has_device() {
            return;
        }
        let began = clock.monotonic();
        for filling in Filling::of_every_graph() {
            self.executor.run(Arc::new(filling)).await;
        }
        self.warm_up_ms = Some(millis(clock.monotonic().saturating_sub(began)));
    }
}

/// A picture as one row of a tensor.
pub struct Row {
    /// The picture.
    pub image: ImageInfo,
    /// The row's shape: `[3, h, w]` or `[h, w, 3]`.
    pub shape: [usize; 3],
    /// Its values, little-endian.
    pub values: Vec<u8>,
    /// Milliseconds by stage.
    pub timings: Timings,
}

impl PreprocessRequest {
    /// Fills in the defaults and checks the ranges.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] naming the option.
    pub fn resolve(self, config: &Config) -> Result<PreprocessPlan, PipelineError> {
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
        for (option, side) in [("height", preprocess.height), ("width", preprocess.width)] {
            if !(1..=LONGEST_SIDE).contains(&side) {
                return Err(PipelineError::invalid_option(
                    option,
                    format!("must be from 1 to {LONGEST_SIDE}"),
                ));
            }
        }
        if !preprocess
            .mean
            .iter()
            .all(|mean| (0.0..=1.0).contains(mean))
        {
            return Err(PipelineError::invalid_option(
                "mean",
                "must be three numbers from 0 to 1",
            ));
        }
        if !preprocess
            .std
            .iter()
            .all(|std| *std > 0.0 && std.is_finite())
        {
            return Err(PipelineError::invalid_option(
                "std",
                "must be three numbers above 0",
            ));
        }
        if self.store == Some(true) {
            return Err(PipelineError::invalid_option(
                "store",
                "tensors are never stored; leave it out or send false",
            ));
        }
        Ok(PreprocessPlan {
            preprocess,
            dtype: self.dtype.unwrap_or(usual.dtype),
            strict_device: self.strict_device.unwrap_or(false),
            timings: self.timings.unwrap_or(false),
            budget: Budget::default(),
        })
    }
}

impl Dtype {
    /// Bytes of a value.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// The name in NumPy's files.
    pub fn npy(self) -> npy::Kind {
        match self {
            Self::F32 => npy::Kind::F32,
            Self::F16 => npy::Kind::F16,
            Self::Bf16 => npy::Kind::Bf16,
        }
    }

    /// Values as bytes, little-endian, rounded to the nearest.
    fn bytes(self, values: &[f32]) -> Vec<u8> {
        match self {
            Self::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Self::F16 => values
                .iter()
                .flat_map(|v| f16::from_f32(*v).to_le_bytes())
                .collect(),
            Self::Bf16 => values
                .iter()
                .flat_map(|v| bf16::from_f32(*v).to_le_bytes())
                .collect(),
        }
    }
}

impl Pipeline {
    /// Refuses a strict request when preprocessing does not run on the platform that the settings ask for.
    ///
    /// # Errors
    /// [`PipelineError::DeviceUnavailable`].
    pub fn check_platform(&self, strict: bool) -> Result<(), PipelineError> {
        let state = self.preprocessing.assignment.state();
        match state.reason {
            Some(reason) if strict => Err(PipelineError::DeviceUnavailable {
                operation: Operation::ImageProcessing.name(),
                requested: state.requested,
                reason,
            }),
            _ => Ok(()),
        }
    }

    /// Makes a row of one image.
    ///
    /// # Errors
    /// What is wrong with the image, or a fault of ours.
    pub async fn preprocess(
        &self,
        context: &RequestContext,
        bytes: Bytes,
        plan: &PreprocessPlan,
    ) -> Result<Row, PipelineError> {
        let plan = plan.clone();
        let work = move |pipeline: Self, mut timings| async move {
            let result = pipeline.preprocess_now(&bytes, &plan, &mut timings).await?;
            Ok((result, timings))
        };
        let (mut row, timings) = self.drive(context, work).await?;
        row.timings = timings;
        Ok(row)
    }

    async fn preprocess_now(
        &self,
        bytes: &[u8],
        plan: &PreprocessPlan,
        timings: &mut Timings,
    ) -> Result<Row, PipelineError> {
        let began = self.clock.monotonic();
        let picture = decode_within(bytes, &self.decoding, &self.memory)?;
        let image = image_info(&picture, content_hash(bytes));
        let held = PooledImage::new(picture.pixels, self);
        timings.decode = self.since(began);
        let (width, height) = plan.preprocess.output_size(held.dimensions());
        let values = 3 * u64::from(width) * u64::from(height);
        let size = (Dtype::F32.size() + plan.dtype.size()) as u64;
        plan.budget.take(values * size)?;
        let began = self.clock.monotonic();
        let filling = Arc::new(Filling::new(&held, &plan.preprocess));
        let shape = filling.shape();
        let values = if filling.has_graph() {
            let done = self.preprocessing.executor.run(filling).await;
            let operation = Operation::ImageProcessing;
            self.check_rows(plan.strict_device, operation, done.fallback)?;
            timings.queue += millis(done.queued);
            done.output
        } else {
            filling.fill()
        };
        let values = plan.dtype.bytes(&values);
        timings.process = self.since(began);
        Ok(Row {
            image,
            shape,
            values,
            timings: Timings::default(),
        })
    }
}
