//! Work on whole pictures: graphs of ours on a device while it is up, the CPU's own code otherwise.
//!
//! Pictures have sizes of their own, so that they run one by one and not in rows. The rules for a device are those of
//! the [`engine`](super::engine): what it fails on runs on the CPU, once; failures in a row, a run that hangs and a wrong
//! answer take it down; it is probed with a picture whose answer is known until it answers right.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroU64,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, sync::Semaphore};

use super::{
    backend::BackendError,
    engine::device::FIRST_RUNS,
    graphs::session::{GraphModel, GraphSession, Output, Samples},
    health::{Failure, Fault, Health},
    place::{Place, Provider},
    proof::Proof,
    worker::Worker,
};
use crate::metrics::EngineMetrics;
use facescan_clock::Clock;

mod recovery;

/// How many sizes of pictures are remembered as having run.
const REMEMBERED: usize = 256;

/// One piece of work, which a device does by a graph and the CPU by code, with the same answer.
pub trait PictureWork: Send + Sync + 'static {
    /// What comes of it.
    type Answer: Send + 'static;

    /// The graph, and the sizes that a device may compile it for.
    fn sizes(&self) -> Sizes;

    /// Does it on the thread of a device.
    ///
    /// # Errors
    /// What the runtime says.
    fn run_on_device(&self, graphs: &mut Graphs) -> Result<Self::Answer, BackendError>;

    /// Does it here. CPU work.
    fn run_on_cpu(&self) -> Self::Answer;

    /// Compares a device's answer with the CPU's; gives their cosine.
    ///
    /// # Errors
    /// Says how they differ, if by more than they may.
    fn compare(&self, given: &Self::Answer, right: &Self::Answer) -> Result<f64, String>;
}

/// What a device may compile anew for. Graphs share a lane, and what one has run says nothing of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The graph's name.
    pub graph: &'static str,
    /// What the shapes of its inputs and output follow from, such as widths and heights in and out.
    pub lengths: Vec<u32>,
}

/// Opens a graph on the device.
pub type GraphOpener =
    Arc<dyn Fn(&GraphModel) -> Result<Box<dyn GraphSession>, BackendError> + Send + Sync>;

/// The graphs that a device's thread has open.
pub struct Graphs {
    open: GraphOpener,
    sessions: HashMap<&'static str, Box<dyn GraphSession>>,
}

impl Graphs {
    /// None yet; `open` opens them.
    pub fn new(open: GraphOpener) -> Self {
        Self {
            open,
            sessions: HashMap::new(),
        }
    }

    /// The session of a graph, which is built and opened the first time.
    ///
    /// # Errors
    /// When the device refuses the graph.
    pub fn session(
        &mut self,
        name: &'static str,
        graph: impl FnOnce() -> GraphModel,
    ) -> Result<&mut dyn GraphSession, BackendError> {
        if !self.sessions.contains_key(name) {
            let session = (self.open)(&graph())?;
            self.sessions.insert(name, session);
        }
        match self.sessions.get_mut(name) {
            Some(session) => Ok(session.as_mut()),
            None => Err(BackendError::Unavailable {
                detail: format!("the graph `{name}` is not open"),
            }),
        }
    }

    /// How many nodes each provider runs of all that is open, by the runtime's names.
    fn assignment(&self) -> BTreeMap<String, usize> {
        let mut nodes = BTreeMap::new();
        for session in self.sessions.values() {
            for (provider, count) in session.assignment() {
                *nodes.entry(provider).or_insert(0) += count;
            }
        }
        nodes
    }
}

/// The output of a graph that has one: its shape and values.
///
/// # Errors
/// When there is none or another, or when it holds what is no number.
pub fn only_output(outputs: Vec<Output>) -> Result<(Vec<usize>, Samples), BackendError> {
    let [output] = <[Output; 1]>::try_from(outputs).map_err(|outputs| BackendError::Run {
        detail: format!("the graph gave {} outputs instead of one", outputs.len()),
    })?;
    if let Samples::F32(values) = &output.samples
        && !values.iter().all(|value| value.is_finite())
    {
        return Err(BackendError::Run {
            detail: "its answers are no numbers".to_owned(),
        });
    }
    Ok((output.shape, output.samples))
}

/// Does the work of one operation. Cheap to clone.
#[derive(Clone)]
pub struct PictureLane {
    device: Option<Arc<Device>>,
    clock: Arc<dyn Clock>,
    metrics: Arc<dyn EngineMetrics>,
}

/// A device for whole pictures, proved.
pub struct PictureDevice {
    /// What it is.
    pub place: Place,
    /// Opens graphs there.
    pub open: GraphOpener,
    /// Its state, for reports.
    pub health: Arc<Health>,
    /// Asks it for something whose answer is known.
    pub probe: Probe,
    /// How long a run may take.
    pub run_timeout: Duration,
    /// One picture in so many is repeated on the CPU, and compared.
    pub check_every: Option<NonZeroU64>,
}

