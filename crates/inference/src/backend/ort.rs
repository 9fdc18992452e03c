//! ONNX Runtime through the `ort` crate, loaded at run time from a shared library.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use ort::{
    environment::Environment,
    ep,
    session::{
        Session as OrtSession,
        builder::{GraphOptimizationLevel, PrepackedWeights, SessionBuilder},
    },
};

use super::{Backend, BackendError, Model, Opening, Session, open_failure};
use crate::{
    graphs::session::GraphSession,
    placement::{DevicePlacement, Provider},
};
use graph::OrtGraph;
use session::Loaded;

mod assignment;
mod graph;
mod providers;
mod session;
mod version;

pub use version::version;

/// The runtime, loaded once for the process.
pub struct OrtBackend {
    environment: Environment,
    /// The folder of the plugin libraries.
    plugins: PathBuf,
    /// The outcome for each plugin library that was requested. Each is registered once.
    registered: Mutex<HashMap<String, Result<(), String>>>,
}

impl OrtBackend {
    /// Loads the runtime library: an absolute path, or a name that the system's loader looks up. `plugins` is the folder of
    /// the providers that are separate libraries. Turn off the library's telemetry before this call.
    ///
    /// # Errors
    /// Returns [`BackendError::Library`] if the library is missing or has the wrong version.
    pub fn load(library: &Path, plugins: &Path) -> Result<Self, BackendError> {
        let refused =
            |detail: String| BackendError::Library(format!("{}: {detail}", library.display()));
        let environment = ort::init_from(library)
            .map_err(|error| refused(error.to_string()))?
            .with_name("facescan")
            .with_telemetry(false)
            .build()
            .map_err(|error| refused(error.to_string()))?;
        Ok(Self {
            environment,
            // The runtime resolves a relative path against its own library.
            plugins: std::path::absolute(plugins).unwrap_or_else(|_| plugins.to_owned()),
            registered: Mutex::default(),
        })
    }

    /// Returns the session options, with the provider of `opening` registered.
    fn builder(
        &self,
        opening: &Opening<'_>,
        weights: &PrepackedWeights,
    ) -> Result<SessionBuilder, BackendError> {
        let failed =
            |error: ort::Error<SessionBuilder>| open_failure(opening, error.message().to_owned());
        let builder = OrtSession::builder(&self.environment)
            .map_err(|error| open_failure(opening, error.message().to_owned()))?
            .with_optimization_level(GraphOptimizationLevel::All)
            .map_err(failed)?
            .with_intra_threads(opening.threads.get())
            .map_err(failed)?
            // Spinning would take a core from the decoders between runs.
            .with_intra_op_spinning(false)
            .map_err(failed)?
            // A plan of the memory would be kept for each shape of rows, and its block would not fit other shapes.
            .with_memory_pattern(false)
            .map_err(failed)?
            .with_config_entry(assignment::RECORD.0, assignment::RECORD.1)
            .map_err(failed)?;
        if opening.placement.provider == Provider::Cpu {
            let builder = match opening.keeps_memory {
                true => builder,
                false => {
                    let provider = ep::CPU::default().with_arena_allocator(false);
                    builder
                        .with_execution_providers([provider.build()])
                        .map_err(failed)?
                }
            };
            // The CPU is requested by name. Without a name the runtime may choose any provider, and with a preference
            // for the CPU it chooses OpenVINO once that is registered.
            let own = self.environment.devices().filter(|device| {
                device
                    .ep()
                    .is_ok_and(|name| name == Provider::Cpu.runtime_name())
            });
            return builder
                .with_devices(own, None)
                .map_err(failed)?
                .with_prepacked_weights(weights)
                .map_err(failed);
        }
        self.with_provider(builder, opening)
            .map_err(BackendError::unavailable)
    }

    fn session(
        &self,
        opening: &Opening<'_>,
        weights: &PrepackedWeights,
    ) -> Result<OrtSession, BackendError> {
        let mut builder = self.builder(opening, weights)?;
        match opening.model {
            Model::File(path) => builder.commit_from_file(path),
            Model::Graph(graph) => builder.commit_from_memory(&graph.bytes),
        }
        .map_err(|error| open_failure(opening, error.message().to_owned()))
    }

    /// Registers a plugin library when it is first requested.
    fn register(&self, name: &str, library: &Path) -> Result<(), String> {
        let mut registered = self
            .registered
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(outcome) = registered.get(name) {
            return outcome.clone();
        }
        let outcome = if library.exists() {
            self.environment
                .register_ep_library(name, library)
                .map_err(|error| error.message().to_owned())
        } else {
            Err(format!(
                "there is no {}; run `scripts/setup --{name}`, or set runtime.plugins_dir",
                library.display(),
            ))
        };
        registered.insert(name.to_owned(), outcome.clone());
        outcome
    }
}

impl Backend for OrtBackend {
    fn name(&self) -> &str {
        "onnxruntime"
    }

    fn check_available(&self, placement: DevicePlacement) -> Result<(), BackendError> {
        let opening = Opening {
            placement,
            ..Opening::on_cpu(Model::File(Path::new("")), NonZeroUsize::MIN, 1)
        };
        self.builder(&opening, &PrepackedWeights::new()).map(drop)
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Vec<Box<dyn Session>>, BackendError> {
        let weights = PrepackedWeights::new();
        (0..opening.count)
            .map(|_| {
                let session = self.session(opening, &weights)?;
                let loaded = Loaded::new(session, opening.keeps_memory)
                    .map_err(|error| open_failure(opening, error.message().to_owned()))?;
                Ok(Box::new(loaded) as Box<dyn Session>)
            })
            .collect()
    }

    fn open_graph(&self, opening: &Opening<'_>) -> Result<Box<dyn GraphSession>, BackendError> {
        let session = self.session(opening, &PrepackedWeights::new())?;
        Ok(Box::new(OrtGraph::new(session)))
    }
}
