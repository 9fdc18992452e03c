//! Models of other families, loaded by path through a user's registry.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::support::app::{TestApp, image_file, numbers, result_of};

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/models")
        .join(name)
}

pub fn sha256(path: &Path) -> String {
    let digest = Sha256::digest(std::fs::read(path).unwrap());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a registry with the two tiny models. `edit` can make it invalid.
fn registry(folder: &Path, edit: impl Fn(String) -> String) -> PathBuf {
    let (scrfd, arcface) = (fixture("scrfd-64.onnx"), fixture("arcface-tiny.onnx"));
    let text = format!(
        r#"
models:
  - id: scrfd-64
    role: detector
    family: scrfd
    file: {}
    sha256: {}
    license: none
    commercial_use: true
    source: made by tests/references/models.py
    input: {{ width: 64, height: 64, channel_order: rgb, mean: [127.5, 127.5, 127.5], scale: [0.0078125, 0.0078125, 0.0078125] }}
    batch: 1
    thresholds: {{ score: 0.5, nms_iou: 0.4 }}
  - id: arcface-tiny
    role: embedder
    family: arcface
    file: {}
    sha256: {}
    license: none
    commercial_use: true
    source: made by tests/references/models.py
    input: {{ width: 112, height: 112, channel_order: rgb, mean: [127.5, 127.5, 127.5], scale: [0.00784313725, 0.00784313725, 0.00784313725] }}
    dim: 512
"#,
        scrfd.display(),
        sha256(&scrfd),
        arcface.display(),
        sha256(&arcface),
    );
    let path = folder.join("models.yaml");
    std::fs::write(&path, edit(text)).unwrap();
    path
}

fn settings(registry: &Path) -> [(&'static str, String); 4] {
    [
        ("FACESCAN__MODELS__REGISTRY", registry.display().to_string()),
        ("FACESCAN__MODELS__DETECTOR", "scrfd-64".to_owned()),
        ("FACESCAN__MODELS__EMBEDDER", "arcface-tiny".to_owned()),
        ("FACESCAN__DETECTION__DET_SIZE", "64".to_owned()),
    ]
}

fn borrowed<'a>(settings: &'a [(&'a str, String)]) -> Vec<(&'a str, &'a str)> {
    settings
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect()
}

#[tokio::test]
async fn scrfd_and_arcface_files_run_by_path() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&registry(folder.path(), |text| text));
    let app = TestApp::with(&borrowed(&settings)).await;
    let reply = app.post("/embed", image_file("astronaut.png")).await;
    let result = reply.result();
    let face = &result["faces"][0];
    // The one face of the model, scaled by 8 from network pixels to image pixels.
    assert_eq!(numbers(&face["bbox"]), [0.0, 0.0, 384.0, 480.0]);
    assert_eq!(numbers(&face["landmarks"][2]), [192.0, 256.0]);
    assert_eq!(face["embedding"].as_array().unwrap().len(), 512);
    assert_eq!(reply.json()["models"]["embedder"]["dim"], 512);
    let refused = app
        .post("/detect?det_size=640", image_file("astronaut.png"))
        .await;
    let detail = refused.json()["detail"].to_string();
    assert!(detail.contains("scrfd-64 accepts 64 only"), "{detail}");
}

#[tokio::test]
async fn centerface_finds_the_same_faces_as_yunet() {
    let app = TestApp::with(&[("FACESCAN__MODELS__DETECTOR", "centerface")]).await;
    let by_centerface = result_of(&app, "/detect", "t1.jpg").await;
    let by_yunet = result_of(&TestApp::start().await, "/detect", "t1.jpg").await;
    let centers = |result: &serde_json::Value| -> Vec<[f32; 2]> {
        let faces = result["faces"].as_array().unwrap().iter();
        let boxes = faces.map(|face| numbers(&face["bbox"]));
        boxes
            .map(|b| [(b[0] + b[2]) / 2.0, (b[1] + b[3]) / 2.0])
            .collect()
    };
    let (ours, theirs) = (centers(&by_centerface), centers(&by_yunet));
    assert_eq!(ours.len(), 6);
    for [x, y] in theirs {
        assert!(
            ours.iter()
                .any(|[a, b]| (a - x).abs() < 15.0 && (b - y).abs() < 15.0),
            "{x} {y}: {ours:?}"
        );
    }
}

#[tokio::test]
async fn a_model_that_does_not_match_its_entry_stops_the_start() {
    let cases = [
        ("dim: 512", "dim: 256", "dim"),
        ("batch: 1", "batch: 2", "batch"),
        ("width: 64, height: 64", "width: 96, height: 96", "input"),
        ("family: scrfd", "family: yunet", "output"),
        ("sha256: ", "", "sha256"),
        ("role: detector", "role: embedder", "role"),
    ];
    for (from, to, field) in cases {
        let folder = tempfile::tempdir().unwrap();
        let spoil = |text: String| match field {
            // A sha256 of another length is a different error, so one digit is replaced.
            "sha256" => {
                let digit = text.find(from).unwrap() + from.len();
                let other = if &text[digit..=digit] == "0" {
                    "1"
                } else {
                    "0"
                };
                [&text[..digit], other, &text[digit + 1..]].concat()
            }
            _ => text.replacen(from, to, 1),
        };
        let settings = settings(&registry(folder.path(), spoil));
        let error = TestApp::refusal(&borrowed(&settings)).await;
        assert!(
            error.contains("scrfd-64") || error.contains("arcface-tiny"),
            "{to}: {error}"
        );
        assert!(error.contains(field), "{to}: {error}");
    }
}

#[tokio::test]
async fn a_license_without_commercial_use_stops_the_start_if_the_settings_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let research = |text: String| text.replacen("commercial_use: true", "commercial_use: false", 1);
    let settings = settings(&registry(folder.path(), research));
    let mut settings = borrowed(&settings);
    TestApp::with(&settings).await;
    settings.push(("FACESCAN__MODELS__COMMERCIAL_ONLY", "true"));
    let error = TestApp::refusal(&settings).await;
    assert!(error.contains("scrfd-64 (none) does not allow"), "{error}");
}
