//! A server or a worker for drills: the real one, on a backend with a fixed service time.
//!
//! A drill needs a clock that jumps, and several processes on one machine that do not compete for its cores. So each run of a
//! model sleeps for the service time and then runs the real model.

use std::{path::PathBuf, process::ExitCode, sync::Arc, thread, time::Duration};

use clap::{Args, ValueEnum};
use facescan::{
    app::Parts,
    cli::{
        runtime, serve,
        worker::{self, WorkerArgs},
    },
};
use facescan_clock::{Clock, SystemClock};
use facescan_config::Config;
use facescan_inference::{
    backend::{Backend, BackendError, Batch, Opening, Session},
    graphs::session::GraphSession,
    placement::DevicePlacement,
    tensor::{Signature, Tensor},
};
use time::OffsetDateTime;

/// The arguments of `facescan-bench drill-server`.
#[derive(Debug, Args)]
pub struct DrillServerArgs {
    /// The process to run.
    #[arg(value_enum)]
    role: Role,
    /// The milliseconds that each row takes before its model runs.
    #[arg(long, default_value_t = 0)]
    service_ms: u64,
    /// A file with the seconds that the clock of the process is ahead. The drill changes it while the process runs.
    #[arg(long, value_name = "FILE")]
    clock_offset: Option<PathBuf>,
    /// The arguments of `facescan worker`.
    #[command(flatten)]
    worker: WorkerArgs,
}

/// The process to run.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    /// `facescan serve`.
    Serve,
    /// `facescan worker`.
    Worker,
}

/// Runs the process until a signal arrives.
pub fn run(config: Config, args: &DrillServerArgs) -> anyhow::Result<ExitCode> {
    let service_time = Duration::from_millis(args.service_ms);
    let open = |config: &Config| -> anyhow::Result<Parts> {
        let backend = SlowBackend {
            inner: runtime::backend(config)?,
            service_time,
        };
        Ok(Parts {
            clock: Arc::new(JumpingClock {
                monotonic: SystemClock::start(),
                offset: args.clock_offset.clone(),
            }),
            ..Parts::new(Arc::new(backend))
        })
    };
    match args.role {
        Role::Serve => serve::run_on(config, open),
        Role::Worker => worker::run_on(config, open, &args.worker),
    }
}

/// A wall clock that a drill moves, as an administrator or a time server does. The monotonic time does not jump.
struct JumpingClock {
    monotonic: SystemClock,
    offset: Option<PathBuf>,
}

impl Clock for JumpingClock {
    fn now(&self) -> OffsetDateTime {
        let offset = self.offset.as_ref().and_then(|file| {
            let seconds: i64 = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
            Some(time::Duration::seconds(seconds))
        });
        self.monotonic.now() + offset.unwrap_or_default()
    }

    fn monotonic(&self) -> Duration {
        self.monotonic.monotonic()
    }
}

/// Delays the runs of another backend.
struct SlowBackend {
    inner: Arc<dyn Backend>,
    service_time: Duration,
}

struct SlowSession {
    inner: Box<dyn Session>,
    service_time: Duration,
}

impl Backend for SlowBackend {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn check_available(&self, placement: DevicePlacement) -> Result<(), BackendError> {
        self.inner.check_available(placement)
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Vec<Box<dyn Session>>, BackendError> {
        let slow = |inner| -> Box<dyn Session> {
            Box::new(SlowSession {
                inner,
                service_time: self.service_time,
            })
        };
        Ok(self.inner.open(opening)?.into_iter().map(slow).collect())
    }

    fn open_graph(&self, opening: &Opening<'_>) -> Result<Box<dyn GraphSession>, BackendError> {
        self.inner.open_graph(opening)
    }
}

impl Session for SlowSession {
    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        let rows = u32::try_from(batch.rows()).unwrap_or(1);
        thread::sleep(self.service_time * rows);
        self.inner.run(batch)
    }
}
