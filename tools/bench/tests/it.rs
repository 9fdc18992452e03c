//! `facescan-bench` on the command line. It starts the `facescan` binary in the same folder. `cargo test --workspace`
//! builds both.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

use facescan_inference::{prepare::prepare, registry::Registry};
use serde_json::Value;

/// Returns the folder of the runtime, the models and the images that `scripts/setup` fetched.
fn runtime_dir() -> PathBuf {
    match std::env::var_os("FACESCAN_RUNTIME") {
        Some(path) => path.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../.runtime"),
    }
}

/// Returns the folder of the models, and prepares those that are missing.
fn models_dir() -> &'static Path {
    static MODELS: OnceLock<PathBuf> = OnceLock::new();
    MODELS.get_or_init(|| {
        let (models, shipped) = (runtime_dir().join("models"), runtime_dir().join("shipped"));
        for spec in Registry::embedded().unwrap().iter() {
            prepare(spec, &shipped, &models)
                .unwrap_or_else(|error| panic!("{error}; run `make test`"));
        }
        models
    })
}

/// Returns a command of the binary with an empty environment, in a working directory without `.env`.
fn facescan_bench<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_facescan-bench"));
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

fn bench(args: &[&str], output: &Path) -> Output {
    facescan_bench(args)
        .args(["--seconds", "1", "--warm-up", "0", "--images"])
        .arg(runtime_dir().join("pictures"))
        .arg("--output")
        .arg(output)
        .output()
        .unwrap()
}

fn report(output: &Output, folder: &Path) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap()
}

#[test]
fn load_starts_a_server_that_answers_every_request_of_two_clients() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(&["load", "--clients", "2"], folder.path());
    let report = report(&output, folder.path());
    let figures = &report["figures"];
    let requests = figures["requests"].as_u64().unwrap();
    assert!(requests > 0, "{figures}");
    assert_eq!(
        figures["answers"],
        serde_json::json!({ "200": requests }),
        "{figures}"
    );
    assert_eq!(figures["failed"], 0);
    assert_eq!(figures["latency_ms"]["count"], requests);
    assert!(figures["server"]["cpu_seconds"].as_f64().unwrap() > 0.0);
    assert!(figures["server"]["rss"]["peak"].as_f64().unwrap() > 10.0);
    assert!(report["device"]["cores"].as_u64().unwrap() > 0);

    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("answers with 200"), "{table}");
    assert_eq!(
        fs::read_to_string(folder.path().join("report.md")).unwrap(),
        table
    );
    for plot in ["latency.svg", "throughput.svg", "memory.svg"] {
        assert!(folder.path().join(plot).exists(), "{plot}");
    }
}

#[test]
fn an_open_loop_sends_at_its_rate() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(&["load", "--rate", "5"], folder.path());
    let figures = &report(&output, folder.path())["figures"];
    // The default seed decides how many requests arrive within one second.
    let requests = figures["requests"].as_u64().unwrap();
    assert!((1..20).contains(&requests), "{figures}");
    assert_eq!(figures["answers"], serde_json::json!({ "200": requests }));
    assert_eq!(figures["lag_ms"]["count"], requests);
}

#[test]
fn an_unreachable_server_is_a_failure_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    // Nothing listens on the discard port.
    let url = ["load", "--url", "http://127.0.0.1:9", "--clients", "1"];
    let output = bench(&url, folder.path());
    assert_eq!(output.status.code(), Some(1));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("connecting to 127.0.0.1:9"), "{table}");
}

#[test]
fn the_floor_reports_the_share_of_each_part() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["floor", "--operation", "embed", "--threads", "1"];
    let output = bench(&args, folder.path());
    let figures = &report(&output, folder.path())["figures"];
    assert!(figures["throughput"].as_f64().unwrap() > 0.0, "{figures}");
    let sum: f64 = ["decode", "detect", "embed"]
        .iter()
        .map(|part| figures["shares"][part].as_f64().unwrap())
        .sum();
    assert!((sum - 1.0).abs() < 1e-6, "{figures}");
    assert!(
        figures["faces"].as_array().unwrap().contains(&6.into()),
        "{figures}"
    );
}

#[test]
fn a_soak_test_sends_requests_of_every_kind_and_records_memory() {
    let folder = tempfile::tempdir().unwrap();
    let output = facescan_bench(["soak", "--requests", "60", "--clients", "4"])
        .arg("--images")
        .arg(runtime_dir().join("pictures/t1.jpg"))
        .arg("--output")
        .arg(folder.path())
        .output()
        .unwrap();
    let figures = &report(&output, folder.path())["figures"];
    let answered: u64 = figures["answers"]
        .as_object()
        .unwrap()
        .values()
        .map(|count| count.as_u64().unwrap())
        .sum();
    let left = figures["left"].as_u64().unwrap();
    assert_eq!(answered + left, 60, "{figures}");
    assert!(
        figures["answers"]["200"].as_u64().unwrap() > 30,
        "{figures}"
    );
    assert_eq!(figures["failed"], 0, "{figures}");
    assert_eq!(figures["tenths"].as_array().unwrap().len(), 10);
    assert!(figures["peak"].as_f64().unwrap() > 10.0, "{figures}");
}
