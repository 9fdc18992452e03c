//! Files with headers that state too much, and random damage.

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
        let over = |limit, max, found| Err(DecodeError::TooLarge { limit, max, found });
        let free = Limits::default();
        let bytes = file.len() as u64;
        assert_eq!(
            limited(Limits {
                max_bytes: bytes - 1,
                ..free
            }),
            over(LimitKind::Bytes, bytes - 1, bytes)
        );
        assert_eq!(
            limited(Limits {
                max_width: 39,
                ..free
            }),
            over(LimitKind::Width, 39, 40),
            "{format}"
        );
        assert_eq!(
            limited(Limits {
                max_height: 29,
                ..free
            }),
            over(LimitKind::Height, 29, 30),
            "{format}"
        );
        assert_eq!(
            limited(Limits {
                max_pixels: 1199,
                ..free
            }),
            over(LimitKind::Pixels, 1199, 1200),
            "{format}"
        );
        assert_eq!(
            limited(Limits {
                max_bytes: bytes,
                max_width: 40,
                max_height: 30,
                max_pixels: 1200
            }),
            Ok(format)
        );
    }
}

/// Short files that state a large size are refused by their header, or reported as truncated before memory is
/// allocated.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn headers_that_state_too_much_are_refused() {
    let too_wide = DecodeError::TooLarge {
        limit: LimitKind::Width,
        max: 16_384,
        found: 60_000,
    };
    let source = synthetic(16, 16);
    let by_format = |wanted| {
        files(&source)
            .into_iter()
            .find(|(f, _)| *f == wanted)
            .unwrap()
            .1
    };
    let claim = |file: &[u8], at: usize, bytes: &[u8]| {
        let mut file = file.to_vec();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };

    let jpeg = by_format(Format::Jpeg);
    let sof = jpeg.windows(2).position(|w| w == [0xFF, 0xC0]).unwrap();
    let huge = 60_000u16.to_be_bytes();
    assert_eq!(
        error(&claim(&jpeg, sof + 5, &[huge, huge].concat())),
        too_wide
    );
    let large = 10_000u16.to_be_bytes();
    let short = claim(&jpeg, sof + 5, &[large, large].concat());
    assert_eq!(
        error(&short),
        DecodeError::Truncated {
            format: Format::Jpeg
        }
    );

    let png = by_format(Format::Png);
    assert_eq!(error(&claim(&png, 16, &60_000u32.to_be_bytes())), too_wide);
    let large = 10_000u32.to_be_bytes();
    let short = claim(&png, 16, &[large, large].concat());
    assert_eq!(
        error(&short),
        DecodeError::Truncated {
            format: Format::Png
        }
    );

    let gif = by_format(Format::Gif);
    assert_eq!(
        error(&claim(&gif, 6, &60_000u16.to_le_bytes())),
        too_wide,
        "its canvas"
    );
    let frame = gif
        .iter()
        .rposition(|b| *b == 0x2C)
        .filter(|at| gif[at + 5..at + 9] == [16, 0, 16, 0]);
    let frame = frame
        .or_else(|| {
            gif.windows(9)
                .position(|w| w[0] == 0x2C && w[5..] == [16, 0, 16, 0])
        })
        .unwrap();
    assert_eq!(
        error(&claim(&gif, frame + 5, &60_000u16.to_le_bytes())),
        too_wide,
        "its frame"
    );

    let bmp = by_format(Format::Bmp);
    assert_eq!(error(&claim(&bmp, 18, &60_000u32.to_le_bytes())), too_wide);
    let large = 10_000u32.to_le_bytes();
    let short = claim(&bmp, 18, &[large, large].concat());
    assert_eq!(
        error(&short),
        DecodeError::Truncated {
            format: Format::Bmp
        }
    );

    let tiff = tiff_with_orientation(&source, 1);
    assert_eq!(error(&claim(&tiff, 18, &60_000u32.to_le_bytes())), too_wide);
    let short = [18, 30, 114]
        .iter()
        .fold(tiff, |file, at| claim(&file, *at, &large));
    assert_eq!(
        error(&short),
        DecodeError::Truncated {
            format: Format::Tiff
        }
    );

    // A small canvas around a bitstream that states the largest size.
    let mut bits = vp8l(&source);
    bits[1..5].copy_from_slice(&0x0FFF_FFFFu32.to_le_bytes());
    let webp = riff(&[(b"VP8X", vp8x(0, 16, 16)), (b"VP8L", bits)]);
    assert!(matches!(
        error(&webp),
        DecodeError::TooLarge {
            limit: LimitKind::Pixels,
            ..
        }
    ));
    let lossy = [
        &[0x10u8, 0, 0, 0x9D, 0x01, 0x2A][..],
        &[0, 0x10, 0, 0x10],
        &[0; 40],
    ]
    .concat();
    let webp = riff(&[(b"VP8X", vp8x(0, 16, 16)), (b"VP8 ", lossy)]);
    assert!(
        matches!(error(&webp), DecodeError::Corrupt { .. }),
        "a frame larger than its canvas"
    );

    // The same bitstream after a small frame of the other kind: a check of the first frame would not see it.
    let mut bits = vp8l(&source);
    bits[1..5].copy_from_slice(&0x0FFF_FFFFu32.to_le_bytes());
    let small = riff(&[(b"VP8L", vp8l(&source))])[12..].to_vec();
    let frame = [vec![0; 16], small].concat();
    for chunks in [
        [
            (b"VP8X", vp8x(0, 40, 30)),
            (b"ANMF", frame.clone()),
            (b"VP8L", bits.clone()),
        ],
        [
            (b"VP8X", vp8x(2, 40, 30)),
            (b"ANMF", frame),
            (b"VP8L", bits),
        ],
    ] {
        let error = error(&riff(&chunks));
        assert!(
            matches!(error, DecodeError::TooLarge { .. }),
            "{error:?} for a hidden frame"
        );
    }
}

/// Random damage results in an image or an error, and never in a panic.
#[test]
fn damaged_bytes_never_panic() {
    use proptest::test_runner::{Config, TestRunner};
    let files = files(&synthetic(24, 16));
    let strategy = proptest::collection::vec((0usize..10_000, 0u8..=255), 1..12);
    let mut runner = TestRunner::new_with_rng(
        Config {
            failure_persistence: None,
            ..Config::with_cases(200)
        },
        proptest::test_runner::TestRng::deterministic_rng(Default::default()),
    );
    let outcome = runner.run(&strategy, |edits| {
        for (_, file) in &files {
            let mut file = file.clone();
            for (at, byte) in &edits {
                let at = at % file.len();
                file[at] = *byte;
            }
            let options = DecodeOptions {
                limits: Limits {
                    max_pixels: 1 << 20,
                    ..Limits::default()
                },
                ..DecodeOptions::default()
            };
            if let Ok(decoded) = decode(&file, &options) {
                proptest::prop_assert!(decoded.pixels.width() > 0 && decoded.pixels.height() > 0);
            }
        }
        Ok(())
    });
    outcome.unwrap();
}
