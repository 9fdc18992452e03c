//! Image files.

use std::{path::Path, sync::OnceLock};

use facescan_imaging::{
    decode::{
        DecodeError, DecodeOptions, Decoded, Limits, Reduction, SYSTEM_LIBRARY, TurboJpeg,
        decode_within,
    },
    format::{Sniffed, sniff},
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
    // First, because libjpeg-turbo also reads files that the other decoder refuses.
    let reduced = turbojpeg().map(|library| {
        let reduction = Reduction {
            library,
            min_side: 1,
        };
        decode_within(file, &options, &memory, Some(&reduction))
    });
    let decoded = match decode_within(file, &options, &memory, None) {
        Ok(decoded) => decoded,
        Err(error) => {
            assert!(error.to_string().len() <= MAX_TEXT, "{error}");
            return;
        }
    };
    check(file, &decoded, &options.limits);
    if let Some(reduced) = reduced {
        check_reduced(&decoded, reduced);
    }
    let (width, height) = decoded.pixels.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels > SMALL {
        return;
    }
    let memory = PixelMemory::new(decoded.pixels.as_raw().len() * 2);
    memory.keep(vec![0x55; decoded.pixels.as_raw().len()]);
    let again = decode_within(file, &options, &memory, None);
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
    let refused = decode_within(file, &smaller, &PixelMemory::new(0), None);
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

/// Returns the libjpeg-turbo that `scripts/setup --tests` fetched, or the system's.
fn turbojpeg() -> Option<&'static TurboJpeg> {
    static LIBRARY: OnceLock<Option<TurboJpeg>> = OnceLock::new();
    let fetched = || {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.runtime/turbojpeg");
        let library = TurboJpeg::load(folder.join(SYSTEM_LIBRARY));
        library.or_else(|_| TurboJpeg::load(SYSTEM_LIBRARY)).ok()
    };
    LIBRARY.get_or_init(fetched).as_ref()
}

/// A file that is an image is also one if it may be reduced. A reduced image has the size that its divisor says.
fn check_reduced(full: &Decoded, reduced: Result<Decoded, DecodeError>) {
    let reduced = reduced.unwrap_or_else(|error| panic!("an image cannot be reduced: {error}"));
    let ((width, height), divisor) = (full.pixels.dimensions(), reduced.divisor);
    assert_eq!(
        (
            reduced.size,
            reduced.pixels.dimensions(),
            reduced.orientation
        ),
        (
            (width, height),
            (width.div_ceil(divisor), height.div_ceil(divisor)),
            full.orientation
        ),
        "a reduced image has another size"
    );
    assert!(
        divisor > 1 || reduced.pixels == full.pixels,
        "an image that was not reduced differs"
    );
}
