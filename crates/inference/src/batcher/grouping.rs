//! How rows are grouped into batches.

use std::{num::NonZeroUsize, time::Duration};

/// How rows are grouped into batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// The maximum number of rows in one run.
    pub max_rows: NonZeroUsize,
    /// The number of rows that a run may have. Missing rows are padded with zeros, and their outputs are ignored.
    pub sizes: BatchSizes,
    /// The time that the first row of a batch may wait for others.
    pub max_delay: Duration,
}

/// The number of rows that a run may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSizes {
    /// Any number.
    Any,
    /// A power of two or `max_rows`, so that the device sees few shapes. Each shape takes memory, and some runtimes
    /// compile for it.
    Buckets,
    /// Always `max_rows`.
    Fixed,
}

impl Grouping {
    /// Returns the number of rows that run for `rows` rows. `available` is the number of rows that the buffer has.
    pub(crate) fn padded(&self, rows: usize, available: usize) -> usize {
        match self.sizes {
            BatchSizes::Any => rows,
            BatchSizes::Buckets => rows.next_power_of_two().min(available),
            BatchSizes::Fixed => available,
        }
    }
}

/// The route of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// To the sessions on the CPU.
    Cpu,
    /// To the device.
    Device,
}

/// The grouping of each route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteGroupings {
    pub cpu: Grouping,
    pub device: Option<Grouping>,
}

impl RouteGroupings {
    pub fn of(&self, route: Route) -> &Grouping {
        match route {
            Route::Cpu => &self.cpu,
            Route::Device => self.device.as_ref().unwrap_or(&self.cpu),
        }
    }

    /// Returns the largest capacity of a batch buffer, in rows.
    pub fn max_rows(&self) -> usize {
        let device = self.device.map_or(0, |device| device.max_rows.get());
        self.cpu.max_rows.get().max(device)
    }
}
