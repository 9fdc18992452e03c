//! The key of the models that decide the results of a batch. A worker processes the batches whose key it has.

use facescan_config::{Config, DecodeMode};
use facescan_inference::device_task::{DeviceTask, Workload};
use facescan_pipeline::{Pipeline, operation::BatchOperation};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// The version of results without a scan. Increase it when the same bytes, models and options can have another result.
const RESULT_VERSION: u32 = 1;

/// A set of models that batches need, by the device tasks that run them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelsKey(Vec<DeviceTask>);

impl ModelsKey {
    /// Returns the smallest declared set that has the models of all `tasks`.
    ///
    /// If no operation declares such a set, this is the set of just these models. No worker has it, so the batch waits and
    /// is never processed with other models.
    pub(super) fn for_tasks(tasks: &[DeviceTask]) -> Self {
        let runs_model = |task: &DeviceTask| matches!(task.workload(), Workload::Model(_));
        let needed: Vec<_> = tasks.iter().copied().filter(runs_model).collect();
        let declared = Self::declared()
            .into_iter()
            .filter(|set| needed.iter().all(|task| set.contains(task)));
        Self(declared.min_by_key(Vec::len).unwrap_or(needed))
    }

    /// Returns the sets that the operations declare, each once.
    fn declared() -> Vec<Vec<DeviceTask>> {
        let mut sets = Vec::new();
        for set in BatchOperation::ALL
            .into_iter()
            .flat_map(BatchOperation::model_sets)
        {
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
        sets
    }

    pub(super) fn digest(
        &self,
        decode: DecodeMode,
        config: &Config,
        pipeline: &Pipeline,
    ) -> [u8; 32] {
        let models: Map<String, Value> = self
            .0
            .iter()
            // Without the precision: it depends on the device, and each result has its own.
            .map(|&task| (task.name().into(), pipeline.models.key(task, None)))
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
    let sets = ModelsKey::declared().into_iter();
    sets.filter(|set| pipeline.models.check(set).is_ok())
        .map(ModelsKey)
        .flat_map(|key| modes.iter().map(move |&mode| (key.clone(), mode)))
        .map(|(key, mode)| key.digest(mode, config, pipeline))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The query that claims a chunk compares with so many keys. It would ignore others.
    const CLAIMED_KEYS: usize = 8;

    fn key(tasks: &[DeviceTask]) -> Vec<DeviceTask> {
        ModelsKey::for_tasks(tasks).0
    }

    #[test]
    fn a_batch_has_the_key_of_the_models_of_its_plan() {
        use DeviceTask::{
            FaceDetection, FaceEmbedding, ImageEmbedding, ImageEnhancement, ImageProcessing,
            QualityChecks,
        };
        let faces = [FaceDetection];
        let vectors = [FaceDetection, FaceEmbedding];
        assert_eq!(key(&[ImageProcessing, FaceDetection]), faces);
        assert_eq!(key(&[ImageProcessing, FaceDetection, QualityChecks]), faces);
        assert_eq!(
            key(&[ImageProcessing, FaceDetection, FaceEmbedding]),
            vectors
        );
        assert_eq!(key(&[FaceEmbedding]), vectors, "aligned crops");
        assert_eq!(key(&[ImageEmbedding]), [ImageEmbedding]);
        assert_eq!(key(&[ImageEnhancement]), faces, "it needs no model");
    }

    #[test]
    fn models_that_no_operation_declares_have_a_key_of_their_own() {
        let undeclared = [DeviceTask::FaceDetection, DeviceTask::ImageEmbedding];
        assert_eq!(key(&undeclared), undeclared);
    }

    #[test]
    fn a_worker_has_no_more_keys_than_a_claim_compares_with() {
        assert!(2 * ModelsKey::declared().len() <= CLAIMED_KEYS);
    }
}
