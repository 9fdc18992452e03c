//! Toggles, missing devices, and a real second execution provider.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use facescan_imaging::decode::{DecodeOptions, decode};
use image::RgbImage;
use serde_json::{Value, json};

use crate::support::{
    app::{TestApp, image_file, numbers, result_of, runtime_dir},
    cli::facescan,
    values::{assert_fields, cosine, difference, floats, photo},
};

/// Requests CUDA for every operation. The ONNX Runtime that the tests load does not contain CUDA.
const CUDA: [(&str, &str); 2] = [("ALL_GPU", "1"), ("GPU_BACKEND", "cuda")];

/// Returns whether OpenVINO can run here. `scripts/setup` fetches it for Linux on x86-64.
pub fn has_openvino() -> bool {
    let is_wanted = cfg!(all(target_os = "linux", target_arch = "x86_64"));
    let found = runtime_dir().join("plugins/openvino").is_dir();
    assert!(found || !is_wanted, "run `scripts/setup --tests`");
    is_wanted
}

/// Returns the devices and the six faces of the image, from `/embed`.
async fn faces(app: &TestApp, query: &str) -> (Value, Vec<Value>) {
    let uri = format!("/embed?store=false{query}");
    let reply = app.post(&uri, image_file("t1.jpg")).await;
    let result = reply.result();
    let faces = result["faces"].as_array().unwrap().clone();
    assert_eq!(faces.len(), 6);
    (reply.json()["devices"].clone(), faces)
}

