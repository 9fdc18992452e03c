//! Tests a device with work on whole images.

use std::sync::Arc;

use super::Loader;
use facescan_config::Platform;
use facescan_inference::{
    accelerator::Accelerator,
    backend::{Model, Opening},
    device::{Active, Assignment},
    device_task::DeviceTask,
    image_executor::{self, GraphOpener, HealthProbe, ImageDevice, ImageExecutor},
    placement::{DevicePlacement, Precision},
};
use facescan_pipeline::models::{preprocessing::Preprocessing, row_job::RowJob};

impl Loader<'_> {
    /// Creates the executor of an operation on whole images. It uses the device in `asked` if the device passes the probe.
    pub fn load_executor(
        &self,
        task: DeviceTask,
        asked: Option<(Accelerator, u32)>,
        probe: HealthProbe,
    ) -> (ImageExecutor, Assignment) {
        let precisions: &[Precision] = &[Precision::Full];
        let named = (task.name(), precisions);
        let (device, assignment) = self.assign(task, asked, named, |placement| {
            self.image_device_at(task, placement, &probe)
        });
        let metrics = self.metrics.engine(task.name());
        let executor = ImageExecutor::new(device, Arc::clone(self.clock), metrics);
        (executor, assignment)
    }

    /// Returns the device that the settings select for preprocessing. `None` is the CPU.
    pub(super) fn asked_for_preprocessing(&self) -> Option<(Accelerator, u32)> {
        let (settings, devices) = (&self.config.preprocess, &self.config.devices);
        let (backend, index) = devices.accelerator(DeviceTask::ImageProcessing);
        let by_name = settings.platform.is_some() || settings.use_gpu;
        match settings.requested_platform() {
            Platform::Gpu if backend != Accelerator::Cpu => Some((backend, index)),
            _ if !by_name => devices.requested(DeviceTask::ImageProcessing),
            _ => None,
        }
    }

    /// Creates the executor of preprocessing, which has its own setting.
    ///
    /// # Errors
    /// Returns an error if `preprocess.strict` is set and the platform is missing.
    pub fn load_preprocessing(&self) -> anyhow::Result<Preprocessing> {
        let (settings, devices) = (&self.config.preprocess, &self.config.devices);
        let task = DeviceTask::ImageProcessing;
        let (backend, _) = devices.accelerator(task);
        let asked = self.asked_for_preprocessing();
        let probe = image_executor::health_probe(RowJob::probes());
        let (executor, mut assignment) = self.load_executor(task, asked, probe);
        let platform = settings.requested_platform();
        let refused = match platform {
            Platform::Tpu => Some("this server has no backend for a tpu"),
            Platform::Gpu if backend == Accelerator::Cpu => Some("devices.backend is cpu"),
            _ => None,
        };
        if let Some(reason) = refused {
            platform.name().clone_into(&mut assignment.requested);
            assignment.device = Err(Some(reason.to_owned()));
        }
        let state = assignment.state();
        if let Some(reason) = &state.reason {
            tracing::warn!(
                requested = state.requested,
                active = state.active,
                reason,
                "preprocessing falls back to the cpu"
            );
            anyhow::ensure!(
                !settings.strict,
                "preprocess.platform: {} is not available: {reason}; set preprocess.strict to false to use the cpu",
                state.requested
            );
        }
        Ok(Preprocessing {
            executor,
            assignment: Arc::new(assignment),
            warm_up_ms: None,
        })
    }

    fn image_device_at(
        &self,
        task: DeviceTask,
        placement: DevicePlacement,
        probe: &HealthProbe,
    ) -> Result<(ImageDevice, Active), String> {
        let backend = Arc::clone(self.backend);
        let (threads, memory_limit) = (self.config.runtime.threads(), self.memory_limit());
        let open: GraphOpener = Arc::new(move |graph| {
            backend.open_graph(&Opening {
                placement,
                memory_limit,
                ..Opening::on_cpu(Model::Graph(graph), threads, 1)
            })
        });
        let proof = image_executor::prove(Arc::clone(&open), probe, self.clock.as_ref())
            .map_err(|failure| failure.detail)?;
        self.check_nodes(placement, &proof)?;
        tracing::info!(
            operation = task.name(), backend = self.backend.name(), device = %placement,
            cosine = proof.cosine, nodes = ?proof.nodes, "graphs loaded"
        );
        let active = Active {
            placement,
            health: self.health(1),
            proof,
        };
        let device = ImageDevice {
            placement,
            open,
            health: Arc::clone(&active.health),
            probe: Arc::clone(probe),
            run_timeout: self.config.devices.run_timeout_ms.duration(),
            check_every: self.config.devices.check_interval(),
        };
        Ok((device, active))
    }
}
