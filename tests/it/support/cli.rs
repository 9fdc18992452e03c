//! The built binary, with the fetched runtime and models. It ignores the settings of the machine.

use std::{ffi::OsStr, process::Command};

use super::app::{models_dir, runtime_dir};

/// Returns a command of the binary with an empty environment, in a working directory without `.env`.
pub fn facescan<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_facescan"));
    let library = format!(
        "{}onnxruntime{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    command
        .args(args)
        .env_clear()
        .env("FACESCAN__MODELS__DIR", models_dir())
        .env(
            "FACESCAN__RUNTIME__LIBRARY",
            runtime_dir().join("onnxruntime").join(library),
        )
        .env("LOG_LEVEL", "warn")
        .current_dir(env!("CARGO_TARGET_TMPDIR"));
    command
}
