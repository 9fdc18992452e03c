//! Registries of models.
#![no_main]

use facescan_properties::registry;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| registry(bytes));
