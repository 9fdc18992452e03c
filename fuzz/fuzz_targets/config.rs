//! Configurations from a file, `.env` and the environment.
#![no_main]

use facescan_properties::config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| config(bytes));
