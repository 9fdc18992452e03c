//! The Gaussian blur of a region.

use image::RgbImage;

use super::{COLUMNS, IMAGE, ROWS, image_input, round};
use crate::graphs::{
    builder::{Builder, Dim, Kind},
    session::Input,
};
use facescan_imaging::{blur::Gaussian, border::reflect_101, crop::Region};

const WEIGHTS: &str = "weights";
const CHANNELS: usize = 3;

/// Side of a tile in pixels, unless the kernel is wider.
const TILE: u32 = 64;

/// A tile is read with a margin of the kernel's radius and multiplied by the same banded matrix from both sides. If the
/// band is a third of the matrix, a product needs no more operations than a kernel. Not every provider supports a
/// convolution whose weights are an input.
pub fn describe(b: &Builder) {
    use Dim::{Free, Is};
    let image = b.input(IMAGE, Kind::U8, &[Free("H"), Free("W"), Is(3)]);
    let rows = b.input(ROWS, Kind::I32, &[Free("m"), Free("r")]);
    let columns = b.input(COLUMNS, Kind::I32, &[Free("n"), Free("r")]);
    let weights = b.input(WEIGHTS, Kind::F32, &[Free("r"), Free("t")]);

    let samples = image.gather(&columns, 1).gather(&rows, 0);
    // The lines and columns within a tile come last: [3, m, n, r, r].
    let samples = samples.transpose(&[4, 0, 2, 1, 3]).cast(Kind::F32);
    let across = samples.matmul(&weights);
    let levels = weights.transpose(&[1, 0]).matmul(&across);
    let tiles = round(&levels).cast(Kind::U8).transpose(&[1, 3, 2, 4, 0]);
    let dims = [Free("m"), Free("t"), Free("n"), Free("t"), Is(3)];
    b.output("tiles", &tiles, Kind::U8, &dims);
}

/// How a region is divided into tiles. The shapes of all inputs but the image follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Number of tiles from top to bottom.
    pub down: u32,
    /// Number of tiles from left to right.
    pub across: u32,
    /// The side of a tile in pixels.
    pub side: u32,
    /// The side of the square that a tile is computed from: the tile and the kernel's radius around it.
    pub read: u32,
}

impl Tiles {
    /// Creates the tiles of a region that is not empty.
    pub fn new(region: Region, gaussian: &Gaussian) -> Self {
        let (width, height) = (region.width(), region.height());
        let reach = gaussian.kernel() / 2;
        // The side is not much smaller than the square that is read. Otherwise the same samples are read many times.
        let side = TILE.max(2 * reach).min(width.max(height)).max(1);
        Self {
            down: height.div_ceil(side),
            across: width.div_ceil(side),
            side,
            read: side + 2 * reach,
        }
    }

    /// Returns the number of pixels that are read for all tiles. A pixel counts once for each read.
    pub fn pixels_read(&self) -> u64 {
        let along = |count: u32| u64::from(count) * u64::from(self.read);
        along(self.down) * along(self.across)
    }
}

/// The source samples of a region's tiles, and their weights.
#[derive(Clone, Debug, PartialEq)]
pub struct BlurPlan {
    size: (u32, u32),
    region: Region,
    tiles: Tiles,
    /// For each tile, the lines that it is computed from.
    rows: Vec<i32>,
    columns: Vec<i32>,
    /// `[r, t]`: the kernel, shifted down by one in each column.
    weights: Vec<f32>,
}

impl BlurPlan {
    /// Blurs `region` of images of `size` (width and height).
    ///
    /// # Panics
    /// Panics if the region is empty or not inside the image.
    pub fn new(size: (u32, u32), region: Region, gaussian: &Gaussian) -> Self {
        assert!(
            !region.is_empty() && region == region.clipped(size),
            "a region of the image"
        );
        let (tiles, reach) = (Tiles::new(region, gaussian), gaussian.kernel() / 2);
        Self {
            size,
            region,
            tiles,
            rows: samples((region.y1, region.y2), size.1, tiles.side, reach),
            columns: samples((region.x1, region.x2), size.0, tiles.side, reach),
            weights: band(&gaussian.weights(), tiles.side as usize),
        }
    }

    /// Returns the inputs of the graph.
    ///
    /// # Panics
    /// Panics if the image has another size than the plan.
    pub fn inputs<'a>(&'a self, image: &'a RgbImage) -> Vec<Input<'a>> {
        let Tiles {
            down,
            across,
            side,
            read,
        } = self.tiles;
        let [m, n, t, r] = [down, across, side, read].map(|length| length as usize);
        vec![
            image_input(image, self.size),
            Input::i32(ROWS, &[m, r], self.rows.as_slice()),
            Input::i32(COLUMNS, &[n, r], self.columns.as_slice()),
            Input::f32(WEIGHTS, &[r, t], self.weights.as_slice()),
        ]
    }

    /// Returns the region's pixels from the graph's output. Returns `None` if the output has the wrong length.
    pub fn pixels(&self, tiles: &[u8]) -> Option<RgbImage> {
        let [width, height] = [self.region.width(), self.region.height()];
        let whole = |count: u32| count as usize * self.tiles.side as usize;
        let stride = whole(self.tiles.across) * CHANNELS;
        if tiles.len() != stride * whole(self.tiles.down) {
            return None;
        }
        let line = width as usize * CHANNELS;
        let lines = tiles.chunks_exact(stride).take(height as usize);
        let samples: Vec<u8> = lines.flat_map(|tiles| &tiles[..line]).copied().collect();
        RgbImage::from_raw(width, height, samples)
    }
}

/// Returns the samples that each tile is computed from, for the tiles from `start` to `end` of an axis of `length`
/// samples. Samples are reflected at the ends of the axis.
fn samples((start, end): (u32, u32), length: u32, tile: u32, reach: u32) -> Vec<i32> {
    let (start, reach) = (i64::from(start), i64::from(reach));
    let tiles = (start..i64::from(end)).step_by(tile as usize);
    tiles
        .flat_map(|at| at - reach..at + i64::from(tile) + reach)
        .map(|at| reflect_101(at, length) as i32)
        .collect()
}

/// Returns the weight of each input sample in each output sample, `[tile + kernel − 1, tile]`.
fn band(kernel: &[f32], tile: usize) -> Vec<f32> {
    let mut band = vec![0.0; (tile + kernel.len() - 1) * tile];
    for column in 0..tile {
        for (at, weight) in kernel.iter().enumerate() {
            band[(column + at) * tile + column] = *weight;
        }
    }
    band
}
