//! The operation of a batch: its options, its plan, and the models that decide its results.

mod defaults;
mod search;

use facescan_inference::device_task::DeviceTask;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::{
    admission::Priority,
    config::{Config, DecodeMode},
    pipeline::{
        Pipeline,
        embed_image::{EmbedKind, ImageEmbeddingPlan},
        enhance::{EnhancePlan, EnhanceRequest},
        error::PipelineError,
        fan_out::ImageOperation,
        options::{RequestOptions, ScanKind, ScanPlan, ScanRequest, from_tree},
        process::{ProcessPlan, ProcessRequest},
        stored::to_value,
    },
};

pub use search::BatchSearchPlan;

/// The version of results without a scan. Increase it when the same bytes, models and options can have another result.
const RESULT_VERSION: u32 = 1;

/// The operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BatchOperation {
    /// Find faces.
    Detect,
    /// Find faces and compute the vector of each, or the vector of each whole image.
    Embed,
    /// Find faces and measure the quality of the faces and of the image.
    Quality,
    /// Enhance images.
    Enhance,
    /// Apply a list of operations to images.
    Process,
    /// Search for a face of each image in a collection.
    Search,
}

impl BatchOperation {
    /// Every operation.
    pub const ALL: [Self; 6] = [
        Self::Detect,
        Self::Embed,
        Self::Quality,
        Self::Enhance,
        Self::Process,
        Self::Search,
    ];

    /// Returns the name in requests and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Detect => "detect",
            Self::Embed => "embed",
            Self::Quality => "quality",
            Self::Enhance => "enhance",
            Self::Process => "process",
            Self::Search => "search",
        }
    }

    /// Returns the operation with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
    }
}

/// The plan that runs on each image of a batch.
#[derive(Clone, Debug)]
pub enum BatchPlan {
    /// Find faces, and run operations on each.
    Scan(Box<ScanPlan>),
    /// Embed whole images.
    ImageEmbedding(Box<ImageEmbeddingPlan>),
    /// Enhance images.
    Enhance(Box<EnhancePlan>),
    /// Apply a list of operations.
    Process(Box<ProcessPlan>),
    /// Search for faces in a collection.
    Search(Box<BatchSearchPlan>),
}

/// The options of a batch, with every default filled in.
#[derive(Clone, Debug)]
pub struct ResolvedOptions {
    /// The plan of one image.
    pub plan: BatchPlan,
    /// The options as an object. Another configuration resolves them to the same plan.
    pub options: Value,
    /// The priority that the options name.
    pub priority: Option<Priority>,
}

impl BatchPlan {
    /// Fills in the defaults of `options` and checks them.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] with the name of the option, or [`PipelineError::NoModel`] if the settings name no
    /// model for the operation.
    pub fn resolve(
        operation: BatchOperation,
        options: Value,
        config: &Config,
        pipeline: &Pipeline,
    ) -> Result<ResolvedOptions, PipelineError> {
        let thresholds = &pipeline.models.detector.spec.thresholds;
        let resolved = match operation {
            BatchOperation::Detect => Self::scan(ScanKind::Detect, options, config, pipeline)?,
            BatchOperation::Quality => Self::scan(ScanKind::Quality, options, config, pipeline)?,
            BatchOperation::Embed => Self::scan(ScanKind::Embed, options, config, pipeline)?,
            BatchOperation::Enhance => {
                let request: EnhanceRequest = from_tree(&options)?;
                let plan = request.clone().resolve(config, thresholds)?;
                ResolvedOptions {
                    priority: request.priority(),
                    options: to_value(&defaults::enhance(request, &plan, config, thresholds)?)?,
                    plan: Self::Enhance(Box::new(plan)),
                }
            }
            BatchOperation::Process => {
                let request: ProcessRequest = from_tree(&options)?;
                let plan = request.clone().resolve(config, thresholds, 0)?;
                ResolvedOptions {
                    priority: request.priority(),
                    options: to_value(&defaults::process(request, &plan))?,
                    plan: Self::Process(Box::new(plan)),
                }
            }
            BatchOperation::Search => {
                let (plan, options) = BatchSearchPlan::resolve(options, config, thresholds)?;
                ResolvedOptions {
                    priority: None,
                    options,
                    plan: Self::Search(Box::new(plan)),
                }
            }
        };
        resolved.plan.check(pipeline)?;
        Ok(resolved)
    }

    /// Resolves the options of a batch as the database has them.
    ///
    /// # Errors
    /// [`PipelineError::UnexpectedOutput`] if this version has no such operation, or an error of [`Self::resolve`].
    pub fn of_stored(
        operation: &str,
        options: &Value,
        config: &Config,
        pipeline: &Pipeline,
    ) -> Result<Self, PipelineError> {
        let operation = BatchOperation::of_name(operation).ok_or_else(|| {
            PipelineError::UnexpectedOutput(format!("the batch has the operation {operation}"))
        })?;
        Ok(Self::resolve(operation, options.clone(), config, pipeline)?.plan)
    }

