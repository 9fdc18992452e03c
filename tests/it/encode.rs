//! `/embed?kind=image` and `facescan embed`: encoders of whole images from a user's registry.

use std::path::{Path, PathBuf};

use axum::http::StatusCode;
use facescan_imaging::{
    decode::{DecodeOptions, decode},
    preprocess::{Layout, Mode, Preprocess, Profile},
};
use serde_json::{Value, json};

use crate::{
    batches::{id_of, item, items, process_all, submit},
    families::{fixture, sha256},
    forms::multipart,
    support::{
        app::{TestApp, image_file, numbers, result_of},
        cli::facescan,
        values::{assert_fields, difference, floats, lines},
    },
};

/// Returns a registry entry. `rest` has the fields that differ between entries.
fn entry(id: &str, file: &str, rest: &str) -> String {
    let path = fixture(file);
    format!(
        "  - {{ id: {id}, role: encoder, family: image, file: {}, sha256: {}, license: none, commercial_use: true, \
         source: made by tests/references/models.py, {rest} }}\n",
        path.display(),
        sha256(&path),
    )
}

const INPUT: &str = "width: 32, height: 32, channel_order: rgb, mean: [123.675, 116.28, 103.53], \
                     scale: [0.0171247538, 0.0175070028, 0.0174291939]";

/// Writes a registry of encoders and returns its path.
fn registry(folder: &Path) -> PathBuf {
    let blue_first = "width: 32, height: 32, layout: NHWC, channel_order: bgr, mean: [104, 117, 123], scale: [1, 1, 1], \
                      profile: pil, mode: center_crop";
    let text = [
        "models:\n".to_owned(),
        entry(
            "embeds",
            "encoder-tiny.onnx",
            &format!("dim: 8, output: image_embeds, input: {{ name: pixel_values, {INPUT} }}"),
        ),
        entry(
            "mean",
            "encoder-tiny.onnx",
            &format!("dim: 3, output: last_hidden_state, pooling: mean, input: {{ {INPUT} }}"),
        ),
        entry(
            "first",
            "encoder-tiny.onnx",
            &format!("dim: 3, output: last_hidden_state, pooling: first, input: {{ {INPUT} }}"),
        ),
        entry(
            "nhwc",
            "encoder-nhwc.onnx",
            &format!("dim: 3, output: last_hidden_state, pooling: mean, input: {{ {blue_first} }}"),
        ),
        entry(
            "no-output",
            "encoder-tiny.onnx",
            &format!("dim: 8, output: nothing, input: {{ {INPUT} }}"),
        ),
        entry(
            "no-pooling",
            "encoder-tiny.onnx",
            &format!("dim: 3, output: last_hidden_state, input: {{ {INPUT} }}"),
        ),
        entry(
            "other-dim",
            "encoder-tiny.onnx",
            &format!("dim: 9, output: image_embeds, input: {{ {INPUT} }}"),
        ),
        entry(
            "planes",
            "encoder-nhwc.onnx",
            &format!("dim: 8, output: image_embeds, input: {{ {INPUT} }}"),
        ),
    ]
    .concat();
    let path = folder.join("encoders.yaml");
    std::fs::write(&path, text).unwrap();
    path
}

async fn app_with(folder: &Path, encoder: &str) -> TestApp {
    let registry = registry(folder).display().to_string();
    TestApp::with(&[
        ("FACESCAN__MODELS__REGISTRY", &registry),
        ("FACESCAN__MODELS__ENCODER", encoder),
    ])
    .await
}

/// Returns the row that the library computes for an image.
fn row(name: &str, preprocess: &Preprocess) -> Vec<f32> {
    let decoded = decode(&image_file(name), &DecodeOptions::default()).unwrap();
    let mut row = vec![0.0; preprocess.row_len(decoded.pixels.dimensions())];
    preprocess.write(&decoded.pixels, &mut row);
    row
}

fn unit(vector: &[f32]) -> Vec<f32> {
    let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter().map(|value| value / norm).collect()
}

fn assert_near(given: &[f32], right: &[f32]) {
    let apart = difference(given, right);
    assert!(apart < 1e-4, "{apart}");
}

fn small() -> Preprocess {
    Preprocess {
        height: 32,
        width: 32,
        ..Preprocess::default()
    }
}

fn mean(values: impl Iterator<Item = f32>) -> f32 {
    let values: Vec<f32> = values.collect();
    values.iter().sum::<f32>() / values.len() as f32
}

