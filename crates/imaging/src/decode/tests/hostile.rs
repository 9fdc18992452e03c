//! Limits, and files with headers that state too much. `tools/properties` damages files at random.

use super::*;

#[test]
fn limits_are_checked_before_pixels_are_decoded() {
    let source = synthetic(40, 30);
    for (format, file) in files(&source) {
        let limited = |limits: Limits| {
            let options = DecodeOptions {
                limits,
                ..DecodeOptions::default()
            };
            decode(&file, &options).map(|p| p.format)
        };
        let exact = Limits {
            max_bytes: file.len() as u64,
            max_width: 40,
            max_height: 30,
            max_pixels: 1200,
        };
        assert_eq!(limited(exact), Ok(format));
        type Lower = fn(&mut Limits);
        let lower: [(LimitKind, u64, Lower); 4] = [
            (LimitKind::Bytes, exact.max_bytes, |l| l.max_bytes -= 1),
            (LimitKind::Width, 40, |l| l.max_width -= 1),
            (LimitKind::Height, 30, |l| l.max_height -= 1),
            (LimitKind::Pixels, 1200, |l| l.max_pixels -= 1),
        ];
        for (limit, found, lower) in lower {
            let (mut limits, max) = (exact, found - 1);
            lower(&mut limits);
            let exceeded = Exceeded { limit, max, found };
            assert_eq!(
                limited(limits),
                Err(DecodeError::from(exceeded)),
                "{format}"
            );
        }
    }
}

/// Short files of `fuzz/corpus/decode` that state a large size are refused by their header, or reported as truncated before
/// memory is allocated.
#[test]
fn headers_that_state_too_much_are_refused() {
    let error = |name: &str| {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/decode");
        error(&std::fs::read(format!("{corpus}/{name}")).unwrap())
    };
    for name in [
        "wide.jpg",
        "wide.png",
        "wide.gif",
        "wide-frame.gif",
        "wide.bmp",
        "wide.tiff",
    ] {
        let expected = DecodeError::TooLarge(Exceeded {
            limit: LimitKind::Width,
            max: 16_384,
            found: 60_000,
        });
        assert_eq!(error(name), expected, "{name}");
    }
    for (name, format) in [
        ("short.jpg", Format::Jpeg),
        ("short.png", Format::Png),
        ("short.bmp", Format::Bmp),
        ("short.tiff", Format::Tiff),
    ] {
        assert_eq!(error(name), DecodeError::Truncated { format }, "{name}");
    }
    // A small canvas, or a small frame, does not hide a bitstream that states the largest size.
    for name in [
        "large-frame-in-small-canvas.webp",
        "hidden-frame.webp",
        "hidden-frame-of-animation.webp",
    ] {
        let error = error(name);
        assert!(
            matches!(error, DecodeError::TooLarge { .. }),
            "{name}: {error:?}"
        );
    }
    let error = error("frame-larger-than-canvas.webp");
    assert!(matches!(error, DecodeError::Corrupt { .. }), "{error:?}");
}
