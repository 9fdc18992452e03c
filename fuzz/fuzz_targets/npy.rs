//! Headers of `.npy` files, which the server writes.
#![no_main]

use facescan_properties::npy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| npy(bytes));
