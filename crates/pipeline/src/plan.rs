//! An operation with its options resolved, and how its results are stored.

use std::collections::BTreeMap;

use facescan_imaging::precision::NumericPrecision;
use facescan_inference::device_task::DeviceTask;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    Pipeline,
    core::{
        error::PipelineError,
        image_file::ContentHash,
        options::{DetectOptions, StorageOptions},
        run::{ImageRun, RunOptions},
        scan::Scan,
        work::Size,
    },
    ingest::intake::LoadedImage,
    operation::Operation,
};

/// A plan: an operation with its options resolved. It works on one image at a time.
///
/// A plan knows no database. It declares how its results are stored, and the runner looks them up and stores them.
pub trait Plan: Clone + Send + Sync + 'static {
    /// The result for one image.
    type Output: Send + 'static;

    /// Returns the operation.
    fn operation(&self) -> Operation;

    /// Returns the device tasks that take part.
    fn tasks(&self) -> Vec<DeviceTask>;

    /// Returns the options of the run.
    fn run_options(&self) -> RunOptions;

    /// Returns how the results are stored. `None` if they never are.
    fn stored(&self) -> Option<StoredAs<'_, Self::Output>> {
        None
    }

    /// Returns the options that decide the results, for the key of a stored result.
    fn key_options(&self) -> Value {
        Value::Null
    }

    /// Checks that the operation can run with these options. [`Runner::run_all`](super::runner::Runner::run_all) calls it.
    ///
    /// # Errors
    /// [`PipelineError::NoModel`] if the settings name no model for a task, or [`PipelineError::DeviceUnavailable`]
    /// if the options are strict about devices, and a task would run elsewhere.
    fn check(&self, pipeline: &Pipeline) -> Result<(), PipelineError> {
        let tasks = self.tasks();
        pipeline.models.check(&tasks)?;
        pipeline.check_strict(self.run_options().strict_device, &tasks)
    }

    /// Returns how images are searched for faces. `None` if they are not.
    fn detection(&self) -> Option<&DetectOptions> {
        None
    }

    /// Returns the memory that an image of a size needs, in bytes.
    fn memory(&self, size: Size) -> u64;

    /// Runs on one image, and drops its bytes and their reservation as soon as it needs them no more. The pool drives it,
    /// because everything between its waits is CPU work.
    fn run(
        &self,
        pipeline: &Pipeline,
        image: LoadedImage,
        run: &mut ImageRun,
    ) -> impl Future<Output = Result<Self::Output, PipelineError>> + Send;
}

/// How the results of a plan are stored and found again.
pub struct StoredAs<'a, T> {
    /// The name of the results in the database and in the key.
    pub name: &'static str,
    /// Whether results are stored and looked up, and their source.
    pub storage: &'a StorageOptions,
    /// Returns the scan of a result. The database stores scans.
    pub scan: fn(&mut T) -> &mut Scan,
    /// Makes a result of a stored scan.
    pub from_scan: fn(Scan) -> T,
}

impl<'a> StoredAs<'a, Scan> {
    /// Returns how scans are stored: as they are.
    pub fn of_scan(name: &'static str, storage: &'a StorageOptions) -> Self {
        Self {
            name,
            storage,
            scan: |scan| scan,
            from_scan: |scan| scan,
        }
    }
}

/// The version of the results. Increase it when the same bytes, models and options can have another result. Older
/// stored scans are then ignored.
const PIPELINE_VERSION: u32 = 1;

/// Returns a digest of everything that decides the content of a result, except the bytes of the image.
///
/// `name` is that of the results in the database, and `precision` is that of the vectors.
pub(crate) fn scan_key<P: Plan>(
    pipeline: &Pipeline,
    plan: &P,
    name: &str,
    precision: Option<NumericPrecision>,
) -> ContentHash {
    let tasks = plan.tasks().into_iter();
    let models: BTreeMap<_, _> = tasks
        .map(|task| (task.name(), pipeline.models.key(task, precision)))
        .collect();
    let mut key = json!({
        "version": PIPELINE_VERSION,
        "operation": name,
        "models": models,
        "background": pipeline.decoding.background,
    });
    key["options"] = plan.key_options();
    Sha256::digest(key.to_string()).into()
}
