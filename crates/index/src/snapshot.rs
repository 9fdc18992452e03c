//! What a search reads while the slab changes.

use std::sync::Arc;

use crate::segment::Segment;

/// The rows of a slab at one moment. Later changes of the slab do not appear in it.
///
/// A clone shares the segments. The codes of a row that is removed later stay in memory until the last snapshot with that
/// row is dropped.
#[derive(Clone)]
pub struct Snapshot {
    segments: Vec<Arc<Segment>>,
    rows: usize,
}

impl Snapshot {
    pub(crate) fn new(segments: Vec<Arc<Segment>>, rows: usize) -> Self {
        Self { segments, rows }
    }

    /// Returns the segments. Each can be scanned in a job of its own.
    pub fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// Returns the number of live rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns whether no row is live.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }
}
