//! The whole configuration.

use std::path::PathBuf;

use facescan_inference::registry::Role;
use garde::Validate;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    access::{Access, AccessMode, RateLimits, is_loopback},
    batches::Batches,
    checks::{is_path, must},
    compute::{Batching, Cpu, Imaging, Models, Runtime},
    detection::Detection,
    devices::Devices,
    log::Log,
    masks::mask_url,
    openid::OpenId,
    options::{Embedding, Enhancement, Preprocess, Quality},
    recognition::{QdrantServer, Recognition},
    retention::{Audit, Retention},
    schema::{SETTINGS, pointer},
    server::{Admission, AdmittedImages, Limits, Metrics, Server},
    storage::{Database, Store, sqlite_url},
    traces::Traces,
    urls::Urls,
    webhooks::Webhooks,
};

const INTERACTIVE_PER_WORKER: usize = 8;
const BULK_PER_WORKER: usize = 64;

/// The whole configuration. `configs/config.yaml` documents every setting.
///
/// Neither `Debug` nor `Serialize` shows a secret.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
#[expect(missing_docs, reason = "configs/config.yaml describes every section")]
pub struct Config {
    #[garde(custom(must(is_path)))]
    pub data_dir: PathBuf,
    /// Whether `log.level` defaults to `debug`. [`Config::load`] has already applied this.
    #[garde(skip)]
    pub debug: bool,
    #[garde(dive)]
    pub server: Server,
    #[garde(dive)]
    pub access: Access,
    #[garde(dive)]
    pub openid: OpenId,
    #[garde(dive)]
    pub rate_limits: RateLimits,
    #[garde(skip)]
    pub metrics: Metrics,
    #[garde(dive)]
    pub log: Log,
    #[garde(dive)]
    pub traces: Traces,
    #[garde(dive)]
    pub limits: Limits,
    #[garde(dive)]
    pub imaging: Imaging,
    #[garde(dive)]
    pub admission: Admission,
    #[garde(dive)]
    pub batching: Batching,
    #[garde(dive)]
    pub runtime: Runtime,
    #[garde(skip)]
    pub cpu: Cpu,
    #[garde(dive)]
    pub models: Models,
    #[garde(dive)]
    pub detection: Detection,
    #[garde(skip)]
    pub embedding: Embedding,
    #[garde(skip)]
    pub quality: Quality,
    #[garde(dive)]
    pub recognition: Recognition,
    #[garde(dive)]
    pub qdrant: QdrantServer,
    #[garde(dive)]
    pub enhancement: Enhancement,
    #[garde(dive)]
    pub preprocess: Preprocess,
    #[garde(dive)]
    pub devices: Devices,
    #[garde(dive)]
    pub database: Database,
    #[garde(dive)]
    pub store: Store,
    #[garde(dive)]
    pub retention: Retention,
    #[garde(dive)]
    pub audit: Audit,
    #[garde(dive)]
    pub batches: Batches,
    #[garde(dive)]
    pub webhooks: Webhooks,
    #[garde(dive)]
    pub urls: Urls,
}

impl Config {
    /// Removes the encoder of whole images. Commands that embed no whole image then work while the encoder's server is
    /// unavailable.
    #[must_use]
    pub fn without_encoder(mut self) -> Self {
        self.models.ids.insert(Role::Encoder, None);
        self
    }

    /// Returns the URL of the database for results: `database.url`, or the file `facescan.sqlite` in `data_dir`. A
    /// missing file is created.
    pub fn database_url(&self) -> SecretString {
        match &self.database.url {
            Some(url) => url.clone(),
            None => sqlite_url(&self.data_dir.join("facescan.sqlite")).into(),
        }
    }

    /// Returns the file of SQLite, or the URL of Postgres without its password, for messages.
    pub fn shown_database(&self) -> String {
        let url = mask_url(self.database_url().expose_secret());
        match url.strip_prefix("sqlite:") {
            Some(file) => {
                let file = file.strip_prefix("//").unwrap_or(file);
                file.split('?').next().unwrap_or_default().to_owned()
            }
            None => url,
        }
    }

    /// Returns whether the database is SQLite.
    pub fn uses_sqlite(&self) -> bool {
        self.database_url().expose_secret().starts_with("sqlite:")
    }

    /// Returns every setting by its full key, in the order of `configs/config.yaml`. Secrets are masked.
    ///
    /// # Errors
    ///
    /// Returns an error if a path is not Unicode. A loaded configuration has no such path.
    pub fn settings(&self) -> serde_json::Result<Vec<(String, Value)>> {
        // Converts through text. A direct conversion to `Value` would widen the `f32` 0.6 to 0.6000000238418579.
        let tree: Value = serde_json::from_str(&serde_json::to_string(self)?)?;
        let value = |key: &str| tree.pointer(&pointer(key)).cloned().unwrap_or_default();
        Ok(SETTINGS
            .iter()
            .map(|setting| (setting.key.clone(), value(&setting.key)))
            .collect())
    }

    /// Returns whether callers need a key.
    pub fn requires_keys(&self) -> bool {
        match self.access.mode {
            AccessMode::Required => true,
            AccessMode::Off => false,
            AccessMode::Auto => !is_loopback(&self.server.host),
        }
    }

    /// Returns whether callers need no key because only this machine can reach the server.
    pub fn is_for_this_machine(&self) -> bool {
        self.access.mode == AccessMode::Auto && is_loopback(&self.server.host)
    }

    /// Returns the maximum size of a fetched image in bytes: the lower of the limit of fetches and the limit of all
    /// images.
    pub fn max_fetched_bytes(&self) -> u64 {
        self.urls.max_bytes.min(self.limits.max_image_bytes)
    }

    /// Returns how many requests are admitted at a time. A limit of 0 means half of the connections, so that a tenant cannot
    /// keep others from connecting.
    pub fn admitted_requests(&self) -> usize {
        match self.admission.max_requests {
            0 => self.server.max_connections.div_ceil(2),
            limit => limit,
        }
    }

    /// Returns how many images of each priority are admitted at a time. A limit of 0 means 8 interactive or 64 bulk images
    /// for each worker thread.
    pub fn admitted_images(&self) -> AdmittedImages {
        let workers = self.imaging.worker_threads().get();
        let or_per_worker = |limit: usize, each: usize| match limit {
            0 => each * workers,
            limit => limit,
        };
        AdmittedImages {
            interactive: or_per_worker(self.admission.interactive_images, INTERACTIVE_PER_WORKER),
            bulk: or_per_worker(self.admission.bulk_images, BULK_PER_WORKER),
        }
    }
}