#[tokio::test]
async fn an_image_embedding_is_the_pooled_tokens_of_its_row() {
    let folder = tempfile::tempdir().unwrap();
    let row = row("astronaut.png", &small());
    let planes: Vec<&[f32]> = row.chunks(32 * 32).collect();
    let of_all: Vec<f32> = planes
        .iter()
        .map(|plane| mean(plane.iter().copied()))
        .collect();
    let corner =
        |plane: &&[f32]| mean((0..8).flat_map(|y| plane[y * 32..y * 32 + 8].iter().copied()));
    let of_first: Vec<f32> = planes.iter().map(corner).collect();
    for (encoder, right) in [("mean", of_all), ("first", of_first)] {
        let app = app_with(folder.path(), encoder).await;
        let uri = "/embed?kind=image&timings=true&store=false";
        let reply = app.post(uri, image_file("astronaut.png")).await;
        let result = reply.result();
        assert_near(&numbers(&result["embedding"]), &unit(&right));
        let norm = right.iter().map(|value| value * value).sum::<f32>().sqrt();
        let given = result["embedding_norm"].as_f64().unwrap() as f32;
        assert_near(&[given], &[norm]);
        assert_eq!(result["precision"], "f32");
        assert!(result["timings_ms"]["total"].as_f64().unwrap() > 0.0);
        assert!(reply.headers.contains_key("x-inference-time"));
        assert!(result.get("faces").is_none());
    }
}

#[tokio::test]
async fn layout_and_channel_order_follow_the_registry_entry() {
    let folder = tempfile::tempdir().unwrap();
    let app = app_with(folder.path(), "nhwc").await;
    let result = result_of(&app, "/embed?kind=image", "t1.jpg").await;
    let preprocess = Preprocess {
        profile: Profile::Pil,
        mode: Mode::CenterCrop,
        layout: Layout::Nhwc,
        mean: [123.0, 117.0, 104.0].map(|mean: f32| mean / 255.0),
        std: [1.0 / 255.0; 3],
        ..small()
    };
    let row = row("t1.jpg", &preprocess);
    let channel = |channel| mean(row.iter().skip(channel).step_by(3).copied());
    assert_near(
        &numbers(&result["embedding"]),
        &unit(&[channel(2), channel(1), channel(0)]),
    );
}

#[tokio::test]
async fn images_of_one_request_return_the_same_vectors_as_single_requests() {
    let folder = tempfile::tempdir().unwrap();
    let app = app_with(folder.path(), "embeds").await;
    let (a, b) = (image_file("t1.jpg"), image_file("astronaut.png"));
    let (media_type, body) = multipart(&[
        ("image", Some("a"), &a),
        ("image", Some("broken"), &a[..100]),
        ("image", Some("b"), &b),
        ("kind", None, b"image"),
    ]);
    let reply = app.post_as("/embed", &media_type, body).await;
    assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.body);
    let answer = reply.json();
    for (index, alone) in [(0, a), (2, b)] {
        let alone = app.post("/embed?kind=image", alone).await.result();
        assert_eq!(answer["results"][index]["embedding"], alone["embedding"]);
    }
    assert_eq!(answer["results"][1]["status"], "error");
    insta::assert_json_snapshot!(json!([answer["operation"], answer["models"], answer["devices"]]), {
        "[1].encoder.vector_space" => "[vector_space]",
    });
    let listed = app.get("/models").await.json();
    let listed: Vec<&Value> = listed.as_array().unwrap().iter().collect();
    let loaded = listed.iter().find(|model| model["id"] == "embeds").unwrap();
    assert_eq!(loaded["loaded"], true);
    assert_eq!(
        loaded["vector_space"],
        answer["models"]["encoder"]["vector_space"]
    );
    let vector_spaces: std::collections::HashSet<&str> = listed
        .iter()
        .filter(|model| model["role"] == "encoder")
        .map(|model| model["vector_space"].as_str().unwrap())
        .collect();
    // Two of the eight entries differ only in a wrong `dim`, so they share a vector space.
    assert_eq!(vector_spaces.len(), 7);
}

/// The vector of a whole image is stored, answered from the database, read and erased. A batch stores it too.
#[tokio::test(flavor = "multi_thread")]
async fn vectors_of_whole_images_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let app = app_with(folder.path(), "embeds").await;
    let uri = "/embed?kind=image&source=album";
    let first = result_of(&app, uri, "t1.jpg").await;
    let again = result_of(&app, uri, "t1.jpg").await;
    assert_eq!(
        (&first["cached"], &again["cached"]),
        (&false.into(), &true.into())
    );
    for field in [
        "embedding",
        "embedding_norm",
        "precision",
        "image_id",
        "image",
    ] {
        assert_eq!(first[field], again[field], "{field}");
    }
    let faces = result_of(&app, "/detect", "t1.jpg").await;
    assert_eq!(faces["image_id"], first["image_id"]);
    let stored = format!("/images/{}", first["image_id"].as_str().unwrap());
    let image = app.get(&stored).await.json();
    let scan = &image["scans"][0];
    assert_fields!(scan, {"operation": "embed_image", "faces": []});
    assert_eq!(scan["embedding"], first["embedding"]);
    assert_eq!(image["sources"][0]["source"], "album");

    let sent = ["t1.jpg", "obama.jpg"].map(|name| item(name, name));
    let body = json!({"operation": "embed", "options": {"kind": "image"}, "items": sent});
    let id = id_of(&submit(&app, &body).await);
    process_all(&app).await;
    let items = items(&app, &id, "").await;
    assert_eq!(items[0]["result"]["embedding"], first["embedding"]);
    assert_eq!(
        (&items[0]["cached"], &items[1]["cached"]),
        (&true.into(), &false.into())
    );
    let other = result_of(&app, uri, "obama.jpg").await;
    assert_eq!(items[1]["result"]["embedding"], other["embedding"]);
    assert_eq!(app.delete(&stored).await.status, StatusCode::NO_CONTENT);
    let new = result_of(&app, uri, "t1.jpg").await;
    assert_eq!(new["cached"], false, "an erased vector is not returned");
}

