//! The operation of a batch: its options, its plan, and the models that decide its results.

mod models_key;
mod search;

use facescan_config::{Config, DecodeMode, scope::Scope};
use facescan_fields::groups::read_options;
use facescan_inference::{device_task::DeviceTask, registry::Thresholds};
use facescan_pipeline::{
    Pipeline,
    admission::Priority,
    core::{error::PipelineError, json::to_value},
    operation::{BatchOperation, ScanKind},
    operations::{
        embed_image::ImageEmbeddingPlan,
        enhance::request::{EnhancePlan, EnhanceRequest},
        process::request::{ProcessPlan, ProcessRequest},
        scan::request::{EmbedKind, ScanPlan, ScanRequest},
    },
    plan::Plan,
};
use serde::Serialize;
use serde_json::Value;

use models_key::ModelsKey;

pub use models_key::models_keys;
pub use search::BatchSearchPlan;

/// Returns whether a batch with this operation in the database searches a collection. An operation that this version does
/// not know might do so.
pub fn searches(operation: &str) -> bool {
    let known = BatchOperation::from_name(operation);
    known.is_none_or(|known| known.operation().scope() == Scope::Search)
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
    /// The priority that the request names. The options do not have it, because the batch does.
    pub priority: Option<Priority>,
}

impl ResolvedOptions {
    /// Creates the options of a batch from those of its request, which have their defaults.
    fn new(
        plan: BatchPlan,
        request: &impl Serialize,
        priority: Option<Priority>,
    ) -> Result<Self, PipelineError> {
        Ok(Self {
            plan,
            options: to_value(request)?,
            priority,
        })
    }
}

/// Resolves the options of a scan.
fn resolve_scan(
    kind: ScanKind,
    options: &Value,
    config: &Config,
    thresholds: &Thresholds,
) -> Result<ResolvedOptions, PipelineError> {
    let mut request = scan_request(options)?;
    let plan = match request.kind.unwrap_or_default() {
        EmbedKind::Image if kind.has_whole_images() => {
            let plan = ImageEmbeddingPlan::resolve(&mut request, config)?;
            BatchPlan::ImageEmbedding(Box::new(plan))
        }
        // Other scans refuse whole images.
        EmbedKind::Image | EmbedKind::Face => {
            let plan = request.resolve(kind, config, thresholds)?;
            BatchPlan::Scan(Box::new(plan))
        }
    };
    let priority = request.run.priority.take();
    ResolvedOptions::new(plan, &request, priority)
}

/// Reads the options of a scan. Its results are always stored.
fn scan_request(options: &Value) -> Result<ScanRequest, PipelineError> {
    let mut request: ScanRequest = read_options(options)?;
    for (option, value) in [("crops", request.crops), ("timings", request.run.timings)] {
        if value == Some(true) {
            return Err(PipelineError::invalid_option(
                option,
                "is not stored, so a batch cannot return it; leave it out",
            ));
        }
    }
    if request.storage.store == Some(false) {
        return Err(PipelineError::invalid_option(
            "store",
            "the results of a batch are always stored; leave it out",
        ));
    }
    request.storage.store = Some(true);
    Ok(request)
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
        let thresholds = &pipeline.models.detector.spec.thresholds;
        let resolved = match operation {
            BatchOperation::Scan(kind) => resolve_scan(kind, &options, config, thresholds)?,
            BatchOperation::Enhance => {
                let mut request: EnhanceRequest = read_options(&options)?;
                let plan = request.resolve(config, thresholds)?;
                let priority = request.run.priority.take();
                ResolvedOptions::new(Self::Enhance(Box::new(plan)), &request, priority)?
            }
            BatchOperation::Process => {
                let mut request: ProcessRequest = read_options(&options)?;
                let plan = request.resolve(config, thresholds, 0)?;
                let priority = request.run.priority.take();
                ResolvedOptions::new(Self::Process(Box::new(plan)), &request, priority)?
            }
            BatchOperation::Search => {
                let (plan, options) = BatchSearchPlan::resolve(options, config, thresholds)?;
                ResolvedOptions {
                    plan: Self::Search(Box::new(plan)),
                    options,
                    priority: None,
                }
            }
        };
        with_plan!(&resolved.plan, plan => plan.check(pipeline))?;
        Ok(resolved)
    }

    /// Resolves the options of a batch as the database has them.
    ///
    /// # Errors
    /// [`PipelineError::UnexpectedOutput`] if this version has no such operation, or an error of [`Self::resolve`].
    pub fn from_stored(
        operation: &str,
        options: &Value,
        config: &Config,
        pipeline: &Pipeline,
    ) -> Result<Self, PipelineError> {
        let operation = BatchOperation::from_name(operation).ok_or_else(|| {
            PipelineError::UnexpectedOutput(format!("the batch has the operation {operation}"))
        })?;
        Ok(Self::resolve(operation, options.clone(), config, pipeline)?.plan)
    }

    /// Returns whether the result of an item is also that of another item with the same bytes. A stored scan is found by its
    /// key, and a search is made again, because the collection has other faces by then.
    pub(crate) fn repeats_results(&self) -> bool {
        match self {
            Self::Enhance(_) | Self::Process(_) => true,
            Self::Scan(_) | Self::ImageEmbedding(_) | Self::Search(_) => false,
        }
    }

    /// Returns the plan of a search. `None` if the operation is another one.
    pub(crate) fn search(&self) -> Option<&BatchSearchPlan> {
        match self {
            Self::Search(plan) => Some(plan),
            Self::Scan(_) | Self::ImageEmbedding(_) | Self::Enhance(_) | Self::Process(_) => None,
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
