//! JSON bodies of requests and submissions.
#![no_main]

use facescan_properties::json_body;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| json_body(bytes));
