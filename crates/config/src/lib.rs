//! Configuration: one struct per section, loaded and validated once.
//!
//! Four layers contribute settings, and a later layer overrides an earlier one: the defaults in `configs/config.yaml`
//! (built into the binary), a file, `.env`, and the environment. figment merges the layers and remembers the origin of
//! each value. garde checks the range of each field. One report lists all errors, each with the key, the value, the
//! origin and the allowed values.
//!
//! Every setting is defined in two places. A field here has its type and range. A line of `configs/config.yaml` has its
//! default and its documentation. A test checks that both agree.

#![warn(unreachable_pub)]

mod access;
mod batches;
mod compute;
mod detection;
mod devices;
mod error;
mod load;
mod log;
mod openid;
mod options;
mod origin;
mod recognition;
mod retention;
mod runtime_folder;
mod schema;
pub mod scope;
mod secrets;
mod server;
mod sources;
mod storage;
#[cfg(test)]
mod tests;
mod traces;
mod urls;
mod webhooks;

use std::path::{Path, PathBuf};

use facescan_inference::registry::Role;
use garde::Validate;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{
    access::*,
    batches::*,
    compute::*,
    detection::*,
    devices::*,
    error::*,
    log::*,
    openid::*,
    options::*,
    origin::*,
    recognition::*,
    retention::*,
    schema::{CONFIG_FILE, PREFIX, short_names},
    secrets::shown,
    server::*,
    sources::*,
    storage::*,
    traces::*,
    urls::*,
    webhooks::*,
};
use self::{
    load::{Loader, pointer},
    schema::SETTINGS,
};

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
    #[garde(dive)]
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
    #[garde(dive)]
    pub cpu: Cpu,
    #[garde(dive)]
    pub models: Models,
    #[garde(dive)]
    pub detection: Detection,
    #[garde(dive)]
    pub embedding: Embedding,
    #[garde(dive)]
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

    /// Merges the layers and checks every setting.
    ///
    /// `Config::load(&Sources::default())` returns the defaults.
    ///
    /// # Errors
    ///
    /// Returns an error at once if a file cannot be read or parsed. All unknown settings and values that are not
    /// allowed are collected in [`ConfigError::Invalid`].
    pub fn load(sources: &Sources) -> Result<(Self, Provenance), ConfigError> {
        let mut loader = Loader::new()?;
        let dotenv = sources.read_dotenv()?;
        if let Some(path) = sources.config_file(&dotenv) {
            loader.add_file(&path, &sources::read(&path)?)?;
        }
        loader.add_variables(&dotenv, ".env", Origin::Dotenv);
        loader.add_variables(&sources.environment, "the environment", Origin::Env);
        loader.finish()
    }

    /// Returns the URL of the database for results: `database.url`, or the file `facescan.sqlite` in `data_dir`. A
    /// missing file is created.
    pub fn database_url(&self) -> SecretString {
        match &self.database.url {
            Some(url) => url.clone(),
            None => storage::sqlite_url(&self.data_dir.join("facescan.sqlite")).into(),
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
}

/// Returns whether a path does not depend on the working directory.
fn is_absolute(path: &Path) -> bool {
    path.is_absolute()
}

/// Returns whether a path is not empty. An empty path means that a setting was left blank.
fn is_path(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}

/// Turns a test of a value into a validator. Its error has no detail, because the report quotes `configs/config.yaml`.
fn must<T: ?Sized>(test: impl FnOnce(&T) -> bool) -> impl FnOnce(&T, &()) -> garde::Result {
    let refused = || garde::Error::new("is not allowed");
    move |value, ()| test(value).then_some(()).ok_or_else(refused)
}
