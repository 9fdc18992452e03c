//! Forms of requests and submissions.
#![no_main]

use facescan_properties::multipart;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| multipart(bytes));
