//! EXIF blocks in the metadata of images.
#![no_main]

use facescan_properties::exif;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| exif(bytes));
