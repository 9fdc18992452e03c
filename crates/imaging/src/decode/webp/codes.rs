//! The number of groups of prefix codes in a lossless WebP bitstream.
//!
//! A bitstream may state 65,536 groups of five codes, also for an image of a few pixels. The decoder would make 1.3 GB of tables
//! of a file of 4 MB. The number is the largest value of an image inside the bitstream, so that image is read first.

/// The largest number of groups. Encoders write at most one for each block of the image, and libwebp at most 2,600.
pub(in crate::decode) const MAX_GROUPS: u32 = 4096;

/// The sizes of the alphabets of a group without colors of the cache: green and lengths, red, blue, alpha, distances.
const ALPHABETS: [usize; 5] = [256 + 24, 256, 256, 256, 40];

/// The order of the lengths of the codes of lengths.
const ORDER: [usize; 19] = [
    17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
];

const MAX_CODE_LENGTH: usize = 15;

/// Returns the number of groups of a VP8L chunk. Returns `None` if it is damaged, which the decoder reports.
pub(in crate::decode) fn groups_of_image(chunk: &[u8]) -> Option<u32> {
    let mut bits = Bits::new(chunk);
    bits.read(8)?;
    let (width, height) = (bits.read(14)? + 1, bits.read(14)? + 1);
    bits.read(4)?;
    groups(bits, width, height)
}

/// Returns the number of groups of an ALPH chunk. Returns 0 if its compression has none.
pub(in crate::decode) fn groups_of_alpha(chunk: &[u8], width: u32, height: u32) -> Option<u32> {
    let (flags, rest) = chunk.split_first()?;
    if flags & 3 == 1 {
        groups(Bits::new(rest), width, height)
    } else {
        Some(0)
    }
}

/// Reads up to the groups of the image.
fn groups(mut bits: Bits<'_>, mut width: u32, height: u32) -> Option<u32> {
    // There are four transforms, and each of them occurs once.
    for _ in 0..4 {
        if bits.read(1)? == 0 {
            break;
        }
        match bits.read(2)? {
            0 | 1 => {
                let block = bits.read(3)? + 2;
                largest_code(&mut bits, blocks(width, block) * blocks(height, block))?;
            }
            3 => {
                let colors = bits.read(8)? + 1;
                largest_code(&mut bits, colors)?;
                // Small palettes have several pixels in one.
                let packed = match colors {
                    1..=2 => 3,
                    3..=4 => 2,
                    5..=16 => 1,
                    _ => 0,
                };
                width = blocks(width, packed);
            }
            _ => {}
        }
    }
    if bits.read(1)? == 1 {
        bits.read(4)?;
    }
    if bits.read(1)? == 0 {
        return Some(1);
    }
    let block = bits.read(3)? + 2;
    largest_code(&mut bits, blocks(width, block) * blocks(height, block)).map(|code| code + 1)
}

fn blocks(side: u32, bits: u32) -> u32 {
    side.div_ceil(1 << bits)
}

/// Reads an image of one group and returns the largest value of red and green together. Copied pixels and those from the cache
/// have values of earlier pixels, so they are only counted.
fn largest_code(bits: &mut Bits<'_>, pixels: u32) -> Option<u32> {
    let cached = match bits.read(1)? {
        0 => 0,
        _ => 1 << bits.read(4)?,
    };
    let mut codes = Vec::with_capacity(ALPHABETS.len());
    for (number, size) in ALPHABETS.iter().enumerate() {
        codes.push(Code::read(
            bits,
            size + if number == 0 { cached } else { 0 },
        )?);
    }
    let [green, red, blue, alpha, distance] = codes.as_slice() else {
        return None;
    };
    let (mut left, mut largest) = (pixels, 0);
    while left > 0 {
        let symbol = green.next(bits)?;
        let mut count = 1;
        if symbol < 256 {
            largest = largest.max(red.next(bits)? << 8 | symbol);
            blue.next(bits)?;
            alpha.next(bits)?;
        } else if symbol < 280 {
            count = bits.number(symbol - 256)?;
            let place = distance.next(bits)?;
            bits.number(place)?;
        }
        left = left.saturating_sub(count);
    }
    Some(largest)
}

