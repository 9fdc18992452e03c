//! Configuration: one typed struct per section, one load, one validation.
//!
//! Four layers, of which a later one wins setting by setting: the defaults of `configs/config.yaml`
//! (built into the binary), a file, `.env`, the environment. The layers are merged as untyped trees
//! that remember where each value came from, deserialised once and validated once, so that every
//! mistake is reported with its key, its value, its origin and what is allowed, all in one go.

mod admission;
mod batching;
mod cpu;
mod database;
mod detection;
mod devices;
mod embedding;
mod enhancement;
mod error;
mod imaging;
mod layers;
mod limits;
mod log;
mod models;
mod origin;
mod preprocess;
mod quality;
mod rule;
mod runtime;
mod server;
mod sources;
mod store;
#[cfg(test)]
mod tests;
mod urls;
mod variables;

use std::{num::NonZeroUsize, path::PathBuf};

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::{
    admission::Admission,
    batching::Batching,
    cpu::{Cpu, CpuProvider},
    database::Database,
    detection::Detection,
    devices::{Devices, Toggles},
    embedding::{Embedding, EmbeddingFormat},
    enhancement::{EnhancedFormat, Enhancement},
    error::{ConfigError, Problem},
    imaging::Imaging,
    limits::Limits,
    log::{Log, LogFormat},
    models::Models,
    origin::{Origin, Provenance},
    preprocess::{Dtype, Platform, Preprocess},
    quality::Quality,
    runtime::Runtime,
    server::{MOST_IMAGES, Server},
    sources::Sources,
    store::Store,
    urls::{HostPattern, Scheme, Urls},
    variables::{CONFIG_FILE, PREFIX, SHORT_NAMES},
};
use self::{
    layers::{Layers, for_each_leaf},
    rule::{Kind, Rule, is_path},
};

/// The whole configuration. `configs/config.yaml` documents every setting.
///
/// Neither `Debug` nor `Serialize` shows a secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Folder for what the server writes.
    pub data_dir: PathBuf,
    /// Whether `log.level` is `debug` where nothing sets it. [`Config::load`] has applied this.
    pub debug: bool,
    /// The listener and the bounds of a request.
    pub server: Server,
    /// What is logged, and in what form.
    pub log: Log,
    /// Limits of one image.
    pub limits: Limits,
    /// The pool of threads that work on pixels.
    pub imaging: Imaging,
    /// How much work is taken in at a time.
    pub admission: Admission,
    /// How rows of many requests are grouped into runs.
    pub batching: Batching,
    /// ONNX Runtime.
    pub runtime: Runtime,
    /// How models run on the CPU.
    pub cpu: Cpu,
    /// Which models are loaded, and from where.
    pub models: Models,
    /// Defaults of the detection options.
    pub detection: Detection,
    /// Defaults of the embedding options.
    pub embedding: Embedding,
    /// Defaults of the quality options.
    pub quality: Quality,
    /// Defaults of the enhancement options.
    pub enhancement: Enhancement,
    /// Defaults of the preprocessing options.
    pub preprocess: Preprocess,
    /// Which operations run on an accelerator, and on which.
    pub devices: Devices,
    /// Where results are stored.
    pub database: Database,
    /// What is kept of a result.
    pub store: Store,
    /// Images that a request names by URL.
    pub urls: Urls,
}

impl Config {
    /// The same without a model for whole pictures, for what embeds none: its server may be away.
    #[must_use]
    pub fn without_encoder(mut self) -> Self {
        self.models.encoder = None;
        self
    }

    /// Merges the layers, deserialises them and checks every setting.
    ///
    /// `Config::load(&Sources::default())` gives the defaults alone.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or parsed is reported at once. Everything else, unknown settings and
    /// values that are not allowed, is collected into [`ConfigError::Invalid`].
    pub fn load(sources: &Sources) -> Result<(Self, Provenance), ConfigError> {
        let mut layers = Layers::defaults()?;
        sources.overlay(&mut layers)?;
        layers.finish()
    }

    /// The database that results are stored in: `database.url`, or `facescan.sqlite` in `data_dir`,
    /// created when it is missing.
    pub fn database_url(&self) -> SecretString {
        match &self.database.url {
            Some(url) => url.clone(),
            None => database::sqlite_url(&self.data_dir.join("facescan.sqlite")).into(),
        }
    }

    /// Every setting by its full key, in the order of `configs/config.yaml`, with secrets masked.
    ///
    /// # Errors
    ///
    /// When a path is not Unicode, which a loaded configuration never has.
    pub fn settings(&self) -> serde_json::Result<Vec<(String, Value)>> {
        // By way of text: as a `Value`, the `f32` 0.6 would widen to 0.6000000238418579.
        let tree: Map<String, Value> = serde_json::from_str(&serde_json::to_string(self)?)?;
        let mut settings = Vec::new();
        for_each_leaf("", &tree, &mut |key, value| {
            settings.push((key, value.clone()))
        });
        Ok(settings)
    }
}

const RULES: &[Rule] = &[
    Rule::checked("data_dir", Kind::Text, "a path", |c| is_path(&c.data_dir)),
    Rule::typed("debug", Kind::Flag, "true or false"),
];

/// A number of threads as set, or as many as there are cores for 0.
fn or_one_per_core(threads: usize) -> NonZeroUsize {
    NonZeroUsize::new(threads)
        .or_else(|| std::thread::available_parallelism().ok())
        .unwrap_or(NonZeroUsize::MIN)
}

/// The rules of all settings, in the order of the sections.
fn rules() -> impl Iterator<Item = &'static Rule> {
    [
        RULES,
        server::RULES,
        log::RULES,
        limits::RULES,
        imaging::RULES,
        admission::RULES,
        batching::RULES,
        runtime::RULES,
        cpu::RULES,
        models::RULES,
        detection::RULES,
        embedding::RULES,
        quality::RULES,
        enhancement::RULES,
        preprocess::RULES,
        devices::RULES,
        database::RULES,
        store::RULES,
        urls::RULES,
    ]
    .into_iter()
    .flatten()
}
