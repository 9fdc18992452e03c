//! `facescan bench devices` on the command line.

use std::{fs, path::Path, process::Output};

use serde_json::Value;

use crate::{
    devices::has_openvino,
    support::{app::runtime_dir, cli::facescan, values::assert_fields},
};

fn report(output: &Output, folder: &Path) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap()
}

/// Runs the command on small images and validates the report against the schema.
fn devices(settings: &[(&str, &str)], args: &[&str]) -> (Value, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let output = facescan(["bench", "devices", "--batch-size", "2", "--iterations", "2"])
        .args(["--warm-up", "1", "--image-size", "small", "--images"])
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
fn a_toggle_without_a_device_is_measured_without_a_gain() {
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
        assert_fields!(on, {"requested": "cuda:0", "active": "cpu"});
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
fn a_toggle_with_a_device_is_compared_with_the_cpu() {
    if !has_openvino() {
        return;
    }
    let settings = [("GPU_BACKEND", "openvino")];
    let (report, _) = devices(&settings, &["--operation", "face_detection"]);
    let on = &report["benchmark_results"]["face_detection"]["small"]["gpu_true"];
    assert_eq!(on["active"], "openvino-cpu");
    assert_eq!(on["fallback_rows"], serde_json::json!({}));
    // One warm-up batch and two timed batches, with two images each.
    assert_eq!(on["device_rows"], 6);
    let gains = &report["analysis"]["performance_gains"]["face_detection"]["small"];
    assert!(gains["time_improvement_percent"].is_f64(), "{gains}");
}

#[test]
fn the_cpu_alone_is_measured_without_a_comparison() {
    let args = ["--operation", "image_processing", "--no-gpu"];
    let (report, _) = devices(&[], &args);
    let pair = report["benchmark_results"]["image_processing"]["small"].clone();
    assert!(pair["gpu_true"].is_null(), "{pair}");
    let advice = &report["analysis"]["recommendations"]["image_processing"];
    assert!(advice["toggle"].is_null(), "{advice}");
}