#[tokio::test]
async fn an_unsupported_option_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let app = app_with(folder.path(), "embeds").await;
    for (uri, said) in [
        ("/embed?kind=image&max_faces=2", "max_faces"),
        ("/detect?kind=image", "`image` works only with /embed"),
        ("/quality?kind=image", "`image` works only with /embed"),
        ("/embed?kind=picture", "kind"),
    ] {
        let reply = app.post(uri, image_file("t1.jpg")).await;
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{uri}");
        let detail = reply.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(said), "{uri}: {detail}");
    }
    let none = TestApp::start().await;
    let reply = none.post("/embed?kind=image", image_file("t1.jpg")).await;
    assert_eq!(reply.code(), "no_model");
    let detail = reply.json()["detail"].to_string();
    assert!(detail.contains("models.encoder"), "{detail}");
}

#[tokio::test]
async fn an_encoder_that_does_not_match_its_entry_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let registry = registry(folder.path()).display().to_string();
    for (encoder, field) in [
        ("no-output", "output"),
        ("no-pooling", "pooling"),
        ("other-dim", "dim"),
        ("planes", "channels"),
        ("sface-2021dec", "role"),
    ] {
        let settings = [
            ("FACESCAN__MODELS__REGISTRY", registry.as_str()),
            ("FACESCAN__MODELS__ENCODER", encoder),
        ];
        let error = TestApp::refusal(&settings).await;
        assert!(
            error.contains(encoder) && error.contains(field),
            "{encoder}: {error}"
        );
    }
}

/// Runs `facescan embed` on a folder with an image, a truncated image and an image without faces.
fn embed(folder: &Path, options: &[&str]) -> std::process::Output {
    let images = folder.join("pictures");
    std::fs::create_dir_all(&images).unwrap();
    std::fs::write(images.join("a.jpg"), image_file("t1.jpg")).unwrap();
    std::fs::write(images.join("b.jpg"), &image_file("t1.jpg")[..100]).unwrap();
    std::fs::write(images.join("c.png"), crate::verify::flat_png()).unwrap();
    facescan(["embed"])
        .arg(&images)
        .args(options)
        .env("FACESCAN__MODELS__REGISTRY", registry(folder))
        .env("FACESCAN__MODELS__ENCODER", "embeds")
        .env("FACESCAN__CPU__PROVIDER", "default")
        .output()
        .unwrap()
}

#[test]
fn embedding_a_folder_writes_a_matrix_and_an_index_of_paths_and_errors() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("v.npy");
    let out_path = out.to_str().unwrap();
    let run = embed(folder.path(), &["--kind", "image", "--out", out_path]);
    assert_eq!(run.status.code(), Some(1), "{run:?}");
    let printed = embed(folder.path(), &["--kind", "image"]);
    let printed = lines(&printed.stdout);
    let matrix = std::fs::read(&out).unwrap();
    let rows = floats(&matrix[matrix.len() - 2 * 8 * 4..]);
    assert_eq!(rows[..8], numbers(&printed[0]["embedding"]));
    assert_eq!(rows[8..], numbers(&printed[2]["embedding"]));
    let index = lines(&std::fs::read(folder.path().join("v.npy.index.jsonl")).unwrap());
    let told = index
        .iter()
        .map(|line| json!([line["row"], line["error"]["code"]]));
    let failed = json!([null, printed[1]["error"]["code"]]);
    let expected = [json!([0, null]), failed, json!([1, null])];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert!(index[1]["error"]["detail"].is_string());
    assert!(index[0]["path"].as_str().unwrap().ends_with("a.jpg"));
}

#[test]
fn embedding_the_faces_of_a_folder_writes_a_line_for_every_image() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("v.jsonl");
    let out_path = out.to_str().unwrap();
    let run = embed(folder.path(), &["--out", out_path, "--max-faces", "2"]);
    assert_eq!(run.status.code(), Some(1), "{run:?}");
    let written = lines(&std::fs::read(&out).unwrap());
    assert_eq!(written.len(), 4);
    assert_eq!(written[1]["face"], 1);
    assert_eq!(numbers(&written[0]["embedding"]).len(), 128);
    assert_eq!(written[2]["error"]["code"], "image_truncated");
    // An image without a face has a line with only its path.
    assert_eq!(written[3].as_object().unwrap().len(), 1);
    let refused = embed(folder.path(), &["--out", "v.csv"]);
    assert_eq!(refused.status.code(), Some(2));
}
