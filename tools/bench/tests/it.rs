//! `facescan-bench` on the command line, with the files that `scripts/setup` fetched.

use std::{path::PathBuf, process::Command};

use facescan_inference::{prepare::prepare, registry::Registry};
use serde_json::Value;

#[test]
fn the_floor_reports_the_share_of_each_part() {
    let runtime = match std::env::var_os("FACESCAN_RUNTIME") {
        Some(path) => path.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../.runtime"),
    };
    let (shipped, models) = (runtime.join("shipped"), runtime.join("models"));
    for spec in Registry::embedded().unwrap().iter() {
        prepare(spec, &shipped, &models).unwrap_or_else(|error| panic!("{error}; run `make test`"));
    }
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let library = format!("onnxruntime/{prefix}onnxruntime{suffix}");
    let output = Command::new(env!("CARGO_BIN_EXE_facescan-bench"))
        .args(["floor", "--operation", "embed", "--threads", "1"])
        .args(["--seconds", "1", "--images"])
        .arg(runtime.join("pictures"))
        .env_clear()
        .env("FACESCAN__MODELS__DIR", models)
        .env("FACESCAN__RUNTIME__LIBRARY", runtime.join(library))
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rate = report["images_per_second"].as_f64().unwrap();
    assert!(rate > 0.0, "{report}");
    let sum: f64 = ["decode", "detect", "embed"]
        .iter()
        .map(|part| report["shares"][part].as_f64().unwrap())
        .sum();
    assert!((sum - 1.0).abs() < 1e-6, "{report}");
    let faces = report["faces"].as_array().unwrap();
    assert!(faces.contains(&6.into()), "{report}");
}
