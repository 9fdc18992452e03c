//! Searches in a collection as the operation of a batch.

use facescan_config::{Config, DetectionRequest};
use facescan_fields::groups::read_options;
use facescan_inference::registry::Thresholds;
use facescan_pipeline::core::{error::PipelineError, json::to_value};
use facescan_recognition::{
    collections::search::{SearchPlan, SearchRequest},
    verify::VerifyPlan,
};
use serde_json::{Value, json};
use uuid::Uuid;

/// The option that names the collection. The others are those of a search.
const COLLECTION: &str = "collection";

/// A search for a face of each image.
#[derive(Clone, Debug)]
pub struct BatchSearchPlan {
    /// The collection.
    pub collection: Uuid,
    /// What is looked for.
    pub search: SearchPlan,
    /// How an image is scanned, and which of its faces is searched for.
    pub image: VerifyPlan,
}

impl BatchSearchPlan {
    /// Fills in the defaults and checks the ranges. Returns the options with every default, too.
    pub(super) fn resolve(
        mut options: Value,
        config: &Config,
        thresholds: &Thresholds,
    ) -> Result<(Self, Value), PipelineError> {
        let named = options.as_object_mut();
        let named = named.and_then(|options| options.shift_remove(COLLECTION));
        let collection: Uuid = named
            .and_then(|id| serde_json::from_value(id).ok())
            .ok_or_else(|| {
                PipelineError::invalid_option(COLLECTION, "must be the id of a collection")
            })?;
        let request: SearchRequest = read_options(&options)?;
        let (search, image) = request.clone().resolve()?;
        let image = image.resolve(config, thresholds)?;
        let detect = &image.scan.detect;
        let request = SearchRequest {
            detection: DetectionRequest {
                min_score: Some(detect.min_score),
                det_size: Some(detect.det_size),
                ..DetectionRequest::default()
            },
            ..request.with_defaults()
        };
        let mut options = to_value(&request)?;
        options[COLLECTION] = json!(collection);
        let plan = Self {
            collection,
            search,
            image,
        };
        Ok((plan, options))
    }

    /// Adds the false accept rate of the collection to options without a rate and without a threshold, because it can change
    /// before the images are processed.
    pub(crate) fn with_far(mut options: Value, far: f64) -> Value {
        if options["far"].is_null() && options["threshold"].is_null() {
            options["far"] = far.into();
        }
        options
    }
}