/// Does known pieces of work, and says what is wrong with an answer.
pub type Probe = Arc<dyn Fn(&mut Graphs) -> Result<f64, Failure> + Send + Sync>;

/// A probe that does each piece of work, whose answers are asked of the CPU now; it gives their least cosine.
pub fn probe<W: PictureWork<Answer: Sync>>(known: impl IntoIterator<Item = W>) -> Probe {
    let known: Vec<(W, W::Answer)> = known
        .into_iter()
        .map(|work| {
            let right = work.run_on_cpu();
            (work, right)
        })
        .collect();
    Arc::new(move |graphs| {
        let mut least: f64 = 1.0;
        for (work, right) in &known {
            let given = work.run_on_device(graphs)?;
            let cosine = work.compare(&given, right).map_err(|detail| Failure {
                fault: Fault::WrongAnswer,
                detail,
            })?;
            least = least.min(cosine);
        }
        Ok(least)
    })
}

/// A probe that does what all of these do.
pub fn probe_all<const N: usize>(probes: [Probe; N]) -> Probe {
    Arc::new(move |graphs| {
        let mut least: f64 = 1.0;
        for probe in &probes {
            least = least.min(probe(graphs)?);
        }
        Ok(least)
    })
}

/// Runs a probe on graphs that are opened here.
///
/// # Errors
/// What the device says, or how its answer differs.
pub fn prove(open: GraphOpener, probe: &Probe, clock: &dyn Clock) -> Result<Proof, Failure> {
    let mut graphs = Graphs::new(open);
    let mut timed = || -> Result<(f64, Duration), Failure> {
        let began = clock.monotonic();
        let cosine = probe(&mut graphs)?;
        Ok((cosine, clock.monotonic().saturating_sub(began)))
    };
    let (cosine, first) = timed()?;
    let (_, second) = timed()?;
    Ok(Proof {
        cosine,
        nodes: graphs.assignment(),
        first_run_ms: first.as_secs_f64() * 1e3,
        row_ms: second.as_secs_f64() * 1e3,
    })
}

/// What came of a piece of work.
#[derive(Debug)]
pub struct Done<T> {
    /// The answer.
    pub answer: T,
    /// Time that it waited for the device.
    pub queued: Duration,
    /// Why the CPU did it although there is a device.
    pub fallback: Option<Fault>,
}

struct Device {
    parts: PictureDevice,
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    runtime: Handle,
}

#[derive(Default)]
struct State {
    /// `None` while the device is down.
    seat: Option<Arc<Seat>>,
    /// Sizes that have run on it.
    seen: Vec<Sizes>,
    runs: u64,
}

/// The thread, and whose turn it is: only one job is ordered at a time, so that its patience is its own.
struct Seat {
    worker: Worker<Graphs>,
    turn: Arc<Semaphore>,
}

impl PictureLane {
    /// A lane with a device, or with the CPU alone. To be called within the async runtime where there is a device.
    pub fn new(
        device: Option<PictureDevice>,
        clock: Arc<dyn Clock>,
        metrics: Arc<dyn EngineMetrics>,
    ) -> Self {
        let device = device.map(|parts| {
            let device = Device {
                parts,
                state: Mutex::default(),
                clock: Arc::clone(&clock),
                runtime: Handle::current(),
            };
            let device = Arc::new(device);
            device.start();
            device
        });
        Self {
            device,
            clock,
            metrics,
        }
    }

    /// Whether there is a device, up or down. Where there is none, code that needs no copies may do the work instead.
    pub fn has_device(&self) -> bool {
        self.device.is_some()
    }

    /// Does a piece of work. The CPU does it where this is polled, which is to be on the pool.
    pub async fn run<W: PictureWork>(&self, work: Arc<W>) -> Done<W::Answer> {
        let Some(device) = &self.device else {
            return self.run_on_cpu(work.as_ref(), None);
        };
        let began = self.clock.monotonic();
        match device.run(&work).await {
            Ok(ran) => {
                let provider = device.parts.place.provider;
                self.metrics.ran(provider.name(), 1, ran.took);
                let took = self.clock.monotonic().saturating_sub(began);
                Done {
                    answer: ran.answer,
                    queued: took.saturating_sub(ran.took),
                    fallback: None,
                }
            }
            Err(fault) => {
                self.metrics.fell_back(fault.name(), 1);
                device.parts.health.fell_back(fault, 1);
                // Those who waited behind it first: they may be this thread's next work.
                tokio::task::yield_now().await;
                self.run_on_cpu(work.as_ref(), Some(fault))
            }
        }
    }

    fn run_on_cpu<W: PictureWork>(&self, work: &W, fallback: Option<Fault>) -> Done<W::Answer> {
        let began = self.clock.monotonic();
        let answer = work.run_on_cpu();
        let took = self.clock.monotonic().saturating_sub(began);
        self.metrics.ran(Provider::Cpu.name(), 1, took);
        Done {
            answer,
            queued: Duration::ZERO,
            fallback,
        }
    }
}

/// What a device gave.
struct Ran<T> {
    answer: T,
    took: Duration,
}

