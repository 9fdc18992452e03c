//! The application: the parts that the server, the command line and the library share.

use std::sync::Arc;

use facescan_audit::{AuditLog, heads::HeadPublisher, refusals::RefusalLog};
use facescan_batches::Batches;
use facescan_config::Config;
use facescan_inference::registry::{ModelSpec, Registry};
use facescan_pipeline::{
    Pipeline,
    admission::Admission,
    context::{Principal, RequestContext, RequestId},
    runner::{Runner, model_file},
};
use facescan_recognition::{calibration::Calibrations, collections::Collections};
use facescan_store::{Model, Store, StoreError};
use facescan_telemetry::metrics::Metrics;

use crate::{
    access::{authenticator::Authenticator, rate_limit::RateLimits},
    erasure::{Erasures, retention::RetentionSweeper},
    lifecycle::Lifecycle,
};

pub use builder::{Parts, open_store};
pub use face_index::open as open_face_index;

use store_fault::StoreFault;

mod audit_heads;
mod builder;
mod face_index;
mod models;
mod pipeline;
pub mod store_fault;

/// A running application.
pub struct App {
    /// The effective settings.
    pub config: Config,
    /// The models in the registry.
    pub registry: Registry,
    /// Authenticates requests.
    pub access: Authenticator,
    /// Limits what a key and a tenant may send.
    pub rate_limits: RateLimits,
    /// Records who did what.
    pub audit: AuditLog,
    /// Records which requests were refused.
    pub refusals: Arc<RefusalLog>,
    /// Notes the heads of the audit trail elsewhere. `None` if the settings name no place.
    pub audit_heads: Option<Arc<HeadPublisher>>,
    /// Erases what is stored.
    pub erasures: Erasures,
    /// Deletes what has been kept long enough.
    pub retention: RetentionSweeper,
    /// The error rates of the embedders.
    pub calibrations: Arc<Calibrations>,
    /// Collections of enrolled faces.
    pub collections: Collections,
    /// The pipeline that processes images.
    pub pipeline: Pipeline,
    /// The database.
    pub store: Store,
    /// Durable batches.
    pub batches: Batches,
    /// Admits or refuses requests.
    pub admission: Admission,
    /// Loads images and runs operations on them.
    pub runner: Runner,
    /// The metrics.
    pub metrics: Metrics,
    /// The shutdown state.
    pub lifecycle: Lifecycle,
    /// The reason why the database is not usable, if an operator must repair it.
    pub store_fault: StoreFault,
}

impl App {
    /// Creates the context of one run of the command line or of one use as a library.
    pub fn run_context(&self) -> RequestContext {
        let id = RequestId::generate(self.pipeline.clock.as_ref());
        RequestContext::new(id, Principal::of_tenant(&self.config.store.tenant))
    }

    /// Creates the tables if the settings allow it, and records which models are in use from now on.
    ///
    /// # Errors
    /// Returns an error if the database is unavailable or its tables have another version.
    pub async fn prepare_store(&self) -> Result<(), StoreError> {
        let store = &self.store;
        if self.config.database.migrate_on_start {
            store.migrate().await?;
        }
        let specs = self.pipeline.models.specs();
        let models: Vec<Model> = specs.map(stored_model).collect::<Result<_, _>>()?;
        store
            .register_models(&models, self.pipeline.clock.now())
            .await
    }
}

fn stored_model(spec: &ModelSpec) -> Result<Model, StoreError> {
    let file = model_file(spec).map_err(|error| StoreError::Invalid(error.to_string()))?;
    Ok(Model {
        id: file.id,
        role: spec.role.to_string(),
        family: spec.family.to_string(),
        sha256: file.sha256,
        vector_space: spec.dim.map(|_| spec.vector_space()),
        dim: spec.dim.and_then(|dim| u32::try_from(dim).ok()),
    })
}