    fn scan(
        kind: ScanKind,
        options: Value,
        config: &Config,
        pipeline: &Pipeline,
    ) -> Result<ResolvedOptions, PipelineError> {
        let mut request: ScanRequest = from_tree(&options)?;
        for (option, value) in [("crops", request.crops), ("timings", request.timings)] {
            if value == Some(true) {
                return Err(PipelineError::invalid_option(
                    option,
                    "is not stored, so a batch cannot return it; leave it out",
                ));
            }
        }
        if request.store == Some(false) {
            return Err(PipelineError::invalid_option(
                "store",
                "the results of a batch are always stored; leave it out",
            ));
        }
        request.store = Some(true);
        let priority = request.priority();
        if kind == ScanKind::Embed && request.kind == Some(EmbedKind::Image) {
            let plan = ImageEmbeddingPlan::resolve(request.clone(), config)?;
            return Ok(ResolvedOptions {
                priority,
                options: to_value(&defaults::embed_image(request, &plan))?,
                plan: Self::ImageEmbedding(Box::new(plan)),
            });
        }
        let thresholds = &pipeline.models.detector.spec.thresholds;
        let plan = request.clone().resolve(kind, config, thresholds)?;
        Ok(ResolvedOptions {
            priority,
            options: to_value(&defaults::scan(request, &plan))?,
            plan: Self::Scan(Box::new(plan)),
        })
    }

    fn check(&self, pipeline: &Pipeline) -> Result<(), PipelineError> {
        match self {
            Self::Scan(plan) => plan.check(pipeline),
            Self::ImageEmbedding(plan) => plan.check(pipeline),
            Self::Enhance(plan) => plan.check(pipeline),
            Self::Process(plan) => plan.check(pipeline),
            Self::Search(plan) => plan.image.scan.check(pipeline),
        }
    }

    /// Returns whether the results are scans.
    pub fn has_scans(&self) -> bool {
        matches!(self, Self::Scan(_) | Self::ImageEmbedding(_))
    }

    /// Returns the operations that take part.
    pub fn operations(&self) -> Vec<DeviceTask> {
        match self {
            Self::Scan(plan) => plan.operations(),
            Self::ImageEmbedding(plan) => plan.operations(),
            Self::Enhance(plan) => plan.operations(),
            Self::Process(plan) => plan.operations(),
            Self::Search(plan) => plan.image.scan.operations(),
        }
    }

    /// Returns how much of a JPEG is decoded.
    fn decode(&self) -> DecodeMode {
        match self {
            Self::Scan(plan) => plan.decode,
            Self::Search(plan) => plan.image.scan.decode,
            Self::ImageEmbedding(_) | Self::Enhance(_) | Self::Process(_) => DecodeMode::Full,
        }
    }

    /// Returns the key of the models and settings that decide the results, besides the options.
    pub fn models_key(&self, config: &Config, pipeline: &Pipeline) -> [u8; 32] {
        ModelsKey::of_plan(self).digest(self.decode(), config, pipeline)
    }
}

/// The sets of models that batches need. A worker processes the batches whose set it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelsKey {
    /// Operations that find faces.
    Faces,
    /// Operations that find faces and embed them.
    Embeddings,
    /// Operations that embed whole images.
    Images,
}

impl ModelsKey {
    const ALL: [Self; 3] = [Self::Faces, Self::Embeddings, Self::Images];

    fn of_plan(plan: &BatchPlan) -> Self {
        match plan {
            BatchPlan::Scan(plan) if plan.kind == ScanKind::Embed => Self::Embeddings,
            BatchPlan::Scan(_) | BatchPlan::Process(_) => Self::Faces,
            BatchPlan::Enhance(_) | BatchPlan::Search(_) => Self::Embeddings,
            BatchPlan::ImageEmbedding(_) => Self::Images,
        }
    }

    fn operations(self) -> &'static [DeviceTask] {
        match self {
            Self::Faces => &[DeviceTask::FaceDetection],
            Self::Embeddings => &[DeviceTask::FaceDetection, DeviceTask::FaceEmbedding],
            Self::Images => &[DeviceTask::ImageEmbedding],
        }
    }

    fn digest(self, decode: DecodeMode, config: &Config, pipeline: &Pipeline) -> [u8; 32] {
        let models: Map<String, Value> = self
            .operations()
            .iter()
            // Without the precision: it depends on the device, and each result has its own.
            .map(|&operation| {
                (
                    operation.name().into(),
                    pipeline.models.key(operation, None),
                )
            })
            .collect();
        let key = json!({
            "version": RESULT_VERSION,
            "models": models,
            "background": pipeline.decoding.background,
            "identity_threshold": config.enhancement.identity_threshold,
            "decode": decode,
        });
        Sha256::digest(key.to_string()).into()
    }
}

/// Returns the keys of the models that this process has, and of the ways in which it can decode.
pub fn models_keys(config: &Config, pipeline: &Pipeline) -> Vec<[u8; 32]> {
    let modes: &[DecodeMode] = match pipeline.turbojpeg {
        Some(_) => &[DecodeMode::Full, DecodeMode::Fast],
        None => &[DecodeMode::Full],
    };
    let keys = ModelsKey::ALL.into_iter();
    keys.filter(|key| pipeline.models.check(key.operations()).is_ok())
        .flat_map(|key| modes.iter().map(move |&mode| (key, mode)))
        .map(|(key, mode)| key.digest(mode, config, pipeline))
        .collect()
}
