//! The threads that process images, the models, and how the models run.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use std::{collections::BTreeMap, num::NonZeroUsize, path::PathBuf, thread, time::Duration};

use facescan_inference::registry::Role;
use garde::Validate;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::checks::{is_absolute, is_path, must};

/// Section `imaging`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Imaging {
    #[garde(skip)]
    pub background: [u8; 3],
    #[garde(range(max = 1024))]
    pub workers: usize,
    #[garde(range(max = 65_536))]
    pub max_decoded: usize,
    #[garde(range(max = 1 << 42))]
    pub max_decoded_bytes: u64,
}

impl Imaging {
    /// Returns the memory for decoded images and the work on them, in bytes.
    pub fn decoded_bytes(&self) -> u64 {
        const PER_WORKER: u64 = 256 << 20;
        // The work on an image of 100 megapixels takes 2 GB.
        const LEAST: u64 = 5 << 29;
        match self.max_decoded_bytes {
            0 => LEAST.max(PER_WORKER * self.worker_threads().get() as u64),
            bytes => bytes,
        }
    }

    /// Returns how many images of a tenant may be held decoded, at least one.
    pub fn decoded_images(&self) -> usize {
        match self.max_decoded {
            0 => 2 * self.worker_threads().get(),
            images => images,
        }
    }

    /// Returns the number of worker threads, at least one.
    pub fn worker_threads(&self) -> NonZeroUsize {
        or_one_per_core(self.workers)
    }
}

/// Section `batching`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Batching {
    #[garde(range(min = 0.0, max = 1000.0))]
    pub max_queue_delay_ms: f64,
    #[garde(custom(must(|rows: &NonZeroUsize| rows.get() <= 1024)))]
    pub cpu_batch_size: NonZeroUsize,
}

impl Batching {
    /// Returns how long a batch that is not full waits for more rows.
    pub fn max_queue_delay(&self) -> Duration {
        Duration::from_secs_f64(self.max_queue_delay_ms / 1e3)
    }
}

/// Section `runtime`: the libraries that the server loads.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Runtime {
    /// Relative paths of libraries and models start here: see [`Runtime::folder`].
    #[garde(inner(custom(must(is_absolute))))]
    pub dir: Option<PathBuf>,
    #[garde(inner(custom(must(is_path))))]
    pub library: Option<PathBuf>,
    #[garde(custom(must(is_path)))]
    pub plugins_dir: PathBuf,
    #[garde(inner(custom(must(is_path))))]
    pub turbojpeg: Option<PathBuf>,
    #[garde(range(max = 1024))]
    pub intra_threads: usize,
    #[garde(custom(must(is_path)))]
    pub shipped_dir: PathBuf,
}

impl Runtime {
    /// Returns the number of threads of one inference, at least one.
    pub fn threads(&self) -> NonZeroUsize {
        or_one_per_core(self.intra_threads)
    }
}

/// Section `cpu`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cpu {
    pub provider: CpuProvider,
}

/// The execution provider that runs models on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuProvider {
    /// OpenVINO for the embedders that it runs faster and accurately enough; ONNX Runtime's own kernels for the others.
    Auto,
    /// ONNX Runtime's own kernels.
    Default,
    /// OpenVINO for all models that it runs accurately enough, detectors included.
    Openvino,
}

/// Section `models`. The registry checks the ids when it is read.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Models {
    #[garde(custom(must(is_path)))]
    pub dir: PathBuf,
    #[garde(inner(custom(must(is_path))))]
    pub registry: Option<PathBuf>,
    #[garde(skip)]
    pub commercial_only: bool,
    /// The setting `{role}` of every role: the id of a model. `None` loads no model of this role.
    #[garde(skip)]
    #[serde(flatten, deserialize_with = "read_ids")]
    pub ids: BTreeMap<Role, Option<String>>,
}

impl Models {
    /// Returns the id of the model of a role. Returns `None` if the settings name no model.
    pub fn id(&self, role: Role) -> Option<&str> {
        self.ids.get(&role)?.as_deref()
    }
}

fn read_ids<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<Role, Option<String>>, D::Error> {
    let mut values = BTreeMap::<String, Option<String>>::deserialize(deserializer)?;
    let mut id_of = |role: Role| {
        let id = values.remove(role.name()).flatten();
        let is_allowed = match &id {
            Some(id) => !id.trim().is_empty(),
            None => !role.is_required(),
        };
        match is_allowed {
            true => Ok((role, id)),
            false => Err(D::Error::custom("expected the id of a model")),
        }
    };
    Role::ALL.into_iter().map(&mut id_of).collect()
}

/// Returns the number of threads in the setting, or the number of cores if the setting is 0.
fn or_one_per_core(threads: usize) -> NonZeroUsize {
    NonZeroUsize::new(threads)
        .or_else(|| thread::available_parallelism().ok())
        .unwrap_or(NonZeroUsize::MIN)
}
