//! msgpack bodies of requests and submissions.
#![no_main]

use facescan_properties::msgpack_body;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| msgpack_body(bytes));
