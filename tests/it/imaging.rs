//! Decodes the format collections and EXIF examples in `FACESCAN_TESTDATA`. They are not part of the repository.

use std::collections::BTreeMap;
use std::path::Path;

use facescan_imaging::decode::{DecodeError, DecodeOptions, Decoded, decode};

use crate::support::app::{files, testdata};

fn decode_file(path: &Path) -> Result<Decoded, DecodeError> {
    decode(&std::fs::read(path).unwrap(), &DecodeOptions::default())
}

fn outcome(result: &Result<Decoded, DecodeError>) -> String {
    match result {
        Ok(image) => format!("ok {}", image.format),
        Err(DecodeError::UnsupportedMedia { format }) => format!("unsupported media: {format:?}"),
        Err(DecodeError::Unsupported { format, detail }) => {
            format!("unsupported {format}: {detail}")
        }
        Err(DecodeError::Corrupt { format, detail }) => format!("corrupt {format}: {detail}"),
        Err(DecodeError::Truncated { format }) => format!("truncated {format}"),
        Err(DecodeError::TooLarge(exceeded)) => format!("too large: {}", exceeded.limit),
    }
}

#[test]
#[ignore = "needs FACESCAN_TESTDATA"]
fn every_file_of_the_collections_decodes_or_returns_an_error() {
    let folder = testdata("formats");
    let before = peak_memory();
    let mut counts = BTreeMap::<String, usize>::new();
    for path in files(&folder) {
        let result = decode_file(&path);
        let outcome = outcome(&result);
        // A caught panic is reported with this text. None of these files may cause one.
        assert!(
            !outcome.contains("no decoder expects"),
            "{}",
            path.display()
        );
        if !outcome.starts_with("ok") {
            println!(
                "{outcome:60} {}",
                path.strip_prefix(&folder).unwrap().display()
            );
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let in_suite = path.parent().is_some_and(|p| p.ends_with("pngsuite"));
        if in_suite && name.ends_with(".png") {
            // In PngSuite, files whose names begin with x are invalid on purpose. All others are valid.
            assert_eq!(result.is_ok(), !name.starts_with('x'), "{name}: {outcome}");
        }
        *counts.entry(outcome).or_default() += 1;
    }
    for (outcome, count) in &counts {
        println!("{count:4} {outcome}");
    }
    let grown = peak_memory().saturating_sub(before);
    println!("peak memory grew by {} MiB", grown >> 20);
    assert!(grown < 512 << 20, "{} MiB", grown >> 20);
}

/// Returns the peak resident memory of the process in bytes, or 0 if the system does not report it.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
    kibibytes.unwrap_or(0u64) << 10
}

/// Cuts files at several lengths. A file that still decodes must have all its pixels.
#[test]
#[ignore = "needs FACESCAN_TESTDATA"]
fn a_file_that_is_cut_off_is_reported_as_truncated() {
    let folder = testdata("formats");
    let mut counts = BTreeMap::<String, usize>::new();
    for path in files(&folder) {
        let bytes = std::fs::read(&path).unwrap();
        let Ok(whole) = decode(&bytes, &DecodeOptions::default()) else {
            continue;
        };
        for percent in [40, 70, 90, 97] {
            let cut = &bytes[..(bytes.len() * percent / 100).max(26)];
            let result = decode(cut, &DecodeOptions::default());
            if let Ok(image) = &result {
                // Only metadata, further frames or padding were cut off.
                assert_eq!(
                    image.pixels,
                    whole.pixels,
                    "{} at {percent} %",
                    path.display()
                );
            } else if !matches!(result, Err(DecodeError::Truncated { .. })) {
                println!("{} at {percent} %: {}", path.display(), outcome(&result));
            }
            *counts.entry(outcome(&result)).or_default() += 1;
        }
    }
    for (outcome, count) in &counts {
        println!("{count:4} {outcome}");
    }
    let other = counts
        .keys()
        .filter(|outcome| !outcome.starts_with("ok") && !outcome.starts_with("truncated"));
    assert_eq!(other.collect::<Vec<_>>(), Vec::<&String>::new());
}

/// The strict checks for damaged files must not refuse photographs of cameras, phones and web sites.
#[test]
#[ignore = "needs FACESCAN_TESTDATA"]
fn every_photograph_decodes() {
    let folders = ["detection", "exif_orientation", "lfw_fold1", "pose_quality"];
    let mut count = 0;
    for folder in folders.into_iter().map(testdata) {
        for path in files(&folder) {
            let extension = path
                .extension()
                .and_then(|e| e.to_str())
                .unwrap_or_default();
            if matches!(extension, "jpg" | "jpeg" | "png") {
                let result = decode_file(&path);
                assert!(result.is_ok(), "{}: {}", path.display(), outcome(&result));
                count += 1;
            }
        }
    }
    println!("{count} photographs");
}
