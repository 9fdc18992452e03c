//! Lines of submissions.
#![no_main]

use facescan_properties::ndjson;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ndjson(bytes));
