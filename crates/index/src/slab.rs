//! The rows of one collection.

use std::sync::Arc;

use crate::{
    error::IndexError,
    segment::Segment,
    vector::{Row, check_dim},
};

/// The number of rows of a full segment of up to 128 dimensions.
///
/// Segments of higher dimensions have fewer rows, so that a segment has at most 8 MiB of codes. This limits the time of a
/// scan, and the memory that a change copies during a scan.
pub const SEGMENT_ROWS: usize = 65_536;

/// The number of codes of a full segment, at most.
const SEGMENT_CODES: usize = SEGMENT_ROWS * 128;

/// The rows of one collection, quantized, in segments by ascending id.
///
/// A row has one code of 8 bits for each value, a scale of 4 bytes and an id of 8 bytes. There is no table of ids: a
/// binary search over the segments and then inside one finds a row. A change copies the segment that it changes if a
/// [snapshot](Self::snapshot) shares it, and no other.
pub struct Slab {
    dim: usize,
    /// Each has at least one live row. Their ids do not overlap, and ascend.
    segments: Vec<Arc<Segment>>,
    /// The number of live rows.
    rows: usize,
    /// The number of slots of a full segment.
    segment_rows: usize,
}

impl Slab {
    /// Creates an empty slab for vectors of `dim` values.
    ///
    /// # Errors
    /// Returns [`IndexError::UnsupportedDimension`] if `dim` is not from 1 to [`MAX_DIM`](crate::MAX_DIM).
    pub fn new(dim: usize) -> Result<Self, IndexError> {
        check_dim(dim)?;
        let segment_rows = (SEGMENT_CODES / dim).min(SEGMENT_ROWS);
        Ok(Self::with_segment_rows(dim, segment_rows))
    }

    /// Creates an empty slab with other sizes of segments. `dim` is supported, and `segment_rows` is at least 2.
    pub(crate) fn with_segment_rows(dim: usize, segment_rows: usize) -> Self {
        Self {
            dim,
            segments: Vec::new(),
            rows: 0,
            segment_rows,
        }
    }

    /// Returns the number of values of a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the number of live rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns whether no row is live.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns whether the row is live.
    pub fn contains(&self, row: u64) -> bool {
        self.locate(row).is_some()
    }

    /// Returns the size in bytes, without copies that only snapshots hold.
    ///
    /// It is at most 1.25 times that of the live rows, plus the room for eight rows in each segment.
    pub fn memory(&self) -> usize {
        // An `Arc` keeps two counters beside its value.
        let counters = 2 * size_of::<usize>();
        let segments = self.segments.iter();
        size_of::<Self>()
            + self.segments.capacity() * size_of::<Arc<Segment>>()
            + segments
                .map(|segment| counters + segment.memory())
                .sum::<usize>()
    }

    /// Returns the segments of the current rows, each of which can be scanned in a job of its own. This copies no rows.
    ///
    /// Later changes of the slab do not appear in it. The codes of a row that is removed later stay in memory until the last
    /// snapshot with that row is dropped.
    pub fn snapshot(&self) -> Vec<Arc<Segment>> {
        self.segments.clone()
    }

    /// Inserts a row with a vector of `dim` values, of any length but zero. Returns `false` if the row is already live;
    /// then its vector stays as it is.
    ///
    /// A row after all others is appended, which takes constant time on average. A row between others moves up to one
    /// segment.
    ///
    /// # Errors
    /// Returns an error if the vector has another dimension, a value that is not finite, or length zero.
    pub fn insert(&mut self, row: u64, vector: &[f32]) -> Result<bool, IndexError> {
        let codes = Row::new(vector, self.dim)?;
        let inserted = self.insert_codes(row, &codes);
        self.rows += usize::from(inserted);
        Ok(inserted)
    }

    /// Removes a row and overwrites its codes with zeros. Returns `false` if the row is not live.
    ///
    /// If a snapshot shares the segment, the codes stay in the memory of the snapshot until that is dropped.
    pub fn remove(&mut self, row: u64) -> bool {
        let Some((at, slot)) = self.locate(row) else {
            return false;
        };
        Arc::make_mut(&mut self.segments[at]).remove(slot);
        self.rows -= 1;
        self.compact_if_sparse(at);
        true
    }

    /// Returns the segment and the slot of a live row.
    fn locate(&self, row: u64) -> Option<(usize, usize)> {
        let at = self.position(row);
        let segment = self.segments.get(at)?;
        let slot = segment.find(row).ok()?;
        segment.is_live(slot).then_some((at, slot))
    }

    /// Returns the first segment that has an id of at least `row`. It is the only one that can have the row.
    fn position(&self, row: u64) -> usize {
        self.segments
            .partition_point(|segment| segment.is_before(row))
    }

    fn insert_codes(&mut self, id: u64, row: &Row) -> bool {
        let at = self.position(id);
        let Some(segment) = self.segments.get_mut(at) else {
            self.append(id, row);
            return true;
        };
        match segment.find(id) {
            Ok(slot) if segment.is_live(slot) => false,
            Ok(slot) => {
                Arc::make_mut(segment).revive(slot, row);
                true
            }
            Err(slot) if segment.rows().len() < self.segment_rows => {
                Arc::make_mut(segment).insert(slot, id, row, self.segment_rows);
                self.compact_if_sparse(at);
                true
            }
            Err(_) => {
                self.split(at);
                self.insert_codes(id, row)
            }
        }
    }

    /// Adds a row after all others.
    fn append(&mut self, id: u64, row: &Row) {
        let limit = self.segment_rows;
        match self.segments.last_mut() {
            Some(last) if last.rows().len() < limit => {
                let last = Arc::make_mut(last);
                last.insert(last.rows().len(), id, row, limit);
                self.compact_if_sparse(self.segments.len() - 1);
            }
            _ => {
                let mut segment = Segment::with_capacity(self.dim, 0);
                segment.insert(0, id, row, limit);
                self.segments.push(Arc::new(segment));
            }
        }
    }

    /// Replaces a segment by its halves, so that both have room.
    fn split(&mut self, at: usize) {
        let segment = &self.segments[at];
        let slots = segment.rows().len();
        let halves = [0..slots / 2, slots / 2..slots]
            .map(|slots| Segment::gather(self.dim, &[(segment, slots)]));
        let halves = halves.into_iter().filter(|half| !half.is_empty());
        self.segments.splice(at..=at, halves.map(Arc::new));
    }

    /// Compacts a segment if dead slots and room take too much of it. Growth beside dead slots can cause this too.
    fn compact_if_sparse(&mut self, at: usize) {
        if self.segments[at].is_sparse() {
            self.compact(at);
        }
    }

    /// Drops the dead slots of a segment, and joins it with neighbors if the two are at most half of a full one. Otherwise
    /// a slab that once was large would keep many small segments.
    fn compact(&mut self, at: usize) {
        let joins = |neighbor: Option<&Arc<Segment>>| {
            neighbor.is_some_and(|neighbor| {
                neighbor.len() + self.segments[at].len() <= self.segment_rows / 2
            })
        };
        let before = at.checked_sub(1).and_then(|at| self.segments.get(at));
        let first = at - usize::from(joins(before));
        let last = at + usize::from(joins(self.segments.get(at + 1)));
        let parts: Vec<_> = self.segments[first..=last]
            .iter()
            .map(|segment| (&**segment, 0..segment.rows().len()))
            .collect();
        let joined = Segment::gather(self.dim, &parts);
        let joined = (!joined.is_empty()).then(|| Arc::new(joined));
        self.segments.splice(first..=last, joined);
    }
}
