//! Regions: rectangles in integer pixel coordinates, and access to their pixels.

use image::RgbImage;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::checkpoint::passed;

pub(super) const CHANNELS: usize = 3;

/// A half-open rectangle in integer pixel coordinates: `x1 ≤ x < x2` and `y1 ≤ y < y2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Region {
    /// The first column.
    pub x1: u32,
    /// The first row.
    pub y1: u32,
    /// The column after the last.
    pub x2: u32,
    /// The row after the last.
    pub y2: u32,
}

impl Region {
    /// Returns the complete image of `width` × `height`.
    pub fn full((width, height): (u32, u32)) -> Self {
        Self {
            x1: 0,
            y1: 0,
            x2: width,
            y2: height,
        }
    }

    /// Returns the width in pixels.
    pub fn width(&self) -> u32 {
        self.x2.saturating_sub(self.x1)
    }

    /// Returns the height in pixels.
    pub fn height(&self) -> u32 {
        self.y2.saturating_sub(self.y1)
    }

    /// Returns whether the region has no pixels.
    pub fn is_empty(&self) -> bool {
        self.width() == 0 || self.height() == 0
    }

    /// Returns the part inside an image of `width` × `height`. A side whose end is before its start has no length.
    pub fn clipped(&self, (width, height): (u32, u32)) -> Self {
        let (x1, y1) = (self.x1.min(width), self.y1.min(height));
        Self {
            x1,
            y1,
            x2: self.x2.clamp(x1, width),
            y2: self.y2.clamp(y1, height),
        }
    }

    /// Returns the smallest region around both.
    pub fn union(self, other: Self) -> Self {
        Self {
            x1: self.x1.min(other.x1),
            y1: self.y1.min(other.y1),
            x2: self.x2.max(other.x2),
            y2: self.y2.max(other.y2),
        }
    }

    pub(super) fn spans(&self) -> [Span; 2] {
        [(self.x1, self.x2), (self.y1, self.y2)].map(|(start, end)| Span { start, end })
    }
}

impl From<Region> for [u32; 4] {
    fn from(region: Region) -> Self {
        [region.x1, region.y1, region.x2, region.y2]
    }
}

impl From<[u32; 4]> for Region {
    fn from([x1, y1, x2, y2]: [u32; 4]) -> Self {
        Self { x1, y1, x2, y2 }
    }
}

impl From<[Span; 2]> for Region {
    fn from([x, y]: [Span; 2]) -> Self {
        Self {
            x1: x.start,
            y1: y.start,
            x2: x.end,
            y2: y.end,
        }
    }
}

/// A side of a region inside a frame: the first pixel, and the pixel after the last.
#[derive(Clone, Copy)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(super) fn length(self) -> u32 {
        self.end - self.start
    }

    /// Moves both ends outwards by `ratio` of the length, rounded down, and clips them to the frame. Returns whether
    /// they were clipped.
    pub(super) fn padded(self, ratio: f32, frame: u32) -> (Self, bool) {
        // The cast saturates, and returns 0 for negative values and NaN.
        let pad = (self.length() as f32 * ratio) as u32;
        let end = self.end.saturating_add(pad);
        let padded = Self {
            start: self.start.saturating_sub(pad),
            end: end.min(frame),
        };
        (padded, pad > self.start || end > frame)
    }

    /// Grows the span to `length`, or to the frame if that is shorter. Half of the growth, rounded down, goes before
    /// the span and the rest after it. Growth that does not fit at one end goes to the other.
    pub(super) fn grown(self, length: u32, frame: u32) -> Self {
        let length = length.min(frame).max(self.length());
        let before = (length - self.length()) / 2;
        let start = self.start.saturating_sub(before).min(frame - length);
        Self {
            start,
            end: start + length,
        }
    }

    /// Grows the span to an even length if the frame has room: by one pixel at the end, or else at the start.
    pub(super) fn even(self, frame: u32) -> Self {
        let odd = self.length() % 2;
        self.grown(self.length().saturating_add(odd), frame)
    }
}

/// Returns the samples of each row of a region inside the image. Each row is a checkpoint.
pub(crate) fn rows(image: &RgbImage, region: Region) -> impl Iterator<Item = &[u8]> {
    let (first, last) = (region.y1 as usize, region.y2 as usize);
    let columns = region.x1 as usize * CHANNELS..region.x2 as usize * CHANNELS;
    let stride = image.width() as usize * CHANNELS;
    let all = image.as_raw().chunks_exact(stride.max(1));
    all.take(last)
        .skip(first)
        .map(move |row| &row[columns.clone()])
        .inspect(|row| passed(row.len()))
}

/// Returns the samples of each row of a region inside the image, mutable. Each row is a checkpoint.
pub(crate) fn rows_mut(image: &mut RgbImage, region: Region) -> impl Iterator<Item = &mut [u8]> {
    let (first, last) = (region.y1 as usize, region.y2 as usize);
    let columns = region.x1 as usize * CHANNELS..region.x2 as usize * CHANNELS;
    let stride = image.width() as usize * CHANNELS;
    let all = image.chunks_exact_mut(stride.max(1));
    all.take(last)
        .skip(first)
        .map(move |row| &mut row[columns.clone()])
        .inspect(|row| passed(row.len()))
}

/// Replaces the pixels of a region inside the image by `pixels`, an image of the region's size.
pub fn put(image: &mut RgbImage, region: Region, pixels: &RgbImage) {
    let stride = pixels.width() as usize * CHANNELS;
    let lines = pixels.as_raw().chunks_exact(stride.max(1));
    for (row, line) in rows_mut(image, region).zip(lines) {
        row.copy_from_slice(line);
    }
}
