//! Image files.

use facescan_imaging::{
    decode::{DecodeError, DecodeOptions, Decoded, decode_within},
    format::{Sniffed, sniff},
    limits::Limits,
    memory::PixelMemory,
};

/// Images with more pixels are decoded only once, because the checks would take seconds.
const SMALL: u64 = 1 << 20;

/// The longest text of an error, in bytes.
const MAX_TEXT: usize = 200;

/// A file is an image within the limits, or an error. Decoding it again, into a buffer with other pixels, returns the
/// same image. A limit of one pixel less refuses it.
pub fn decode(file: &[u8]) {
    let options = DecodeOptions::default();
    let memory = PixelMemory::new(0);
    let decoded = match decode_within(file, &options, &memory) {
        Ok(decoded) => decoded,
        Err(error) => {
            assert!(error.to_string().len() <= MAX_TEXT, "{error}");
            return;
        }
    };
    check(file, &decoded, &options.limits);
    let (width, height) = decoded.pixels.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels > SMALL {
        return;
    }
    let memory = PixelMemory::new(decoded.pixels.as_raw().len() * 2);
    memory.keep(vec![0x55; decoded.pixels.as_raw().len()]);
    let again = decode_within(file, &options, &memory);
    assert!(
        again.is_ok_and(
            |again| again.pixels == decoded.pixels && again.orientation == decoded.orientation
        ),
        "an image depends on the buffer that it is decoded into"
    );
    let smaller = DecodeOptions {
        limits: Limits {
            max_pixels: pixels - 1,
            ..options.limits
        },
        ..options
    };
    let refused = decode_within(file, &smaller, &PixelMemory::new(0));
    assert!(
        matches!(
            refused,
            Err(DecodeError::TooLarge { .. } | DecodeError::Truncated { .. })
        ),
        "a limit of {} pixels lets {pixels} pass: {:?}",
        pixels - 1,
        refused.map(|image| image.pixels.dimensions())
    );
}

fn check(file: &[u8], decoded: &Decoded, limits: &Limits) {
    let (width, height) = decoded.pixels.dimensions();
    // The limits are those of the stored image.
    let (stored_width, stored_height) = match decoded.orientation {
        1..=4 => (width, height),
        5..=8 => (height, width),
        other => panic!("an orientation of {other}"),
    };
    assert!(width > 0 && height > 0, "an image without pixels");
    assert!(stored_width <= limits.max_width && stored_height <= limits.max_height);
    assert!(u64::from(width) * u64::from(height) <= limits.max_pixels);
    assert_eq!(
        decoded.pixels.as_raw().len(),
        width as usize * height as usize * 3
    );
    assert_eq!(sniff(file), Sniffed::Accepted(decoded.format));
}
