//! The pool of threads that work on pixels.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use super::{
    or_one_per_core,
    rule::{Kind, Rule},
};

/// Section `imaging`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Imaging {
    /// Colour that transparent pixels are composited on: red, green, blue.
    pub background: [u8; 3],
    /// Threads that decode, resize, encode and run models on the CPU; 0 is one per core.
    pub workers: usize,
    /// Pictures that are held decoded at a time; 0 is two per worker.
    pub max_decoded: usize,
}

impl Imaging {
    /// How many pictures may be held decoded: at least one.
    pub fn decoded_pictures(&self) -> usize {
        match self.max_decoded {
            0 => 2 * self.worker_threads().get(),
            pictures => pictures,
        }
    }

    /// How many threads that is: at least one.
    pub fn worker_threads(&self) -> NonZeroUsize {
        or_one_per_core(self.workers)
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule::typed(
        "imaging.background",
        Kind::Yaml,
        "three whole numbers from 0 to 255",
    ),
    Rule::checked(
        "imaging.workers",
        Kind::Yaml,
        "a whole number from 0 to 1024 (0 = one per core)",
        |c| c.imaging.workers <= 1024,
    ),
    Rule::checked(
        "imaging.max_decoded",
        Kind::Yaml,
        "a whole number from 0 to 65536 (0 = two per worker)",
        |c| c.imaging.max_decoded <= 65_536,
    ),
];
