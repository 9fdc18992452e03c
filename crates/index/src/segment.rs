//! A part of a slab: consecutive rows, and their codes one after the other.

use std::ops::Range;

use crate::vector::Row;

#[cfg(test)]
mod tests;

/// The smallest number of rows that a segment grows by, and that it may have room for beyond a quarter of its rows.
pub(crate) const MIN_GROWTH: usize = 8;

/// Rows of a slab with ascending ids. It does not change while a snapshot holds it.
///
/// A removed row stays as a dead slot until the segment is compacted. Its codes are zero, and its scale is NaN: every
/// comparison with a threshold refuses NaN, so a scan needs no check of its own.
#[derive(Clone)]
pub struct Segment {
    dim: usize,
    /// Ascending ids, those of dead slots included.
    rows: Vec<u64>,
    /// One scale a slot.
    scales: Vec<f32>,
    /// `dim` codes a slot.
    codes: Vec<i8>,
    /// The number of dead slots.
    dead: usize,
}

impl Segment {
    /// Creates an empty segment with room for `slots` rows.
    pub(crate) fn with_capacity(dim: usize, slots: usize) -> Self {
        Self {
            dim,
            rows: Vec::with_capacity(slots),
            scales: Vec::with_capacity(slots),
            codes: Vec::with_capacity(slots * dim),
            dead: 0,
        }
    }

    /// Copies the live rows of all parts, which follow one another, into a segment without spare room.
    ///
    /// New memory is used, so that no codes remain in the room after the last slot.
    pub(crate) fn gather(dim: usize, parts: &[(&Self, Range<usize>)]) -> Self {
        let live = |(part, slots): &(&Self, Range<usize>)| {
            slots.clone().filter(|&slot| part.is_live(slot)).count()
        };
        let mut gathered = Self::with_capacity(dim, parts.iter().map(live).sum());
        for (part, slots) in parts {
            for slot in slots.clone().filter(|&slot| part.is_live(slot)) {
                gathered.rows.push(part.rows[slot]);
                gathered.scales.push(part.scales[slot]);
                gathered
                    .codes
                    .extend_from_slice(&part.codes[slot * dim..][..dim]);
            }
        }
        gathered
    }

    /// Returns the number of values of a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the number of live rows.
    pub fn len(&self) -> usize {
        self.rows.len() - self.dead
    }

    /// Returns whether no row is live.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size in bytes, with the room for rows to come.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.rows.capacity() * size_of::<u64>()
            + self.scales.capacity() * size_of::<f32>()
            + self.codes.capacity()
    }

    /// Returns the ids of all slots, ascending.
    pub(crate) fn rows(&self) -> &[u64] {
        &self.rows
    }

    /// Returns the scales of all slots; NaN marks a dead one.
    pub(crate) fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// Returns the codes of all slots.
    pub(crate) fn codes(&self) -> &[i8] {
        &self.codes
    }

    /// Returns whether the last id is below `row`.
    pub(crate) fn is_before(&self, row: u64) -> bool {
        self.rows.last().is_none_or(|&last| last < row)
    }

    /// Returns the slot of a row, or the slot where it would be.
    pub(crate) fn find(&self, row: u64) -> Result<usize, usize> {
        self.rows.binary_search(&row)
    }

    /// Returns whether the row of a slot was not removed.
    pub(crate) fn is_live(&self, slot: usize) -> bool {
        !self.scales[slot].is_nan()
    }

    /// Returns whether the live rows need less than four fifths of the memory.
    pub(crate) fn is_sparse(&self) -> bool {
        let live = self.len();
        live == 0 || self.rows.capacity() > live + live / 4 + MIN_GROWTH
    }

    /// Inserts a row in front of a slot. The segment grows by an eighth, to at most `limit` slots.
    pub(crate) fn insert(&mut self, slot: usize, id: u64, row: &Row, limit: usize) {
        let slots = self.rows.len();
        if slots == self.rows.capacity() {
            let room = limit.saturating_sub(slots);
            let growth = (slots / 8).max(MIN_GROWTH).min(room);
            self.rows.reserve_exact(growth);
            self.scales.reserve_exact(growth);
            self.codes.reserve_exact(growth * self.dim);
        }
        self.rows.insert(slot, id);
        self.scales.insert(slot, row.scale);
        let start = slot * self.dim;
        if slot == slots {
            self.codes.extend_from_slice(&row.codes);
        } else {
            self.codes.splice(start..start, row.codes.iter().copied());
        }
    }

    /// Makes a dead slot live again, with other codes.
    pub(crate) fn revive(&mut self, slot: usize, row: &Row) {
        self.scales[slot] = row.scale;
        self.codes[slot * self.dim..][..self.dim].copy_from_slice(&row.codes);
        self.dead -= 1;
    }

    /// Overwrites the codes of a live row with zeros, and marks its slot as dead.
    pub(crate) fn remove(&mut self, slot: usize) {
        self.scales[slot] = f32::NAN;
        self.codes[slot * self.dim..][..self.dim].fill(0);
        self.dead += 1;
    }
}
