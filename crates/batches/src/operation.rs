//! The operation of a batch: its options, its plan, and the models that decide its results.

mod defaults;
mod models_key;
mod search;

use facescan_config::{Config, DecodeMode};
use facescan_inference::{device_task::DeviceTask, registry::Thresholds};
use facescan_pipeline::{
    Pipeline,
    admission::Priority,
    core::{
        error::PipelineError,
        json::to_value,
        options::{RequestOptions, from_tree},
    },
    operations::{
        embed_image::ImageEmbeddingPlan,
        enhance::{plan::EnhancePlan, request::EnhanceRequest},
        process::{plan::ProcessPlan, request::ProcessRequest},
        scan::{
            kind::{EmbedKind, ScanKind},
            plan::ScanPlan,
            request::ScanRequest,
        },
    },
    plan::Plan,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use models_key::ModelsKey;

pub use models_key::models_keys;
pub use search::BatchSearchPlan;

/// Declares each operation of batches once. The enum, the list of all operations, their names, how their options are
/// resolved, and the sets of models that workers have follow from it.
///
/// `models` has the device tasks with the models that a plan of the operation can need. Each list is such a set.
macro_rules! batch_operations {
    ($(
        $(#[doc = $doc:literal])+
        $variant:ident = $name:literal { models: $([$($task:ident),+])or+, resolve: $resolve:expr }
    )+) => {
        /// The operation of a batch.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "lowercase")]
        pub enum BatchOperation {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl BatchOperation {
            /// Every operation.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the name in requests and in the database.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the sets of models that plans of the operation need, by the device tasks that run them.
            fn model_sets(self) -> &'static [&'static [DeviceTask]] {
                match self {
                    $(Self::$variant => &[$(&[$(DeviceTask::$task),+]),+],)+
                }
            }

            /// Fills in the defaults of options and checks them.
            fn resolve(self, asked: Asked<'_>) -> Result<ResolvedOptions, PipelineError> {
                match self {
                    $(Self::$variant => $resolve(asked),)+
                }
            }
        }
    };
}

batch_operations! {
    /// Find faces.
    Detect = "detect" {
        models: [FaceDetection],
        resolve: Asked::detect
    }
    /// Find faces and compute the vector of each, or the vector of each whole image.
    Embed = "embed" {
        models: [FaceDetection, FaceEmbedding] or [ImageEmbedding],
        resolve: Asked::embed
    }
    /// Find faces and measure the quality of the faces and of the image.
    Quality = "quality" {
        models: [FaceDetection],
        resolve: Asked::quality
    }
    /// Enhance images.
    Enhance = "enhance" {
        models: [FaceDetection, FaceEmbedding],
        resolve: Asked::enhance
    }
    /// Apply a list of operations to images.
    Process = "process" {
        models: [FaceDetection],
        resolve: Asked::process
    }
    /// Search for a face of each image in a collection.
    Search = "search" {
        models: [FaceDetection, FaceEmbedding],
        resolve: Asked::search
    }
}

impl BatchOperation {
    /// Returns the operation with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
    }
}

/// The options of a batch as they were sent, and what resolves them.
struct Asked<'a> {
    options: Value,
    config: &'a Config,
    pipeline: &'a Pipeline,
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

impl Asked<'_> {
    fn thresholds(&self) -> &Thresholds {
        &self.pipeline.models.detector.spec.thresholds
    }

    fn detect(self) -> Result<ResolvedOptions, PipelineError> {
        self.scan(ScanKind::Detect)
    }

    fn quality(self) -> Result<ResolvedOptions, PipelineError> {
        self.scan(ScanKind::Quality)
    }

    fn scan(self, kind: ScanKind) -> Result<ResolvedOptions, PipelineError> {
        let request = self.scan_request()?;
        let plan = request
            .clone()
            .resolve(kind, self.config, self.thresholds())?;
        Ok(ResolvedOptions {
            priority: request.priority(),
            options: to_value(&defaults::scan(request, &plan))?,
            plan: BatchPlan::Scan(Box::new(plan)),
        })
    }

    fn embed(self) -> Result<ResolvedOptions, PipelineError> {
        let request = self.scan_request()?;
        if request.kind != Some(EmbedKind::Image) {
            return self.scan(ScanKind::Embed);
        }
        let plan = ImageEmbeddingPlan::resolve(request.clone(), self.config)?;
        Ok(ResolvedOptions {
            priority: request.priority(),
            options: to_value(&defaults::embed_image(request, &plan))?,
            plan: BatchPlan::ImageEmbedding(Box::new(plan)),
        })
    }

    /// Reads the options of a scan. Its results are always stored.
    fn scan_request(&self) -> Result<ScanRequest, PipelineError> {
        let mut request: ScanRequest = from_tree(&self.options)?;
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
        Ok(request)
    }

    fn enhance(self) -> Result<ResolvedOptions, PipelineError> {
        let (config, thresholds) = (self.config, self.thresholds());
        let request: EnhanceRequest = from_tree(&self.options)?;
        let plan = request.clone().resolve(config, thresholds)?;
        Ok(ResolvedOptions {
            priority: request.priority(),
            options: to_value(&defaults::enhance(request, &plan, config, thresholds)?)?,
            plan: BatchPlan::Enhance(Box::new(plan)),
        })
    }

    fn process(self) -> Result<ResolvedOptions, PipelineError> {
        let request: ProcessRequest = from_tree(&self.options)?;
        let plan = request.clone().resolve(self.config, self.thresholds(), 0)?;
        Ok(ResolvedOptions {
            priority: request.priority(),
            options: to_value(&defaults::process(request, &plan))?,
            plan: BatchPlan::Process(Box::new(plan)),
        })
    }

    fn search(self) -> Result<ResolvedOptions, PipelineError> {
        let thresholds = &self.pipeline.models.detector.spec.thresholds;
        let (plan, options) = BatchSearchPlan::resolve(self.options, self.config, thresholds)?;
        Ok(ResolvedOptions {
            priority: None,
            options,
            plan: BatchPlan::Search(Box::new(plan)),
        })
    }
}

/// Evaluates an expression with the plan that runs on each image, whatever its type.
macro_rules! with_plan {
    ($batch:expr, $plan:ident => $value:expr) => {
        match $batch {
            $crate::operation::BatchPlan::Scan(plan) => {
                let $plan = plan.as_ref();
                $value
            }
            $crate::operation::BatchPlan::ImageEmbedding(plan) => {
                let $plan = plan.as_ref();
                $value
            }
            $crate::operation::BatchPlan::Enhance(plan) => {
                let $plan = plan.as_ref();
                $value
            }
            $crate::operation::BatchPlan::Process(plan) => {
                let $plan = plan.as_ref();
                $value
            }
            $crate::operation::BatchPlan::Search(plan) => {
                let $plan = &plan.image.scan;
                $value
            }
        }
    };
}
pub(super) use with_plan;

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
        let resolved = operation.resolve(Asked {
            options,
            config,
            pipeline,
        })?;
        with_plan!(&resolved.plan, plan => plan.check(pipeline))?;
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

    /// Returns whether the results are scans.
    pub(crate) fn has_scans(&self) -> bool {
        match self {
            Self::Scan(_) | Self::ImageEmbedding(_) => true,
            Self::Enhance(_) | Self::Process(_) | Self::Search(_) => false,
        }
    }

    /// Returns the device tasks that take part.
    pub fn tasks(&self) -> Vec<DeviceTask> {
        with_plan!(self, plan => plan.tasks())
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
        ModelsKey::for_tasks(&self.tasks()).digest(self.decode(), config, pipeline)
    }
}
