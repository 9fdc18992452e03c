//! The Gaussian blur of a region.

use std::ops::Range;

use image::RgbImage;

use super::{COLUMNS, PICTURE, ROWS, round};
use crate::{
    imaging::{
        blur::{Gaussian, reflect},
        crop::Region,
    },
    inference::graphs::{
        builder::{Builder, Dim, Kind},
        session::{GraphModel, Input},
    },
};

const WEIGHTS: &str = "weights";
const CHANNELS: usize = 3;

/// Side of a tile in pixels, where the kernel is not wider than that.
const TILE: u32 = 64;

/// Blurs a region, tile by tile. In: `picture` `[H, W, 3]` u8, and what [`BlurPlan::inputs`] adds. Out: `tiles`
/// `[m, t, n, t, 3]` u8: m by n tiles of side t, whose samples are in the order of a picture of m·t lines. Levels are at most
/// one from the CPU's.
///
/// A tile is read as far as the kernel reaches around it and multiplied by the same banded matrix from both sides: a product
/// needs no more than a kernel does when the band is a third of the matrix, and a convolution whose weights are an input
/// is not there for every provider.
pub fn blur() -> GraphModel {
    Builder::write("gaussian_blur", describe)
}

fn describe(b: &mut Builder) {
    use Dim::{Free, Is};
    let picture = b.input(PICTURE, Kind::U8, &[Free("H"), Free("W"), Is(3)]);
    let rows = b.input(ROWS, Kind::I32, &[Free("m"), Free("r")]);
    let columns = b.input(COLUMNS, Kind::I32, &[Free("n"), Free("r")]);
    let weights = b.input(WEIGHTS, Kind::F32, &[Free("r"), Free("t")]);

    let samples = b.gather(&picture, &columns, 1);
    let samples = b.gather(&samples, &rows, 0);
    // A tile's own lines and columns last: [3, m, n, r, r].
    let samples = b.transpose(&samples, &[4, 0, 2, 1, 3]);
    let samples = b.cast(&samples, Kind::F32);
    let across = b.matmul(&samples, &weights);
    let down = b.transpose(&weights, &[1, 0]);
    let levels = b.matmul(&down, &across);
    let levels = round(b, &levels);
    let levels = b.cast(&levels, Kind::U8);
    let tiles = b.transpose(&levels, &[1, 3, 2, 4, 0]);
    let dims = [Free("m"), Free("t"), Free("n"), Free("t"), Is(3)];
    b.output("tiles", &tiles, Kind::U8, &dims);
}

/// Where the samples of a region's tiles come from, and what they weigh.
#[derive(Clone, Debug, PartialEq)]
pub struct BlurPlan {
    size: (u32, u32),
    region: Region,
    tile: usize,
    /// The picture's lines that are read.
    lines: Range<usize>,
    /// For each tile the lines that it is made of, counted from the first that is read.
    rows: Vec<i32>,
    columns: Vec<i32>,
    /// `[r, t]`: the kernel, one place further down in each column.
    weights: Vec<f32>,
}

impl BlurPlan {
    /// Blurs `region` of pictures of `size`, width and height.
    ///
    /// # Panics
    /// When the region is empty or reaches beyond the picture.
    pub fn new(size: (u32, u32), region: Region, gaussian: &Gaussian) -> Self {
        assert!(
            !region.is_empty() && region == region.clipped(size),
            "a region of the picture"
        );
        let reach = gaussian.kernel() / 2;
        // Not much narrower than what it is read from, or the same samples are read again and again.
        let tile = TILE.max(2 * reach);
        let tile = tile.min(region.width().max(region.height()));
        let columns = samples((region.x1, region.x2), size.0, tile, reach);
        let mut rows = samples((region.y1, region.y2), size.1, tile, reach);
        let first = rows.iter().copied().min().unwrap_or_default();
        let last = rows.iter().copied().max().unwrap_or_default();
        for row in &mut rows {
            *row -= first;
        }
        Self {
            size,
            region,
            tile: tile as usize,
            lines: first as usize..last as usize + 1,
            rows,
            columns,
            weights: band(&gaussian.weights(), tile as usize),
        }
    }

    /// The inputs of [`blur`].
    ///
    /// # Panics
    /// When the picture has another size than the plan.
    pub fn inputs<'a>(&'a self, picture: &'a RgbImage) -> Vec<Input<'a>> {
        assert_eq!(
            picture.dimensions(),
            self.size,
            "a picture of the plan's size"
        );
        let width = self.size.0 as usize;
        let stride = width * CHANNELS;
        let read = &picture.as_raw()[self.lines.start * stride..self.lines.end * stride];
        let reach = self.weights.len() / self.tile;
        let (m, n) = (self.rows.len() / reach, self.columns.len() / reach);
        vec![
            Input::u8(PICTURE, &[self.lines.len(), width, CHANNELS], read),
            Input::i32(ROWS, &[m, reach], self.rows.as_slice()),
            Input::i32(COLUMNS, &[n, reach], self.columns.as_slice()),
            Input::f32(WEIGHTS, &[reach, self.tile], self.weights.as_slice()),
        ]
    }

    /// The region's pixels in the samples of the graph's answer; `None` when there are not as many as there must be.
    pub fn pixels(&self, tiles: &[u8]) -> Option<RgbImage> {
        let [width, height] = [self.region.width(), self.region.height()];
        let whole = |side: u32| side.next_multiple_of(self.tile as u32) as usize;
        let stride = whole(width) * CHANNELS;
        if tiles.len() != stride * whole(height) {
            return None;
        }
        let line = width as usize * CHANNELS;
        let lines = tiles.chunks_exact(stride).take(height as usize);
        let samples: Vec<u8> = lines.flat_map(|tiles| &tiles[..line]).copied().collect();
        RgbImage::from_raw(width, height, samples)
    }
}

/// For each tile from `start` to `end` of an axis of `length` samples those that it is made of, reflected at the ends.
fn samples((start, end): (u32, u32), length: u32, tile: u32, reach: u32) -> Vec<i32> {
    let (start, reach) = (i64::from(start), i64::from(reach));
    let tiles = (start..i64::from(end)).step_by(tile as usize);
    tiles
        .flat_map(|at| at - reach..at + i64::from(tile) + reach)
        .map(|at| reflect(at, length) as i32)
        .collect()
}

/// `[tile + kernel − 1, tile]`: what each sample that is read counts in each that is made.
fn band(kernel: &[f32], tile: usize) -> Vec<f32> {
    let mut band = vec![0.0; (tile + kernel.len() - 1) * tile];
    for column in 0..tile {
        for (at, weight) in kernel.iter().enumerate() {
            band[(column + at) * tile + column] = *weight;
        }
    }
    band
}
