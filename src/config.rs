//! Configuration: one typed struct per section, one load, one validation.
//!
//! Four layers, of which a later one wins setting by setting: the defaults of `configs/config.yaml`
//! (built into the binary), a file, `.env`, the environment. figment merges them and keeps where each value came from;
//! garde checks the ranges that stand at the fields. Every mistake is reported with its key, its value, its origin and
//! what is allowed, all in one go.
//!
//! A setting stands in two places: as a field here, with its range, and as a line of `configs/config.yaml`, with its
//! default and its documentation. Everything else follows from these two.

mod compute;
mod devices;
mod error;
mod load;
mod log;
mod options;
mod origin;
mod schema;
mod server;
mod sources;
mod storage;
#[cfg(test)]
mod tests;
mod urls;

use std::path::{Path, PathBuf};

use garde::Validate;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{
    compute::*,
    devices::*,
    error::*,
    log::*,
    options::*,
    origin::*,
    schema::{CONFIG_FILE, PREFIX, short_names},
    server::*,
    sources::*,
    storage::*,
    urls::*,
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
    #[garde(custom(holds(is_path)))]
    pub data_dir: PathBuf,
    /// Whether `log.level` is `debug` where nothing sets it. [`Config::load`] has applied this.
    #[garde(skip)]
    pub debug: bool,
    #[garde(dive)]
    pub server: Server,
    #[garde(dive)]
    pub log: Log,
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
    pub urls: Urls,
}

impl Config {
    /// The same without an encoder of whole images, for commands that embed none: its server may be away.
    #[must_use]
    pub fn without_encoder(mut self) -> Self {
        self.models.encoder = None;
        self
    }

    /// Merges the layers and checks every setting.
    ///
    /// `Config::load(&Sources::default())` gives the defaults alone.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or parsed is reported at once. Everything else, unknown settings and
    /// values that are not allowed, is collected into [`ConfigError::Invalid`].
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

    /// The database that results are stored in: `database.url`, or `facescan.sqlite` in `data_dir`,
    /// created when it is missing.
    pub fn database_url(&self) -> SecretString {
        match &self.database.url {
            Some(url) => url.clone(),
            None => storage::sqlite_url(&self.data_dir.join("facescan.sqlite")).into(),
        }
    }

    /// Every setting by its full key, in the order of `configs/config.yaml`, with secrets masked.
    ///
    /// # Errors
    ///
    /// When a path is not Unicode, which a loaded configuration never has.
    pub fn settings(&self) -> serde_json::Result<Vec<(String, Value)>> {
        // By way of text: as a `Value`, the `f32` 0.6 would widen to 0.6000000238418579.
        let tree: Value = serde_json::from_str(&serde_json::to_string(self)?)?;
        let value = |key: &str| tree.pointer(&pointer(key)).cloned().unwrap_or_default();
        Ok(SETTINGS
            .iter()
            .map(|setting| (setting.key.clone(), value(&setting.key)))
            .collect())
    }
}

/// Whether a path can name anything: an empty one is a setting left blank.
fn is_path(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}

/// A test of a value as a validator. What is allowed stands in `configs/config.yaml`.
fn holds<T: ?Sized>(test: impl FnOnce(&T) -> bool) -> impl FnOnce(&T, &()) -> garde::Result {
    let refused = || garde::Error::new("is not allowed");
    move |value, ()| test(value).then_some(()).ok_or_else(refused)
}
