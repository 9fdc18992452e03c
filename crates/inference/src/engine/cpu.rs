//! Runs on the CPU, as jobs of the pool.
//!
//! Decoding and inference share the cores and never compete for them. There are as many one-thread sessions as the pool
//! has threads, which gives the most rows a second, and one session over all cores, which gives one row the soonest. The
//! wide one is taken when nothing else is to be done. A session is moved out to the thread that runs it and back: it is
//! never shared or locked.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, MutexGuard, PoisonError},
};

use super::{Outcome, Piece, Shared, Times, in_rows};
use crate::pool::Stage;
use crate::{
    backend::{BackendError, Batch, Session},
    batcher::{Reply, Route},
    health::Fault,
    place::{Place, Provider},
    tensor::Tensor,
};

/// The sessions of one model that run at the same time.
pub struct Sessions {
    /// Each on one thread.
    pub narrow: Vec<Box<dyn Session>>,
    /// One over all cores, for when nothing else is to be done.
    pub wide: Option<Box<dyn Session>>,
    /// What takes the place of a session that fails, where they are not of the runtime's own provider.
    pub reserve: Option<Reserve>,
    /// Where all of them were opened. What takes the place of one that fails is at [`Place::CPU`].
    pub place: Place,
}

/// Opens a session of the runtime's own provider.
pub type Reserve = Arc<dyn Fn() -> Result<Box<dyn Session>, BackendError> + Send + Sync>;

/// A session, and where it runs.
struct CpuSession {
    session: Box<dyn Session>,
    place: Place,
}

/// The sessions that are free now.
pub(super) struct CpuSessions {
    narrow: Vec<CpuSession>,
    wide: Option<CpuSession>,
    reserve: Option<Reserve>,
}

impl CpuSessions {
    pub(super) fn new(sessions: Sessions) -> Self {
        let Sessions {
            narrow,
            wide,
            reserve,
            place,
        } = sessions;
        let at_place = |session| CpuSession { session, place };
        Self {
            narrow: narrow.into_iter().map(at_place).collect(),
            wide: wide.map(at_place),
            reserve,
        }
    }
}

enum Taken {
    Wide(CpuSession),
    Narrow(CpuSession),
}

impl Taken {
    fn get(&mut self) -> &mut CpuSession {
        match self {
            Self::Wide(session) | Self::Narrow(session) => session,
        }
    }
}

