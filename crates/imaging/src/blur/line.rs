//! Rows of an image with a margin on both sides.

use image::RgbImage;

use super::CHANNELS;
use crate::{border::reflect_101, crop::Region};

/// Reads row `y` of the columns of `region` into `line`, with `margin` pixels before and after it. Pixels outside the image
/// are reflected. The line has complete pixels; those after the second margin do not change.
pub(super) fn read(image: &RgbImage, y: u32, region: Region, margin: u32, line: &mut [f32]) {
    let width = image.width();
    let stride = width as usize * CHANNELS;
    let row = &image.as_raw()[y as usize * stride..][..stride];
    let inside = region.x1.saturating_sub(margin)..region.x2.saturating_add(margin).min(width);
    let first = i64::from(region.x1) - i64::from(margin);
    // The number of pixels of the line before the image, and the number before the image's end.
    let before = (i64::from(inside.start) - first) as usize;
    let until = before + inside.len();
    let samples = &row[inside.start as usize * CHANNELS..inside.end as usize * CHANNELS];
    let copied = &mut line[before * CHANNELS..until * CHANNELS];
    for (level, sample) in copied.iter_mut().zip(samples) {
        *level = f32::from(*sample);
    }
    let pixels = (region.width() + 2 * margin) as usize;
    for at in (0..before).chain(until..pixels) {
        let from = reflect_101(first + at as i64, width) * CHANNELS;
        let reflected = &mut line[at * CHANNELS..(at + 1) * CHANNELS];
        for (level, sample) in reflected.iter_mut().zip(&row[from..]) {
            *level = f32::from(*sample);
        }
    }
}
