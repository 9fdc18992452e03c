//! Sampling of a source row along x: two samples and their weights for each pixel.

use multiversion::{multiversion, target::match_target};

use super::{BLOCK, Block, RGB, Tap};

/// Bytes that are loaded at once for four pixels that lie close enough.
pub(super) const WINDOW: usize = 64;

/// What four pixels side by side are made of, in the order in which a shuffle and a multiplication in pairs take it.
#[derive(Clone)]
#[repr(align(64))]
pub(super) struct Quad {
    /// Where a pixel's samples lie in the window, each as 16 bits of which only the first 8 count: the first and
    /// the second red, the first and the second green, blue, and something that has no weight.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "only shuffles read it")
    )]
    pub(super) index: [u8; 64],
    /// Their weights in the same order.
    pub(super) weights: [[i16; 8]; 4],
}

/// Where each pixel's two samples lie in a source row, and their weights. There are whole blocks of pixels; those
/// beyond the last repeat its place, without weight.
pub(super) struct Columns {
    /// Of the first sample, in bytes; the second follows it.
    pub(super) offsets: Vec<[u32; 4]>,
    pub(super) quads: Vec<Quad>,
    /// Whether each four pixels lie in one window from the first one's offset on; otherwise their eight bytes are
    /// brought together first.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "only shuffles read it")
    )]
    pub(super) near: bool,
}

impl Columns {
    pub(super) fn new(taps: impl Iterator<Item = Tap>) -> Self {
        let mut offsets = Vec::new();
        let mut weights = Vec::new();
        for tap in taps {
            offsets.push((tap.first * RGB) as u32);
            // A border sample that stands for both bears both weights, and what follows it none.
            let [first, second] = tap.weights.map(|weight| weight as i16);
            let [v, w] = if tap.first == tap.second {
                [first + second, 0]
            } else {
                [first, second]
            };
            weights.push([v, w, v, w, v, w, 0, 0]);
        }
        let whole = offsets.len().next_multiple_of(BLOCK);
        offsets.resize(whole, offsets.last().copied().unwrap_or_default());
        weights.resize(whole, [0; 8]);
        let offsets = offsets.as_chunks::<4>().0.to_vec();
        let near = offsets
            .iter()
            .all(|[first, .., last]| (last - first) as usize + 2 * RGB <= WINDOW);
        let quads = offsets
            .iter()
            .zip(weights.as_chunks::<4>().0)
            .map(|(offsets, &weights)| Quad {
                index: index(offsets, near),
                weights,
            })
            .collect();
        Self {
            offsets,
            quads,
            near,
        }
    }
}

/// The places of four pixels' samples in their window.
fn index(offsets: &[u32; 4], near: bool) -> [u8; 64] {
    /// Of the samples of one pixel, from its first byte on; each is followed by a byte that does not count.
    const SAMPLES: [u8; 16] = [0, 0, 3, 0, 1, 0, 4, 0, 2, 0, 5, 0, 0, 0, 0, 0];
    let mut index = [SAMPLES; 4];
    for (at, (index, offset)) in index.iter_mut().zip(offsets).enumerate() {
        let start = if near {
            (offset - offsets[0]) as u8
        } else {
            8 * at as u8
        };
        *index = index.map(|sample| start + sample);
    }
    std::array::from_fn(|i| index[i / 16][i % 16])
}

/// Samples the row that `source` begins with along x.
#[multiversion(targets = "simd")]
pub(super) fn sample(source: &[u8], columns: &Columns, out: &mut [Block]) {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vbmi" => super::x86::sample_512(source, columns, out),
        "x86_64+avx2" => super::x86::sample_256(source, columns, out),
        _ => portable(source, columns, out),
    }
}

/// [`sample`] for any processor, and what the others are measured by.
#[inline(always)]
pub(super) fn portable(source: &[u8], columns: &Columns, out: &mut [Block]) {
    let offsets = columns.offsets.as_chunks::<{ BLOCK / 4 }>().0;
    let quads = columns.quads.as_chunks::<{ BLOCK / 4 }>().0;
    for ((out, offsets), quads) in out.iter_mut().zip(offsets).zip(quads) {
        let mut samples = [[[0u8; 4]; BLOCK]; 2];
        let [first, second] = &mut samples;
        for ((first, second), &offset) in first.iter_mut().zip(second).zip(offsets.as_flattened()) {
            let both = u64::from_le_bytes(bytes(source, offset));
            *first = (both as u32).to_le_bytes();
            *second = ((both >> 24) as u32).to_le_bytes();
        }
        let [first, second] = samples.each_ref().map(|samples| samples.as_flattened());
        let weights = quads
            .iter()
            .flat_map(|quad| quad.weights.as_flattened().as_chunks::<2>().0);
        for ((out, (&a, &b)), &[v, w]) in out.iter_mut().zip(first.iter().zip(second)).zip(weights)
        {
            let sum = i32::from(a) * i32::from(v) + i32::from(b) * i32::from(w);
            *out = (sum >> 4) as u16;
        }
    }
}

/// The bytes from `offset` on. Only at the picture's end are there fewer; zeros follow the last.
#[inline(always)]
pub(super) fn bytes<const LEN: usize>(source: &[u8], offset: u32) -> [u8; LEN] {
    let rest = source.get(offset as usize..).unwrap_or_default();
    rest.first_chunk().copied().unwrap_or_else(|| tail(rest))
}

#[cold]
fn tail<const LEN: usize>(rest: &[u8]) -> [u8; LEN] {
    std::array::from_fn(|i| rest.get(i).copied().unwrap_or_default())
}