#[tokio::test]
async fn a_missing_device_is_refused_with_a_reason_and_the_cpu_answers() {
    let app = TestApp::with(&CUDA).await;
    let (devices, _) = faces(&app, "").await;
    for operation in ["face_detection", "face_embedding"] {
        let state = &devices[operation];
        assert_fields!(state, {"requested": "cuda:0", "active": "cpu"});
        let reason = state["reason"].as_str().unwrap();
        assert!(reason.contains("cuda:0"), "{state}");
    }

    let ready = app.get("/readyz").await;
    assert_eq!(ready.status.as_u16(), 200, "the cpu serves");
    assert_eq!(ready.json()["devices"]["face_detection"]["active"], "cpu");

    let report = app.get("/devices").await.json();
    let backend = |name: &str| -> Value {
        let backends = report["backends"].as_array().unwrap();
        let found = backends.iter().find(|backend| backend["device"] == name);
        found.unwrap_or_else(|| panic!("{report}")).clone()
    };
    assert_eq!(backend("cuda:0")["state"], "refused");
    assert!(!backend("cuda:0")["reason"].as_str().unwrap().is_empty());
    assert_eq!(backend("webgpu")["state"], "untried");
    let operation = &report["operations"]["quality_checks"];
    assert_fields!(operation, {"toggle": true, "active": "cpu"});
    assert!(report["devices"][0]["memory_total"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn auto_tries_the_backends_in_order_and_reports_each_result() {
    let app = TestApp::with(&[("FACE_EMBEDDING_GPU", "1")]).await;
    let (devices, _) = faces(&app, "").await;
    assert_eq!(devices["face_detection"]["requested"], "cpu");
    assert_eq!(devices["face_embedding"]["requested"], "auto:0");
    let report = app.get("/devices").await.json();
    let backends = report["backends"].as_array().unwrap().iter();
    let tried = backends.filter(|backend| backend["state"] != "untried");
    let tried: Vec<_> = tried.map(|backend| &backend["device"]).collect();
    let order = ["cuda:0", "migraphx:0", "coreml:0", "openvino:0", "webgpu:0"];
    assert_eq!(tried, order);
}

#[tokio::test]
async fn openvino_returns_the_same_answers_as_the_cpu() {
    if !has_openvino() {
        return;
    }
    faces_through("openvino", "openvino-cpu").await;
}

/// Needs a binary that is built with libtorch: `make test-torch`.
#[cfg(feature = "torch")]
#[tokio::test]
async fn libtorch_returns_the_same_answers_as_the_cpu() {
    faces_through("torch", "torch-cpu").await;
    whole_images_through("torch", "torch-cpu").await;
}

/// Compares detection, embedding and quality on a provider with the CPU kernels.
async fn faces_through(backend: &str, active: &str) {
    let (_, on_cpu) = faces(&TestApp::start().await, "&quality=true").await;
    let app = TestApp::with(&[
        ("FACE_DETECTION_GPU", "1"),
        ("FACE_EMBEDDING_GPU", "1"),
        ("QUALITY_CHECKS_GPU", "1"),
        ("GPU_BACKEND", backend),
        ("GPU_BATCH_SIZE", "4"),
    ])
    .await;
    let (devices, on_device) = faces(&app, "&quality=true&strict_device=true").await;
    // A registered plugin does not change the results of the CPU kernels.
    let (_, again) = faces(&TestApp::start().await, "&quality=true").await;
    assert_eq!(on_cpu, again);
    assert_ne!(on_cpu, on_device);
    for operation in ["face_detection", "face_embedding", "quality_checks"] {
        assert_eq!(devices[operation]["active"], active);
    }
    for (cpu, device) in on_cpu.iter().zip(&on_device) {
        let moved = difference(&numbers(&cpu["bbox"]), &numbers(&device["bbox"]));
        assert!(moved < 1.0, "{moved}");
        let cosine = cosine(&numbers(&cpu["embedding"]), &numbers(&device["embedding"]));
        assert!(cosine > 0.999, "{cosine}");
        let overall = |face: &Value| face["quality"]["overall"].as_f64().unwrap();
        assert!((overall(cpu) - overall(device)).abs() < 0.01);
    }

    let report = app.get("/devices").await.json();
    let operation = &report["operations"]["face_embedding"];
    assert_fields!(operation["health"], {"state": "up", "rows": 6, "fallbacks": {}});
    let counted =
        format!("facescan_rows_total{{operation=\"face_embedding\",device=\"{active}\"}} 6");
    app.assert_metrics(&[&counted]);
}

#[tokio::test]
async fn openvino_returns_the_same_images_as_the_cpu() {
    if has_openvino() {
        whole_images_through("openvino", "openvino-cpu").await;
    }
}

/// Returns the image with six faces after one operation of `/process`.
async fn processed(app: &TestApp, step: &Value) -> RgbImage {
    let options = json!({"operations": [step], "second_det_size": 0, "strict_device": true});
    let body = json!({"images": [photo("t1.jpg")], "options": options});
    let reply = app.post_as("/process", "application/json", body.to_string());
    let result = reply.await.result();
    let data = result["processed"][0]["data"].as_str().unwrap();
    let png = BASE64_STANDARD.decode(data).unwrap();
    decode(&png, &DecodeOptions::default()).unwrap().pixels
}

/// Compares letterboxing, enhancement, preprocessing and processing on a provider with the CPU.
async fn whole_images_through(backend: &str, active: &str) {
    let enhance = "/enhance?store=false&upscale=2&contrast=true&sharpen=true&format=png";
    let alone = TestApp::start().await;
    let (_, on_cpu) = faces(&alone, "&second_det_size=320").await;
    let image_on_cpu = result_of(&alone, enhance, "t1.jpg").await;
    let app = TestApp::with(&[
        ("IMAGE_PROCESSING_GPU", "1"),
        ("IMAGE_ENHANCEMENT_GPU", "1"),
        ("GPU_BACKEND", backend),
        ("FACESCAN__DEVICES__CHECK_INTERVAL_BATCHES", "1"),
    ])
    .await;
    let (devices, on_device) = faces(&app, "&strict_device=true&second_det_size=320").await;
    assert_eq!(devices["image_processing"]["active"], active);
    assert_eq!(on_cpu, on_device, "bit for bit");
    let strict = format!("{enhance}&strict_device=true");
    result_of(&app, &format!("{strict}&gamma=0.9"), "t1.jpg").await;
    let reply = app.post(&strict, image_file("t1.jpg")).await;
    let devices = &reply.json()["devices"];
    assert_eq!(devices["image_enhancement"]["active"], active);
    assert_eq!(reply.result()["enhanced"], image_on_cpu["enhanced"]);

    let preprocessed = async |app: &TestApp, profile: &str| {
        let query = format!("/preprocess?profile={profile}&mode=letterbox&strict_device=true");
        let reply = app.post(&query, image_file("t1.jpg")).await;
        assert_eq!(reply.status, 200, "{:?}", reply.body);
        let active = reply.headers["x-facescan-device"].clone();
        let values = reply.body[reply.body.len() - 4 * 3 * 224 * 224..].to_vec();
        (active, values)
    };
    for profile in ["torchvision", "jax", "pil", "opencv"] {
        let (_, right) = preprocessed(&alone, profile).await;
        let (on, given) = preprocessed(&app, profile).await;
        assert_eq!(on, active);
        // With ImageNet's standard deviations, one level is at most 0.0175.
        let most = match profile {
            "jax" => 0.0002,
            "opencv" => 1e-5,
            _ => 0.0176,
        };
        let apart = difference(&floats(&given), &floats(&right));
        assert!(apart <= most, "{profile}: {apart}");
    }

    for step in [
        json!({"op": "resize", "width": 300, "height": 200, "mode": "letterbox", "pad": [7, 114, 255]}),
        json!({"op": "resize", "width": 300, "profile": "opencv"}),
        json!({"op": "gaussian_blur", "kernel": 31, "sigma": 5}),
        json!({"op": "gaussian_blur", "region": [5, 9, 300, 200]}),
        json!({"op": "gaussian_blur", "faces": true}),
    ] {
        let (right, given) = (processed(&alone, &step).await, processed(&app, &step).await);
        assert_eq!(right.dimensions(), given.dimensions());
        let pairs = right.as_raw().iter().zip(given.as_raw());
        let apart = pairs.map(|(a, b)| a.abs_diff(*b)).max();
        assert!(apart <= Some(1), "{step}: {apart:?}");
    }

    let report = app.get("/devices").await.json();
    // Two letterboxes of the image, four steps, and for the fifth step one letterbox and six faces.
    for (operation, rows) in [("image_processing", 13), ("image_enhancement", 2)] {
        let health = &report["operations"][operation]["health"];
        assert_fields!(health, {"state": "up", "rows": rows, "fallbacks": {}});
    }
    let preprocessing = &report["preprocessing"];
    let requested = format!("{backend}:0");
    assert_fields!(preprocessing, {"toggle": true, "requested": requested, "active": active});
    let health = &preprocessing["health"];
    assert_eq!(health["state"], "up");
    assert!(health["rows"].as_u64().unwrap() >= 3, "{health}");
    assert_eq!(health["fallbacks"], json!({}));
    assert!(preprocessing["warm_up_ms"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn the_cpu_can_run_models_with_another_execution_provider() {
    if !has_openvino() {
        return;
    }
    let (_, own) = faces(&TestApp::start().await, "").await;
    let app = TestApp::with(&[("FACESCAN__CPU__PROVIDER", "openvino")]).await;
    let (devices, other) = faces(&app, "").await;
    assert_eq!(devices["face_embedding"]["active"], "cpu");
    for (own, other) in own.iter().zip(&other) {
        // bf16 also moves the landmarks, and so the crop.
        let cosine = cosine(&numbers(&own["embedding"]), &numbers(&other["embedding"]));
        assert!(cosine > 0.99, "{cosine}");
    }
    let report = app.get("/devices").await.json();
    for operation in ["face_detection", "face_embedding"] {
        let operation = &report["operations"][operation];
        assert_fields!(operation, {"cpu_provider": "openvino-cpu", "cpu_proof": {"used": true}});
    }
}

#[test]
fn the_command_line_lists_every_provider() {
    let output = facescan(["devices", "--json"])
        .env("FACE_DETECTION_GPU", "1")
        .env("GPU_BACKEND", "cuda")
        .output()
        .unwrap();
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let backends = report["backends"].as_array().unwrap();
    assert!(backends.len() >= 7, "{report}");
    for backend in backends {
        let is_known = backend["state"] == "proved" || backend["reason"].is_string();
        assert!(is_known, "{backend}");
    }
    let detection = &report["operations"]["face_detection"];
    assert_eq!(detection["requested"], "cuda:0");

    let table = facescan(["devices"]).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    for heading in ["BACKEND", "DEVICE", "OPERATION", "face_embedding"] {
        assert!(table.contains(heading), "{table}");
    }
}
