//! Staging memory: the rows of one batch, each owned by whoever writes it, back to back in one piece.
//!
//! Pixels are written once, into the row they run from. The rows are pieces split off one buffer, so that several
//! threads write at the same time without sharing anything, and joining them again copies nothing.

use std::ops::Range;

use bytes::BytesMut;

/// Where a slab's memory begins, in bytes: a cache line, which is what the runtimes' kernels like best.
const ALIGNMENT: usize = 64;

/// Memory for a number of rows of `f32` values.
#[derive(Debug)]
pub(super) struct Slab {
    /// What no row has been split off yet.
    rest: BytesMut,
    row_bytes: usize,
}

/// The memory of one row.
#[derive(Debug, Default)]
pub(super) struct RowMemory(BytesMut);

impl RowMemory {
    /// The row's values. What they are before they are written is whatever an earlier row left there.
    pub fn values(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

impl Slab {
    /// A slab of `rows` rows of `row_len` values, all zero.
    pub fn new(rows: usize, row_len: usize) -> Self {
        let row_bytes = row_len * size_of::<f32>();
        let bytes = rows * row_bytes;
        let mut rest = BytesMut::zeroed(bytes + ALIGNMENT);
        let skipped = rest.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let _ = rest.split_to(skipped);
        rest.truncate(bytes);
        Self { rest, row_bytes }
    }

    /// How many bytes it has, when no row is out.
    pub fn bytes(&self) -> usize {
        self.rest.len()
    }

    /// The next row; `None` when all are out.
    pub fn split_row(&mut self) -> Option<RowMemory> {
        (self.rest.len() >= self.row_bytes).then(|| RowMemory(self.rest.split_to(self.row_bytes)))
    }

    /// Puts the slab together again from its rows, all that were split off, in the order they were.
    pub fn join(self, rows: impl IntoIterator<Item = RowMemory>) -> Self {
        let mut whole = BytesMut::new();
        for RowMemory(row) in rows {
            whole.unsplit(row);
        }
        whole.unsplit(self.rest);
        Self {
            rest: whole,
            row_bytes: self.row_bytes,
        }
    }

    /// The values of some rows.
    pub fn values(&self, rows: Range<usize>) -> &[f32] {
        bytemuck::cast_slice(&self.rest[rows.start * self.row_bytes..rows.end * self.row_bytes])
    }

    /// Sets the rows from `first` on to zero, up to `end`.
    pub fn clear_rows(&mut self, first: usize, end: usize) {
        self.rest[first * self.row_bytes..end * self.row_bytes].fill(0);
    }

    /// Copies row `from` over row `to`.
    pub fn copy_row(&mut self, from: usize, to: usize) {
        let start = from * self.row_bytes;
        self.rest
            .copy_within(start..start + self.row_bytes, to * self.row_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_written_apart_and_joined_without_a_copy() {
        let slab = Slab::new(3, 2);
        let address = slab.rest.as_ptr();
        assert_eq!(address.align_offset(ALIGNMENT), 0);
        let mut slab = slab;
        let mut rows: Vec<_> = (0..3).map(|_| slab.split_row().unwrap()).collect();
        assert!(slab.split_row().is_none());
        // From other threads, in another order.
        std::thread::scope(|scope| {
            for (index, row) in rows.iter_mut().enumerate().rev() {
                scope.spawn(move || row.values().fill(index as f32));
            }
        });
        let mut slab = slab.join(rows);
        assert_eq!(slab.rest.as_ptr(), address);
        assert_eq!(slab.values(0..3), [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
        slab.copy_row(2, 0);
        assert_eq!(slab.values(0..2), [2.0, 2.0, 1.0, 1.0]);
        assert_eq!(slab.bytes(), 24);
    }

    #[test]
    fn a_slab_that_was_used_in_part_is_whole_again() {
        let mut slab = Slab::new(4, 1);
        for _ in 0..3 {
            let row = slab.split_row().unwrap();
            slab = slab.join([row]);
            assert_eq!(slab.bytes(), 16);
        }
    }
}