impl Device {
    async fn run<W: PictureWork>(self: &Arc<Self>, work: &Arc<W>) -> Result<Ran<W::Answer>, Fault> {
        let (seat, turn) = loop {
            let seat = self.state().seat.clone().ok_or(Fault::Down)?;
            // It is closed when another thread takes this one's place.
            if let Ok(turn) = Arc::clone(&seat.turn).acquire_owned().await {
                break (seat, turn);
            }
        };
        let began = self.clock.monotonic();
        let job = {
            let work = Arc::clone(work);
            move |graphs: &mut Graphs| {
                // For as long as the job runs, whoever waits for it.
                let _turn = turn;
                work.run_on_device(graphs).map_err(Failure::from)
            }
        };
        let (device, patience) = (Arc::clone(self), self.patience(&work.sizes()));
        let watched = Arc::clone(&seat);
        // In a task of its own: a hang is to be noticed when whoever waits for it has long left.
        let running = self.runtime.spawn(async move {
            let outcome = watched.worker.run(patience, job).await;
            if let Err(failure) = &outcome {
                device.went_wrong(failure.clone(), &watched);
            }
            outcome
        });
        let outcome = running.await.unwrap_or_else(|error| {
            Err(Failure {
                fault: Fault::Failed,
                detail: error.to_string(),
            })
        });
        let took = self.clock.monotonic().saturating_sub(began);
        let answer = outcome.map_err(|failure| failure.fault)?;
        match self.check(work.as_ref(), answer) {
            Ok(answer) => {
                self.went_well(work.sizes());
                Ok(Ran { answer, took })
            }
            Err(failure) => {
                let fault = failure.fault;
                self.went_wrong(failure, &seat);
                Err(fault)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change to it is one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new thread.
    fn seat(&self) -> Result<Arc<Seat>, Failure> {
        let open = Arc::clone(&self.parts.open);
        let started = Worker::start(&self.parts.place.to_string(), move || Ok(Graphs::new(open)));
        let worker = started.map_err(|error| Failure {
            fault: Fault::Failed,
            detail: format!("the device's thread cannot be started: {error}"),
        })?;
        Ok(Arc::new(Seat {
            worker,
            turn: Arc::new(Semaphore::new(1)),
        }))
    }

    /// Puts a new thread in the old one's place.
    fn start(self: &Arc<Self>) {
        match self.seat() {
            Ok(seat) => self.sit(Some(seat)),
            Err(failure) => {
                self.parts
                    .health
                    .stays_down(failure, self.clock.monotonic());
                self.go_down();
            }
        }
    }

    fn go_down(self: &Arc<Self>) {
        tracing::error!(device = %self.parts.place, "the device is down; its pictures go to the cpu until a probe succeeds");
        self.sit(None);
        self.runtime.spawn(recovery::recover(Arc::downgrade(self)));
    }

    fn sit(&self, seat: Option<Arc<Seat>>) {
        let mut state = self.state();
        state.seen.clear();
        let old = std::mem::replace(&mut state.seat, seat);
        drop(state);
        if let Some(old) = old {
            old.turn.close();
        }
    }

    fn patience(&self, sizes: &Sizes) -> Duration {
        let timeout = self.parts.run_timeout;
        if self.state().seen.contains(sizes) {
            timeout
        } else {
            timeout.saturating_mul(FIRST_RUNS)
        }
    }

    /// Repeats one piece of work in so many here.
    fn check<W: PictureWork>(&self, work: &W, answer: W::Answer) -> Result<W::Answer, Failure> {
        let runs = {
            let mut state = self.state();
            state.runs += 1;
            state.runs
        };
        let is_due = |every: NonZeroU64| runs.is_multiple_of(every.get());
        if self.parts.check_every.is_some_and(is_due) {
            work.compare(&answer, &work.run_on_cpu())
                .map_err(|detail| Failure {
                    fault: Fault::WrongAnswer,
                    detail,
                })?;
        }
        Ok(answer)
    }

    fn went_well(&self, sizes: Sizes) {
        self.parts.health.ran(1);
        let mut state = self.state();
        if state.seen.len() == REMEMBERED {
            state.seen.clear();
        }
        if !state.seen.contains(&sizes) {
            state.seen.push(sizes);
        }
    }

    fn went_wrong(self: &Arc<Self>, failure: Failure, seat: &Arc<Seat>) {
        let (place, fault) = (self.parts.place, failure.fault);
        tracing::warn!(device = %place, fault = fault.name(), reason = %failure.detail, "falling back to the cpu");
        let is_down = self.parts.health.failed(failure, self.clock.monotonic());
        let is_seated = |state: &State| {
            state
                .seat
                .as_ref()
                .is_some_and(|now| Arc::ptr_eq(now, seat))
        };
        // If not, somebody else saw to it.
        if !is_seated(&self.state()) {
            return;
        }
        if is_down {
            self.go_down();
        } else if fault != Fault::OutOfMemory {
            // What failed may be spoilt.
            self.start();
        }
    }
}

#[cfg(test)]
mod tests;
