//! Image files.
#![no_main]

use facescan_properties::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| decode(bytes));
