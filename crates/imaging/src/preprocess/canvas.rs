//! The output row, to which normalized lines are written.

use multiversion::multiversion;

use super::{Layout, RGB, lines::Levels};
use crate::{checkpoint::fill, tensor::Normalization};

/// A row of `3 · width · height` values.
pub(super) struct Canvas<'a> {
    row: &'a mut [f32],
    width: usize,
    layout: Layout,
    mean: [f32; RGB],
    scale: [f32; RGB],
}

impl<'a> Canvas<'a> {
    /// # Panics
    /// Panics if `row` does not hold three values per pixel.
    pub(super) fn new(
        row: &'a mut [f32],
        (width, height): (u32, u32),
        layout: Layout,
        normalization: &Normalization,
    ) -> Self {
        let (width, height) = (width as usize, height as usize);
        let len = RGB * width * height;
        assert_eq!(row.len(), len, "a row of 3×{height}×{width}");
        Self {
            row,
            width,
            layout,
            mean: normalization.mean,
            scale: normalization.scale,
        }
    }

    fn value(&self, level: f32, channel: usize) -> f32 {
        (level - self.mean[channel]) * self.scale[channel]
    }

    /// Fills the row with one color, in levels.
    pub(super) fn fill(&mut self, color: [u8; RGB]) {
        let values = [0, 1, 2].map(|c| self.value(f32::from(color[c]), c));
        match self.layout {
            Layout::Nchw => {
                let plane = (self.row.len() / RGB).max(1);
                for (plane, value) in self.row.chunks_exact_mut(plane).zip(values) {
                    fill(plane, value);
                }
            }
            Layout::Nhwc => fill(self.row.as_chunks_mut::<RGB>().0, values),
        }
    }

    /// Writes `line` from column `x` of line `y` on. It must lie within the output.
    pub(super) fn write(&mut self, line: &[Levels], x: usize, y: usize) {
        let at = y * self.width + x;
        let (mean, scale) = (self.mean, self.scale);
        match self.layout {
            Layout::Nchw => {
                let plane = self.row.len() / RGB;
                let mut planes = self.row.chunks_exact_mut(plane);
                let out = [(); RGB].map(|()| &mut planes.next().unwrap_or_default()[at..]);
                planar(line, &mean, &scale, out);
            }
            Layout::Nhwc => interleaved(line, &mean, &scale, &mut self.row[RGB * at..]),
        }
    }
}

#[multiversion(targets = "simd")]
fn planar(line: &[Levels], mean: &[f32; RGB], scale: &[f32; RGB], out: [&mut [f32]; RGB]) {
    let [red, green, blue] = out;
    // A constant channel index is compiled to a shuffle instead of a gather.
    plane::<0>(line, mean[0], scale[0], red);
    plane::<1>(line, mean[1], scale[1], green);
    plane::<2>(line, mean[2], scale[2], blue);
}

#[inline(always)]
fn plane<const CHANNEL: usize>(line: &[Levels], mean: f32, scale: f32, out: &mut [f32]) {
    for (out, level) in out.iter_mut().zip(line) {
        *out = (level[CHANNEL] - mean) * scale;
    }
}

#[multiversion(targets = "simd")]
fn interleaved(line: &[Levels], mean: &[f32; RGB], scale: &[f32; RGB], out: &mut [f32]) {
    for (out, level) in out.as_chunks_mut::<RGB>().0.iter_mut().zip(line) {
        for channel in 0..RGB {
            out[channel] = (level[channel] - mean[channel]) * scale[channel];
        }
    }
}
