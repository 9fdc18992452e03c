//! `facescan bench`, as a user runs it.

use std::{fs, path::Path, process::Output};

use serde_json::Value;

use crate::{
    devices::has_openvino,
    support::{app::runtime_dir, cli::facescan},
};

fn bench(args: &[&str], output: &Path) -> Output {
    facescan(["bench"])
        .args(args)
        .args(["--seconds", "1", "--warm-up", "0", "--pictures"])
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
fn a_server_of_its_own_answers_every_request_of_two_clients() {
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
    // The arrivals of the default seed within one second.
    let requests = figures["requests"].as_u64().unwrap();
    assert!((1..20).contains(&requests), "{figures}");
    assert_eq!(figures["answers"], serde_json::json!({ "200": requests }));
    assert_eq!(figures["lag_ms"]["count"], requests);
}

#[test]
fn a_server_that_is_not_there_is_a_failure_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    // Nothing listens on the discard port.
    let url = ["load", "--url", "http://127.0.0.1:9", "--clients", "1"];
    let output = bench(&url, folder.path());
    assert_eq!(output.status.code(), Some(1));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("connecting to 127.0.0.1:9"), "{table}");
}

/// Measures finding faces in small pictures, and checks the report against the schema.
fn devices(settings: &[(&str, &str)], args: &[&str]) -> (Value, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let output = facescan(["bench", "devices", "--batch-size", "2", "--iterations", "2"])
        .args(["--warm-up", "1", "--image-size", "small", "--pictures"])
        .arg(runtime_dir().join("pictures"))
        .arg("--output")
        .arg(folder.path())
        .args(args)
        .env(
            "FACESCAN__RUNTIME__PLUGINS_DIR",
            runtime_dir().join("plugins"),
        )
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    let report = report(&output, folder.path());
    let schema = include_str!("../../docs/benchmarks/devices.schema.json");
    let schema = serde_json::from_str(schema).unwrap();
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let problems: Vec<String> = schema
        .iter_errors(&report)
        .map(|problem| format!("{}: {problem}", problem.instance_path()))
        .collect();
    assert!(problems.is_empty(), "{problems:#?}");
    (report, folder)
}

#[test]
fn a_toggle_without_a_device_is_measured_and_gains_nothing() {
    let settings = [("GPU_BACKEND", "cuda")];
    let args = ["--operation", "face_detection,quality_checks"];
    let (report, folder) = devices(&settings, &args);
    for operation in ["face_detection", "quality_checks"] {
        let pair = &report["benchmark_results"][operation]["small"];
        let on = &pair["gpu_true"];
        assert_eq!(pair["gpu_false"]["success_rate"], 1.0);
        assert_eq!(on["success_rate"], 1.0);
        assert_eq!(on["times_ms"].as_array().unwrap().len(), 2);
        assert!(on["mean_throughput"].as_f64().unwrap() > 0.0);
        assert_eq!(on["requested"], "cuda:0");
        assert_eq!(on["active"], "cpu");
        let gains = &report["analysis"]["performance_gains"][operation]["small"];
        assert!(gains["time_improvement_percent"].is_null(), "{gains}");
        assert_eq!(
            report["analysis"]["recommendations"][operation]["toggle"],
            "off"
        );
        let plot = format!("{operation}_throughput.svg");
        assert!(folder.path().join(&plot).exists(), "{plot}");
    }
    let table = fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert!(table.contains("FACE_DETECTION_GPU"), "{table}");
}

#[test]
fn a_toggle_with_a_device_is_compared() {
    if !has_openvino() {
        return;
    }
    let settings = [("GPU_BACKEND", "openvino")];
    let (report, _) = devices(&settings, &["--operation", "face_detection"]);
    let on = &report["benchmark_results"]["face_detection"]["small"]["gpu_true"];
    assert_eq!(on["active"], "openvino-cpu");
    assert_eq!(on["fallback_rows"], serde_json::json!({}));
    // A batch of the warm-up and two timed ones, of two pictures each.
    assert_eq!(on["device_rows"], 6);
    let gains = &report["analysis"]["performance_gains"]["face_detection"]["small"];
    assert!(gains["time_improvement_percent"].is_f64(), "{gains}");
}

#[test]
fn one_side_alone_is_measured_without_a_comparison() {
    let args = ["--operation", "image_processing", "--no-gpu"];
    let (report, _) = devices(&[], &args);
    let pair = report["benchmark_results"]["image_processing"]["small"].clone();
    assert!(pair["gpu_true"].is_null(), "{pair}");
    let advice = &report["analysis"]["recommendations"]["image_processing"];
    assert!(advice["toggle"].is_null(), "{advice}");
}

#[test]
fn the_floor_tells_what_each_part_takes() {
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
fn a_soak_sends_requests_of_every_kind_and_follows_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let output = facescan(["bench", "soak", "--requests", "60", "--clients", "4"])
        .arg("--pictures")
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