impl Shared {
    fn sessions(&self) -> MutexGuard<'_, CpuSessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn queue_turn(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        self.pool.spawn(Stage::Infer, move || shared.turn());
    }

    pub(super) fn turn_next(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        self.pool.spawn_next(Stage::Infer, move || shared.turn());
    }

    /// Runs the oldest rows that are due on a free session, on this thread.
    fn turn(self: &Arc<Self>) {
        let Some(mut session) = self.take_session() else {
            // All are running, and whoever ends first looks again.
            return;
        };
        if let Some(piece) = self.next_piece() {
            self.run(session.get(), piece);
        }
        self.put_back(session);
        if self.is_due() {
            self.queue_turn();
        }
    }

    fn is_due(&self) -> bool {
        let now = self.clock.monotonic();
        !self.pieces().is_empty() || self.batcher().is_due(Route::Cpu, now)
    }

    fn pieces(&self) -> MutexGuard<'_, VecDeque<Piece>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next rows that somebody waits for.
    fn next_piece(self: &Arc<Self>) -> Option<Piece> {
        loop {
            let waiting = self.pieces().pop_front();
            let piece = match waiting {
                Some(piece) => piece,
                None => self.cut()?,
            };
            if !piece.callers.iter().all(|(reply, _)| reply.is_abandoned()) {
                return Some(piece);
            }
            self.metrics.skipped(piece.callers.len());
        }
    }

    /// Cuts the oldest slab that is due.
    fn cut(self: &Arc<Self>) -> Option<Piece> {
        let now = self.clock.monotonic();
        let (look, route) = {
            let mut batcher = self.batcher();
            (batcher.look(Route::Cpu, now), batcher.route())
        };
        self.metrics.skipped(look.skipped);
        let cut = look.cut?;
        let is_fallback = self.device.is_some() && route == Route::Cpu;
        let piece = Piece {
            rows: 0..cut.callers.len(),
            staged: Arc::new(cut.staged),
            callers: cut.callers,
            fallback: is_fallback.then_some(Fault::Down),
        };
        if is_fallback {
            self.count_fallback(Fault::Down, piece.callers.len());
        }
        let most = self.groupings.cpu.max_rows.get();
        if piece.callers.len() <= most {
            return Some(piece);
        }
        self.divide(piece, most);
        self.pieces().pop_front()
    }

    /// Lets rows that the device did not run, or not well, run here.
    pub(super) fn fall_back(self: &Arc<Self>, piece: Piece, fault: Fault) {
        self.count_fallback(fault, piece.callers.len());
        let piece = Piece {
            fallback: Some(fault),
            ..piece
        };
        self.divide(piece, self.groupings.cpu.max_rows.get());
    }

    /// Lets rows run here as they are.
    pub(super) fn run_on_cpu(self: &Arc<Self>, piece: Piece) {
        self.pieces().push_back(piece);
        self.queue_turn();
    }

    fn count_fallback(&self, fault: Fault, rows: usize) {
        self.metrics.fell_back(fault.name(), rows);
        if let Some(device) = &self.device {
            device.health.fell_back(fault, rows);
        }
    }

    /// Queues rows in pieces of at most `most`, so that all sessions can share them.
    fn divide(self: &Arc<Self>, piece: Piece, most: usize) {
        let mut first = piece.rows.start;
        let mut callers = piece.callers.into_iter();
        loop {
            let part: Vec<_> = callers.by_ref().take(most).collect();
            if part.is_empty() {
                return;
            }
            let rows = first..first + part.len();
            first = rows.end;
            self.run_on_cpu(Piece {
                staged: Arc::clone(&piece.staged),
                rows,
                callers: part,
                fallback: piece.fallback,
            });
        }
    }

    /// The wide session when this row is all there is to do; otherwise a narrow one.
    fn take_session(&self) -> Option<Taken> {
        let is_alone =
            self.pool.is_quiet() && self.pieces().len() + self.batcher().waiting(Route::Cpu) == 1;
        let mut sessions = self.sessions();
        if is_alone && let Some(session) = sessions.wide.take() {
            return Some(Taken::Wide(session));
        }
        sessions.narrow.pop().map(Taken::Narrow)
    }

    fn put_back(&self, session: Taken) {
        let mut sessions = self.sessions();
        match session {
            Taken::Wide(session) => sessions.wide = Some(session),
            Taken::Narrow(session) => sessions.narrow.push(session),
        }
    }

    fn run(&self, taken: &mut CpuSession, piece: Piece) {
        let started_at = self.clock.monotonic();
        let room = piece.staged.room - piece.rows.start;
        let rows = self.groupings.cpu.padded(piece.rows.len(), room);
        let batch = Batch {
            row_shape: &piece.staged.shape,
            data: piece
                .staged
                .values(piece.rows.start..piece.rows.start + rows),
            frees_memory: piece.staged.unusual,
        };
        let mut ran = run_caught(taken.session.as_mut(), batch);
        let reserve = self.sessions().reserve.clone();
        if let (Err(error), Some(reserve)) = (&ran, reserve) {
            tracing::warn!(%error, "a run failed on the cpu's provider; the runtime's own takes its place");
            if let Ok(replacement) = reserve() {
                *taken = CpuSession {
                    session: replacement,
                    place: Place::CPU,
                };
                ran = run_caught(taken.session.as_mut(), batch);
            }
        }
        let outcome: Outcome = ran.map(|outputs| in_rows(outputs, rows)).map_err(Arc::new);
        let ran = self.clock.monotonic().saturating_sub(started_at);
        if outcome.is_ok() {
            self.metrics
                .ran(Provider::Cpu.name(), piece.callers.len(), ran);
        }
        let times = Times {
            ran_on: taken.place,
            started_at,
            ran,
        };
        self.answer(piece, outcome, times);
    }
}

/// A run whose panic is an error of its rows.
fn run_caught(session: &mut dyn Session, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
    catch_unwind(AssertUnwindSafe(|| session.run(batch))).unwrap_or_else(|_| {
        Err(BackendError::Run {
            detail: "the runtime panicked".to_owned(),
        })
    })
}
