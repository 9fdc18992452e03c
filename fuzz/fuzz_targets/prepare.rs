//! Files of models that are prepared.
#![no_main]

use facescan_properties::prepare;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| prepare(bytes));
