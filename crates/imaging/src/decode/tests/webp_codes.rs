//! Lossless WebPs with many groups of prefix codes.

use super::super::webp::codes::{MAX_GROUPS, groups_of_alpha, groups_of_image};
use super::*;

/// Bits from the lowest one of each byte.
#[derive(Default)]
struct Bits(Vec<bool>);

impl Bits {
    fn put(&mut self, value: u32, count: u32) {
        self.0.extend((0..count).map(|bit| value >> bit & 1 == 1));
    }

    /// One code of one symbol, which takes no bits.
    fn put_single(&mut self, symbol: u32) {
        self.put(0b101, 3);
        self.put(symbol, 8);
    }

    fn bytes(&self) -> Vec<u8> {
        let byte = |bits: &[bool]| {
            bits.iter()
                .rev()
                .fold(0, |byte, bit| byte << 1 | u8::from(*bit))
        };
        let mut bytes: Vec<u8> = self.0.chunks(8).map(byte).collect();
        bytes.extend([0; 8]);
        bytes
    }
}

/// Writes an image of 16 × 16 pixels behind its header, with this number of groups. Each group has the same codes.
fn put_image(bits: &mut Bits, groups: u32) {
    bits.put(0, 2); // no transform, no cache
    bits.put(1, 1);
    bits.put(7, 3); // one block
    bits.put(0, 1);
    for symbol in [(groups - 1) & 0xFF, (groups - 1) >> 8, 0, 0, 0] {
        bits.put_single(symbol);
    }
    for _ in 0..groups {
        (0..5).for_each(|_| bits.put_single(7));
    }
}

fn image_chunk(groups: u32) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.put(0x2F, 8);
    bits.put(15 | 15 << 14 | 1 << 28, 32);
    put_image(&mut bits, groups);
    bits.bytes()
}

fn alpha_chunk(groups: u32) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.put(1, 8);
    put_image(&mut bits, groups);
    bits.bytes()
}

#[test]
fn groups_are_counted_as_the_decoder_counts_them() {
    for groups in [1, 2, 300, MAX_GROUPS] {
        let chunk = image_chunk(groups);
        assert_eq!(groups_of_image(&chunk), Some(groups));
        assert_eq!(groups_of_alpha(&alpha_chunk(groups), 16, 16), Some(groups));
        let file = riff(&[(b"VP8L", chunk)]);
        assert_eq!(plain(&file).unwrap().pixels.dimensions(), (16, 16));
    }
    let photograph = vp8l(&synthetic(64, 48));
    assert_eq!(groups_of_image(&photograph), Some(1));
    for end in 0..40 {
        groups_of_image(&photograph[..end]);
    }
}

#[test]
fn too_many_groups_are_refused_wherever_the_decoder_reads_them() {
    let too_many = "it has too many groups of codes";
    let chunk = image_chunk(MAX_GROUPS + 1);
    let still = riff(&[(b"VP8L", chunk.clone())]);
    assert_eq!(detail(&still), too_many);
    let inner = riff(&[(b"VP8L", chunk)])[12..].to_vec();
    let frame = [&[0; 6][..], &[15, 0, 0, 15, 0, 0], &[0; 4], &inner].concat();
    let animated = riff(&[
        (b"VP8X", vp8x(2, 16, 16)),
        (b"ANIM", vec![0; 6]),
        (b"ANMF", frame),
    ]);
    assert_eq!(detail(&animated), too_many);
    let alpha = riff(&[
        (b"VP8X", vp8x(0x10, 16, 16)),
        (b"ALPH", alpha_chunk(MAX_GROUPS + 1)),
        (b"VP8L", image_chunk(1)),
    ]);
    assert_eq!(detail(&alpha), too_many);
}
