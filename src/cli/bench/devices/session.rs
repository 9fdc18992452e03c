//! One application with all toggles off or all toggles on.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    DevicesArgs,
    figures::{Application, Toggle},
};
use crate::{
    app::{App, Parts},
    cli::runtime::store_nothing,
};
use facescan_config::Config;
use facescan_inference::{
    backend::Backend,
    device::{DevicesReport, OperationReport},
    device_task::DeviceTask,
};

mod measure;
mod prepare;

/// A running application that is measured.
pub struct Session<'a> {
    app: App,
    toggle: Toggle,
    args: &'a DevicesArgs,
    start_ms: f64,
}

impl<'a> Session<'a> {
    /// Starts the application with the settings in `config` and every toggle off or on.
    pub async fn start(
        config: &Config,
        toggle: Toggle,
        args: &'a DevicesArgs,
        backend: &Arc<dyn Backend>,
    ) -> anyhow::Result<Self> {
        let mut config = config.clone();
        store_nothing(&mut config);
        let devices = &mut config.devices;
        devices.all_gpu = toggle == Toggle::On;
        for own in devices.operations.values_mut() {
            own.gpu = None;
        }
        // All images of a batch must run together, so the permits for decoded images cover the whole batch.
        let together = config.imaging.decoded_images();
        config.imaging.max_decoded = together.max(args.batch_size.get());
        let begun = Instant::now();
        let app = Parts::new(Arc::clone(backend)).start(config).await?;
        Ok(Self {
            app,
            toggle,
            args,
            start_ms: millis(begun.elapsed()),
        })
    }

    /// Stops the application and returns its report of the devices.
    pub fn stop(self) -> Application {
        Application {
            start_ms: self.start_ms,
            devices: self.app.pipeline.devices.report(),
        }
    }

    fn devices(&self) -> DevicesReport {
        self.app.pipeline.devices.report()
    }

    fn report(&self, operation: DeviceTask) -> Option<OperationReport> {
        self.devices().operations.remove(operation.name())
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