/// Bits from the lowest one of each byte.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn read(&mut self, count: u32) -> Option<u32> {
        let mut value = 0;
        for number in 0..count {
            let byte = self.bytes.get(self.at / 8)?;
            value |= u32::from(byte >> (self.at % 8) & 1) << number;
            self.at += 1;
        }
        Some(value)
    }

    /// Reads a length or a distance with this prefix.
    fn number(&mut self, prefix: u32) -> Option<u32> {
        if prefix < 4 {
            return Some(prefix + 1);
        }
        let extra = (prefix - 2) >> 1;
        Some(((2 + (prefix & 1)) << extra) + self.read(extra)? + 1)
    }
}

/// A prefix code.
enum Code {
    Single(u32),
    Two([u32; 2]),
    Canonical {
        /// The number of codes of each length.
        counts: [u32; MAX_CODE_LENGTH + 1],
        /// The symbols in the order of their codes.
        symbols: Vec<u32>,
    },
}

impl Code {
    fn read(bits: &mut Bits<'_>, alphabet: usize) -> Option<Self> {
        if bits.read(1)? == 1 {
            let two = bits.read(1)? == 1;
            let width = if bits.read(1)? == 1 { 8 } else { 1 };
            let first = bits.read(width)?;
            return Some(match two {
                true => Self::Two([first, bits.read(8)?]),
                false => Self::Single(first),
            });
        }
        let mut lengths = [0; ORDER.len()];
        let count = bits.read(4)? as usize + 4;
        for place in ORDER.iter().take(count) {
            lengths[*place] = bits.read(3)?;
        }
        let lengths = Self::canonical(&lengths)?.lengths(bits, alphabet)?;
        Self::canonical(&lengths)
    }

    /// Reads the lengths of another code with this one.
    fn lengths(&self, bits: &mut Bits<'_>, alphabet: usize) -> Option<Vec<u32>> {
        let mut left = alphabet;
        if bits.read(1)? == 1 {
            let width = 2 + 2 * bits.read(3)?;
            left = 2 + bits.read(width)? as usize;
        }
        let mut lengths = Vec::with_capacity(alphabet);
        let mut last = 8;
        while lengths.len() < alphabet && left > 0 {
            left -= 1;
            let (length, times) = match self.next(bits)? {
                16 => (last, 3 + bits.read(2)?),
                17 => (0, 3 + bits.read(3)?),
                18 => (0, 11 + bits.read(7)?),
                length => (length, 1),
            };
            if length != 0 {
                last = length;
            }
            lengths.extend((0..times).map(|_| length));
        }
        (lengths.len() <= alphabet).then_some(lengths)
    }

    fn canonical(lengths: &[u32]) -> Option<Self> {
        let used = || (0_u32..).zip(lengths).filter(|(_, length)| **length > 0);
        let mut symbols: Vec<(u32, u32)> =
            used().map(|(symbol, length)| (*length, symbol)).collect();
        if let [(_, symbol)] = symbols[..] {
            return Some(Self::Single(symbol));
        }
        symbols.sort_unstable();
        let mut counts = [0; MAX_CODE_LENGTH + 1];
        for (length, _) in &symbols {
            *counts.get_mut(*length as usize)? += 1;
        }
        let symbols = symbols.into_iter().map(|(_, symbol)| symbol).collect();
        Some(Self::Canonical { counts, symbols })
    }

    /// Reads a symbol.
    fn next(&self, bits: &mut Bits<'_>) -> Option<u32> {
        match self {
            Self::Single(symbol) => Some(*symbol),
            Self::Two(symbols) => Some(symbols[bits.read(1)? as usize]),
            Self::Canonical { counts, symbols } => {
                let (mut code, mut first, mut index) = (0, 0, 0);
                for count in &counts[1..] {
                    code |= bits.read(1)?;
                    if code < first + count {
                        return symbols.get((index + code - first) as usize).copied();
                    }
                    index += count;
                    first = (first + count) << 1;
                    code <<= 1;
                }
                None
            }
        }
    }
}
