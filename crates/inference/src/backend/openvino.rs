//! OpenVINO through its C API, loaded at run time from a shared library. It runs models on x86-64 processors of any
//! maker, and on Intel's GPUs.
//!
//! ONNX Runtime's plugin for OpenVINO is not used, because it refuses the processors of other makers.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use openvino::{
    CompiledModel, Core, DeviceType, InferenceError, PartialShape, PropertyKey, RwPropertyKey,
};

use super::{Backend, BackendError, Model, Opening, Session, open_failure};
use crate::{
    graphs::session::GraphSession,
    placement::{DevicePlacement, Precision},
};
use graph::OpenvinoGraph;

mod compiled_shapes;
mod graph;
mod session;

/// The number of prepared kernels that a model for any shape keeps. The default detector has about 70 for each shape.
const KERNEL_CACHE: &str = "2000";

/// OpenVINO. The library is loaded when it is first needed, once for the process.
pub struct OpenvinoBackend {
    folder: PathBuf,
    core: OnceLock<Result<Arc<Mutex<Core>>, String>>,
}

impl OpenvinoBackend {
    /// Uses the library in `folder`.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            core: OnceLock::new(),
        }
    }

    fn core(&self) -> Result<&Arc<Mutex<Core>>, BackendError> {
        let core = self.core.get_or_init(|| load(&self.folder));
        core.as_ref().map_err(BackendError::unavailable)
    }

    /// Returns what is needed to compile the model of `opening`.
    fn compiler(&self, opening: &Opening<'_>) -> Result<Compiler, BackendError> {
        Ok(Compiler {
            core: Arc::clone(self.core()?),
            device: self.device(opening.placement)?,
            properties: properties(opening),
            source: match opening.model {
                Model::File(path) => Source::File(path.to_owned()),
                Model::Graph(graph) => Source::Bytes(graph.bytes.clone()),
            },
        })
    }

    /// Returns OpenVINO's name of a placement's device, if the device exists and computes with the placement's
    /// precision.
    fn device(&self, placement: DevicePlacement) -> Result<String, BackendError> {
        let core = self.core()?.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |error: InferenceError| BackendError::Unavailable(message(&error));
        if placement.provider.is_on_cpu() {
            let capabilities = core
                .get_property(&DeviceType::CPU, &PropertyKey::DeviceCapabilities)
                .map_err(failed)?;
            let has_bf16 = capabilities.split_whitespace().any(|name| name == "BF16");
            if placement.precision == Precision::Reduced && !has_bf16 {
                return Err(BackendError::unavailable(
                    "this processor does not compute in bf16",
                ));
            }
            return Ok(DeviceType::CPU.as_ref().to_owned());
        }
        let devices = core.available_devices().map_err(failed)?;
        let mut gpus = devices
            .iter()
            .map(AsRef::as_ref)
            .filter(|name: &&str| name.starts_with("GPU"));
        let gpu = gpus.nth(placement.index as usize).map(str::to_owned);
        gpu.ok_or_else(|| {
            BackendError::Unavailable(format!(
                "it finds no GPU {}; it needs a GPU of Intel with its OpenCL driver, and `scripts/setup --openvino-gpu`",
                placement.index
            ))
        })
    }
}

impl Backend for OpenvinoBackend {
    fn name(&self) -> &str {
        "openvino"
    }

    fn check_available(&self, placement: DevicePlacement) -> Result<(), BackendError> {
        self.device(placement).map(drop)
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Vec<Box<dyn Session>>, BackendError> {
        session::open(self.compiler(opening)?, opening.count)
            .map_err(|error| open_failure(opening, message(&error)))
    }

    fn open_graph(&self, opening: &Opening<'_>) -> Result<Box<dyn GraphSession>, BackendError> {
        let graph = OpenvinoGraph::new(&self.compiler(opening)?);
        let graph = graph.map_err(|error| open_failure(opening, message(&error)))?;
        Ok(Box::new(graph))
    }
}

/// Loads the library and its plugins.
fn load(folder: &Path) -> Result<Arc<Mutex<Core>>, String> {
    let prefix = format!(
        "{}openvino_c{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    // The name ends with a version.
    let library = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with(&prefix)
        })
        .ok_or_else(|| {
            format!(
                "there is no {prefix} in {}; run `scripts/setup`, or set runtime.plugins_dir",
                folder.display()
            )
        })?;
    openvino_sys::library::load_from(library)?;
    let core = Core::new().map_err(|error| error.to_string())?;
    Ok(Arc::new(Mutex::new(core)))
}

/// Returns OpenVINO's settings for a device. The precision is always set, because the defaults differ between
/// processors.
fn properties(opening: &Opening<'_>) -> Vec<(RwPropertyKey, String)> {
    let is_reduced = opening.placement.precision == Precision::Reduced;
    let precision = match (opening.placement.provider.is_on_cpu(), is_reduced) {
        (_, false) => "f32",
        (true, true) => "bf16",
        (false, true) => "f16",
    };
    let mut properties = vec![(RwPropertyKey::HintInferencePrecision, precision.to_owned())];
    if opening.placement.provider.is_on_cpu() {
        properties.extend([
            // All sessions share one model, with a stream of threads for each.
            (
                RwPropertyKey::InferenceNumThreads,
                (opening.threads.get() * opening.count).to_string(),
            ),
            (RwPropertyKey::NumStreams, opening.count.to_string()),
            // With pinning, the threads of all sessions would share the first cores.
            (RwPropertyKey::HintEnableCpuPinning, "NO".to_owned()),
            (
                RwPropertyKey::Other("CPU_RUNTIME_CACHE_CAPACITY".into()),
                KERNEL_CACHE.to_owned(),
            ),
        ]);
    }
    properties
}

/// Compiles one model for a device.
struct Compiler {
    core: Arc<Mutex<Core>>,
    device: String,
    properties: Vec<(RwPropertyKey, String)>,
    source: Source,
}

enum Source {
    File(PathBuf),
    Bytes(Vec<u8>),
}

impl Compiler {
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the model.
    fn read(&self) -> Result<openvino::Model, InferenceError> {
        match &self.source {
            // The second path names the weights of other formats.
            Source::File(path) => {
                let path = path.to_string_lossy();
                self.core().read_model_from_file(&path, "")
            }
            Source::Bytes(bytes) => self.core().read_model_from_buffer(bytes, None),
        }
    }

    /// Compiles a model that was read, for one shape of its only input or for every shape that it accepts.
    fn compile(
        &self,
        mut model: openvino::Model,
        shape: Option<&[usize]>,
    ) -> Result<CompiledModel, InferenceError> {
        if let Some(shape) = shape {
            let dims = dims(shape);
            model.reshape_single_input(&PartialShape::new_static(dims.len() as i64, &dims)?)?;
        }
        let device = DeviceType::from(self.device.as_str());
        let properties = self.properties.iter();
        let mut core = self.core();
        core.set_properties(
            &device,
            properties.map(|(key, value)| (key.clone(), value.as_str())),
        )?;
        core.compile_model(&model, device)
    }
}

fn dims(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&dim| dim as i64).collect()
}

/// Returns the line of OpenVINO's message that names the cause. The lines before it are places in its source code.
fn message(error: &InferenceError) -> String {
    let said = error.message.as_deref().unwrap_or_default();
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .next_back()
        .map_or_else(|| error.kind.to_string(), str::to_owned)
}
