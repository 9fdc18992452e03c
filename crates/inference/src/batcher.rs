//! Which rows run together: open slabs that fill while the device works, and the cut that takes one to run.
//!
//! A row is claimed, written by its owner and then made ready. Rows of one shape share a slab until it is full. A slab
//! is cut as soon as there is a session for it and none of its rows is being written; rows whose caller has left are
//! dropped then. Nothing here waits or runs: it is the state that an engine keeps behind a lock.

use std::{collections::VecDeque, num::NonZeroUsize, ops::Range, sync::Arc, time::Duration};

use super::slab::{RowMemory, Slab};

/// How rows are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// Most rows in one run.
    pub max_rows: NonZeroUsize,
    /// How many rows a run may have, the missing ones being ignored.
    pub sizes: Sizes,
    /// How long the first row of a slab may wait for others.
    pub max_delay: Duration,
}

/// How many rows a run may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// As many as there are.
    Any,
    /// A power of two, so that the device meets few shapes: each one takes memory, and compilation on some.
    Buckets,
    /// Always `max_rows`.
    Fixed,
}

impl Grouping {
    /// How many rows run for `rows` that are wanted, of a slab that has `room`.
    pub(super) fn padded(&self, rows: usize, room: usize) -> usize {
        match self.sizes {
            Sizes::Any => rows,
            Sizes::Buckets => Some(rows.next_power_of_two())
                .filter(|&bucket| bucket <= room)
                .unwrap_or(rows),
            Sizes::Fixed => room,
        }
    }
}

/// Where rows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// To the CPU's sessions.
    Cpu,
    /// To the device.
    Device,
}

/// How rows are grouped by where they go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Groupings {
    pub cpu: Grouping,
    pub device: Option<Grouping>,
}

impl Groupings {
    fn of(&self, route: Route) -> &Grouping {
        match route {
            Route::Cpu => &self.cpu,
            Route::Device => self.device.as_ref().unwrap_or(&self.cpu),
        }
    }

    /// The most rows that any slab has.
    fn most_rows(&self) -> usize {
        let device = self.device.map_or(0, |device| device.max_rows.get());
        self.cpu.max_rows.get().max(device)
    }
}

/// What a row's caller waits on.
pub(super) trait Reply {
    /// Whether the caller has left.
    fn is_abandoned(&self) -> bool;
}

/// The state of one engine's rows. `R` answers a row's caller.
pub(super) struct Batcher<R> {
    groupings: Groupings,
    /// Where the rows that are claimed now go.
    route: Route,
    /// Oldest first.
    open: VecDeque<Open<R>>,
    spare: VecDeque<(RowShape, Slab)>,
    max_spare: usize,
    /// Slabs of more bytes are freed after use: they come from requests with sizes of their own.
    max_spare_bytes: usize,
    next_id: u64,
}

/// The shape of one row, such as `[3, 640, 640]`.
pub(super) type RowShape = Arc<[usize]>;

struct Open<R> {
    id: u64,
    route: Route,
    shape: RowShape,
    slab: Slab,
    rows: Vec<Slot<R>>,
    claimed_at: Duration,
}

enum Slot<R> {
    /// Its owner has the memory.
    Writing,
    Ready(Ready<R>),
    /// Given up by its owner.
    Void(RowMemory),
}

struct Ready<R> {
    memory: RowMemory,
    reply: R,
    ready_at: Duration,
}

/// Where a claimed row belongs.
#[derive(Debug)]
pub(super) struct Place {
    slab: u64,
    row: usize,
}

/// The rows of a slab that was taken out to run.
#[derive(Debug)]
pub(super) struct Staged {
    pub shape: RowShape,
    slab: Slab,
    /// How many rows there is room for.
    pub room: usize,
    /// Whether the slab is larger than those that are kept.
    pub unusual: bool,
}

impl Staged {
    /// The values of some rows.
    pub fn values(&self, rows: Range<usize>) -> &[f32] {
        self.slab.values(rows)
    }
}

/// A slab taken out to run.
pub(super) struct Cut<R> {
    pub staged: Staged,
    /// Who waits for the first rows of the slab, in their order, and since when.
    pub callers: Vec<(R, Duration)>,
}

/// What a look for a slab to run gave.
pub(super) struct Look<R> {
    pub cut: Option<Cut<R>>,
    /// Rows that were dropped because their callers had left.
    pub skipped: usize,
}

impl<R: Reply> Batcher<R> {
    /// A batcher that keeps up to `max_spare` slabs, of rows of at most `usual_row_len` values, for reuse.
    pub fn new(groupings: Groupings, max_spare: usize, usual_row_len: usize) -> Self {
        Self {
            groupings,
            route: if groupings.device.is_some() {
                Route::Device
            } else {
                Route::Cpu
            },
            open: VecDeque::new(),
            spare: VecDeque::new(),
            max_spare,
            max_spare_bytes: groupings.most_rows() * usual_row_len * size_of::<f32>(),
            next_id: 0,
        }
    }

    /// Where the rows that are claimed now go.
    pub fn route(&self) -> Route {
        self.route
    }

    /// Sends the rows that are claimed from now on another way. Those that were claimed for the device go to the CPU
    /// with them.
    pub fn send_to(&mut self, route: Route) {
        self.route = route;
    }

