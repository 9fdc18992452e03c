//! The memory of one batch. Its rows lie one after the other, and one caller writes each row.
//!
//! A caller writes pixels once, into the row that runs. Rows are split off one buffer, so several threads can write
//! without a lock. Joining the rows copies nothing.

use std::ops::Range;

use bytes::BytesMut;

/// Alignment of a buffer in bytes: one cache line.
const ALIGNMENT: usize = 64;

/// Memory for a number of rows of `f32` values.
#[derive(Debug)]
pub(super) struct BatchBuffer {
    /// The part that no row has been split off yet.
    rest: BytesMut,
    row_bytes: usize,
    /// The size of the memory, at least that of all rows.
    capacity: usize,
}

/// The memory of one row.
#[derive(Debug, Default)]
pub(super) struct RowMemory(BytesMut);

impl RowMemory {
    /// Returns the row's values. Until the caller writes them, they can be those of an earlier row.
    pub fn values(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

impl BatchBuffer {
    /// Creates a buffer of `rows` rows of `row_len` values, all zero.
    pub fn new(rows: usize, row_len: usize) -> Self {
        let row_bytes = row_len * size_of::<f32>();
        let total_bytes = rows * row_bytes;
        let mut rest = BytesMut::zeroed(total_bytes + ALIGNMENT);
        let skipped = rest.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let _ = rest.split_to(skipped);
        rest.truncate(total_bytes);
        Self {
            rest,
            row_bytes,
            capacity: total_bytes,
        }
    }

    /// Returns the size of the buffer's memory in bytes, with the rows that are split off.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns whether [`reshaped`](Self::reshaped) can make such rows of this memory without wasting half of it.
    pub fn suits(&self, rows: usize, row_len: usize) -> bool {
        let bytes = rows * row_len * size_of::<f32>();
        (bytes..=2 * bytes).contains(&self.capacity)
    }

    /// Changes the number and the length of the rows. No row may be split off.
    pub fn reshaped(mut self, rows: usize, row_len: usize) -> Self {
        self.row_bytes = row_len * size_of::<f32>();
        // This does not move the memory, because it has room for rows that suit it.
        self.rest.resize(rows * self.row_bytes, 0);
        self
    }

    /// Splits off the next row. Returns `None` if all rows are split off.
    pub fn split_row(&mut self) -> Option<RowMemory> {
        (self.rest.len() >= self.row_bytes).then(|| RowMemory(self.rest.split_to(self.row_bytes)))
    }

    /// Puts the buffer together again from all rows that were split off, in their order.
    pub fn join(self, rows: impl IntoIterator<Item = RowMemory>) -> Self {
        let mut joined = BytesMut::new();
        for RowMemory(row) in rows {
            joined.unsplit(row);
        }
        joined.unsplit(self.rest);
        Self {
            rest: joined,
            ..self
        }
    }

    /// Returns the values of the rows in `rows`.
    pub fn values(&self, rows: Range<usize>) -> &[f32] {
        bytemuck::cast_slice(&self.rest[rows.start * self.row_bytes..rows.end * self.row_bytes])
    }

    /// Sets the rows from `first` up to, but not including, `end` to zero.
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
    fn rows_are_written_by_several_threads_and_joined_without_a_copy() {
        let buffer = BatchBuffer::new(3, 2);
        let address = buffer.rest.as_ptr();
        assert_eq!(address.align_offset(ALIGNMENT), 0);
        let mut buffer = buffer;
        let mut rows: Vec<_> = (0..3).map(|_| buffer.split_row().unwrap()).collect();
        assert!(buffer.split_row().is_none());
        // Other threads write in another order.
        std::thread::scope(|scope| {
            for (index, row) in rows.iter_mut().enumerate().rev() {
                scope.spawn(move || row.values().fill(index as f32));
            }
        });
        let mut buffer = buffer.join(rows);
        assert_eq!(buffer.rest.as_ptr(), address);
        assert_eq!(buffer.values(0..3), [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
        buffer.copy_row(2, 0);
        assert_eq!(buffer.values(0..2), [2.0, 2.0, 1.0, 1.0]);
        assert_eq!(buffer.capacity(), 24);
    }

    #[test]
    fn memory_is_reused_for_rows_of_another_length() {
        let buffer = BatchBuffer::new(2, 6);
        let address = buffer.rest.as_ptr();
        assert!(buffer.suits(2, 6) && buffer.suits(2, 3) && buffer.suits(1, 7));
        assert!(!buffer.suits(2, 7), "too small");
        assert!(!buffer.suits(2, 2), "a waste");
        let mut buffer = buffer.reshaped(1, 7);
        let mut row = buffer.split_row().unwrap();
        row.values().fill(1.0);
        assert!(buffer.split_row().is_none());
        let mut buffer = buffer.join([row]).reshaped(2, 6);
        assert_eq!((buffer.rest.as_ptr(), buffer.capacity()), (address, 48));
        let rows = [buffer.split_row().unwrap(), buffer.split_row().unwrap()];
        assert!(buffer.split_row().is_none());
        assert_eq!(buffer.join(rows).values(0..2).len(), 12);
    }

    #[test]
    fn a_partly_used_buffer_can_be_joined() {
        let mut buffer = BatchBuffer::new(4, 1);
        for _ in 0..3 {
            let row = buffer.split_row().unwrap();
            assert_eq!(buffer.capacity(), 16, "a row is split off");
            buffer = buffer.join([row]);
            assert_eq!(buffer.values(0..4).len(), 4, "the row is joined again");
        }
    }
}
