//! ONNX Runtime.

use std::{num::NonZeroUsize, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    or_one_per_core,
    rule::{Kind, Rule, is_path},
};

/// Section `runtime`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runtime {
    /// The shared library. `None` searches `ORT_DYLIB_PATH`, `.runtime/onnxruntime`, the folder of the
    /// binary, then the system.
    pub library: Option<PathBuf>,
    /// Folder of the providers that are libraries of their own.
    pub plugins_dir: PathBuf,
    /// Threads that work on one inference on the CPU; 0 is one per core.
    pub intra_threads: usize,
    /// Folder of the model files as `scripts/setup` fetched them.
    pub shipped_dir: PathBuf,
}

impl Runtime {
    /// How many threads one inference has: at least one.
    pub fn threads(&self) -> NonZeroUsize {
        or_one_per_core(self.intra_threads)
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule::checked("runtime.library", Kind::Text, "a path or null", |c| {
        c.runtime.library.as_deref().is_none_or(is_path)
    }),
    Rule::checked("runtime.plugins_dir", Kind::Text, "a path", |c| {
        is_path(&c.runtime.plugins_dir)
    }),
    Rule::checked(
        "runtime.intra_threads",
        Kind::Yaml,
        "a whole number from 0 to 1024 (0 = one per core)",
        |c| c.runtime.intra_threads <= 1024,
    ),
    Rule::checked("runtime.shipped_dir", Kind::Text, "a path", |c| {
        is_path(&c.runtime.shipped_dir)
    }),
];
