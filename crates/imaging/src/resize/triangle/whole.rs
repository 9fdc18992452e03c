//! Lines in whole levels.

use image::RgbImage;
use multiversion::multiversion;

use super::{
    Axis, Quad, RGB, Rows, View,
    across::{Columns, across},
    down::down,
    eights::{self, Eights},
    pairs::{self, Pairs},
    ramps::Ramps,
    windows::Windows,
};
use crate::resize::Pixel;

/// Pixels that lines are made of at a time.
pub(super) const BLOCK: usize = 16;

/// Floats from here to its double are whole, so adding it to a smaller one rounds that.
const WHOLE: f32 = (1 << 23) as f32;

/// The lines of a resized picture, from the top.
pub(crate) struct Lines<'a> {
    way: Way<'a>,
    /// One line.
    pixels: Vec<[Pixel; BLOCK]>,
}

/// How lines are made. Each has one line as wide as the source, and room beyond for what is read but has no weight.
enum Way<'a> {
    /// In numbers of 16 bits.
    Narrow {
        rows: Ramps<'a>,
        columns: Narrow,
        sums: Vec<i16>,
    },
    /// On other processors, and where a pixel is made of many, the picture grows or is only a few pixels wide.
    Floats {
        rows: Rows<'a, i16>,
        columns: Columns,
        sums: Vec<f32>,
        levels: Vec<Quad>,
    },
}

/// How samples of 16 bits are weighed.
enum Narrow {
    /// Where those of neighbours lie near each other.
    Near(Pairs),
    Far(Eights),
}

impl Narrow {
    fn new(axis: &Axis) -> Option<Self> {
        let windows = Windows::new(axis);
        let near = Pairs::new(&windows).map(Self::Near);
        near.or_else(|| Eights::new(&windows).map(Self::Far))
    }

    fn reach(&self) -> usize {
        match self {
            Self::Near(pairs) => pairs.reach(),
            Self::Far(eights) => eights.reach(),
        }
    }
}

/// The lines of a view of `picture` in whole levels, at most one from Pillow's `BILINEAR`.
pub(crate) fn lines<'a>(picture: &'a RgbImage, view: &View) -> Lines<'a> {
    let stride = picture.width() as usize * RGB;
    let quick = pairs::are_quick()
        .then(|| Ramps::new(picture.as_raw(), stride, &view.rows))
        .flatten()
        .and_then(|rows| Some((rows, Narrow::new(&view.columns)?)));
    let way = match quick {
        Some((rows, columns)) => Way::Narrow {
            rows,
            sums: vec![0; stride + columns.reach()],
            columns,
        },
        None => {
            let columns = Columns::new(&view.columns);
            Way::Floats {
                rows: Rows::new(picture.as_raw(), stride, &view.rows),
                sums: vec![0.0; stride + columns.reach()],
                levels: vec![[0.0; 16]; columns.first.len()],
                columns,
            }
        }
    };
    Lines {
        way,
        pixels: vec![[Pixel::default(); BLOCK]; view.columns.kept.len().div_ceil(BLOCK)],
    }
}

impl Lines<'_> {
    /// The next line in whole blocks; `None` below the last one.
    pub(crate) fn next(&mut self) -> Option<&[Pixel]> {
        match &mut self.way {
            Way::Narrow {
                rows,
                columns,
                sums,
            } => {
                rows.next(sums)?;
                match columns {
                    Narrow::Near(pairs) => pairs::weigh(sums, pairs, &mut self.pixels),
                    Narrow::Far(eights) => eights::weigh(sums, eights, &mut self.pixels),
                }
            }
            Way::Floats {
                rows,
                columns,
                sums,
                levels,
            } => {
                down(&rows.next()?, sums);
                across(sums, columns, levels);
                round(levels, self.pixels.as_flattened_mut());
            }
        }
        Some(self.pixels.as_flattened())
    }
}

#[multiversion(targets = "simd")]
fn round(levels: &[Quad], pixels: &mut [Pixel]) {
    let samples = pixels.as_flattened_mut().iter_mut();
    for (sample, level) in samples.zip(levels.as_flattened()) {
        *sample = (level + WHOLE).to_bits() as u8;
    }
}
