//! URLs that a caller names, and addresses.
#![no_main]

use facescan_properties::url_guard;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| url_guard(bytes));