    /// The next row of the open slab of this shape; of a new slab when there is none with room.
    pub fn claim(&mut self, shape: &[usize], now: Duration) -> (Place, RowMemory) {
        for open in &mut self.open {
            if open.route == self.route
                && *open.shape == *shape
                && let Some(memory) = open.slab.split_row()
            {
                open.rows.push(Slot::Writing);
                let place = Place {
                    slab: open.id,
                    row: open.rows.len() - 1,
                };
                return (place, memory);
            }
        }
        let rows = self.groupings.of(self.route).max_rows.get();
        let row_len = shape.iter().product::<usize>();
        let bytes = rows * row_len * size_of::<f32>();
        let kept = self
            .spare
            .iter()
            .rposition(|(spare, slab)| **spare == *shape && slab.bytes() == bytes);
        let (shape, mut slab) = kept
            .and_then(|index| self.spare.remove(index))
            .unwrap_or_else(|| (shape.into(), Slab::new(rows, row_len)));
        let id = self.next_id;
        self.next_id += 1;
        // A slab has room for at least one row; an empty one stands for a shape without values.
        let memory = slab.split_row().unwrap_or_default();
        self.open.push_back(Open {
            id,
            route: self.route,
            shape,
            slab,
            rows: vec![Slot::Writing],
            claimed_at: now,
        });
        (Place { slab: id, row: 0 }, memory)
    }

    /// Takes a written row back; it can run from now on.
    pub fn ready(&mut self, place: &Place, memory: RowMemory, reply: R, now: Duration) {
        let ready = Ready {
            memory,
            reply,
            ready_at: now,
        };
        self.put(place, Slot::Ready(ready));
    }

    /// Takes back a row that will not be written.
    pub fn give_up(&mut self, place: &Place, memory: RowMemory) {
        self.put(place, Slot::Void(memory));
    }

    fn put(&mut self, place: &Place, slot: Slot<R>) {
        // A slab with a claimed row is never cut, so it is still there.
        let open = self.open.iter_mut().find(|open| open.id == place.slab);
        if let Some(row) = open.and_then(|open| open.rows.get_mut(place.row)) {
            *row = slot;
        }
    }

    /// How many rows are ready to run that way.
    pub fn waiting(&self, route: Route) -> usize {
        self.open
            .iter()
            .filter(|open| self.goes(open, route))
            .flat_map(|open| &open.rows)
            .filter(|row| matches!(row, Slot::Ready(_)))
            .count()
    }

    fn goes(&self, open: &Open<R>, route: Route) -> bool {
        open.route == route || (route == Route::Cpu && self.route == Route::Cpu)
    }

    /// Takes the oldest slab that can run that way.
    pub fn look(&mut self, route: Route, now: Duration) -> Look<R> {
        let mut skipped = 0;
        let mut index = 0;
        while let Some(open) = self.open.get(index) {
            if !(self.goes(open, route) && self.can_run(open, now)) {
                index += 1;
                continue;
            }
            let Some(open) = self.open.remove(index) else {
                break;
            };
            let (cut, dropped) = self.cut(open);
            skipped += dropped;
            if cut.callers.is_empty() {
                self.keep(cut.staged);
                continue;
            }
            let cut = Some(cut);
            return Look { cut, skipped };
        }
        Look { cut: None, skipped }
    }

    /// Whether a slab can run that way now.
    pub fn is_due(&self, route: Route, now: Duration) -> bool {
        self.open
            .iter()
            .any(|open| self.goes(open, route) && self.can_run(open, now))
    }

    fn can_run(&self, open: &Open<R>, now: Duration) -> bool {
        let is_written = !open.rows.iter().any(|row| matches!(row, Slot::Writing));
        let grouping = self.groupings.of(open.route);
        let is_full = open.rows.len() == grouping.max_rows.get();
        let has_waited = now.saturating_sub(open.claimed_at) >= grouping.max_delay;
        is_written && (is_full || has_waited)
    }

    /// Joins the rows, and moves those that run into the places of those that do not.
    fn cut(&self, open: Open<R>) -> (Cut<R>, usize) {
        let claimed = open.rows.len();
        let mut memories = Vec::with_capacity(claimed);
        let mut live = Vec::with_capacity(claimed);
        let mut skipped = 0;
        for (row, slot) in open.rows.into_iter().enumerate() {
            match slot {
                Slot::Ready(ready) => {
                    memories.push(ready.memory);
                    if ready.reply.is_abandoned() {
                        skipped += 1;
                    } else {
                        live.push((row, ready.reply, ready.ready_at));
                    }
                }
                Slot::Void(memory) => memories.push(memory),
                Slot::Writing => {}
            }
        }
        let mut slab = open.slab.join(memories);
        let callers: Vec<_> = live
            .into_iter()
            .enumerate()
            .map(|(to, (from, reply, ready_at))| {
                if from != to {
                    slab.copy_row(from, to);
                }
                (reply, ready_at)
            })
            .collect();
        let grouping = self.groupings.of(open.route);
        let room = grouping.max_rows.get();
        // Nothing of an earlier request runs again.
        slab.clear_rows(callers.len(), grouping.padded(callers.len(), room));
        let cut = Cut {
            staged: Staged {
                unusual: slab.bytes() > self.max_spare_bytes,
                shape: open.shape,
                slab,
                room,
            },
            callers,
        };
        (cut, skipped)
    }

    /// Keeps a slab for later rows of its shape, in the place of the one that has gone unused the longest.
    pub fn keep(&mut self, staged: Staged) {
        if staged.unusual {
            return;
        }
        if self.spare.len() >= self.max_spare {
            self.spare.pop_front();
        }
        self.spare.push_back((staged.shape, staged.slab));
    }
}

#[cfg(test)]
mod tests;
