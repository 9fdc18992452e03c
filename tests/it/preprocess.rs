//! `/preprocess` and its commands: one tensor of several images, and the errors of images that fail.

use axum::http::header::CONTENT_TYPE;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use facescan::preprocessor::{Preprocessor, Source};
use facescan_imaging::{
    decode::{DecodeOptions, decode},
    preprocess::{Layout, Mode, Preprocess, Profile},
};
use facescan_pipeline::operations::preprocess::PreprocessRequest;
use half::{bf16, f16};
use serde_json::{Value, json};

use crate::{
    forms::multipart,
    support::{
        app::{Reply, TestApp, image_file, runtime_dir},
        cli::facescan,
        values::{assert_fields, difference, floats, lines},
    },
};

/// Returns the row that the library computes for an image.
fn expected(name: &str, preprocess: &Preprocess) -> Vec<f32> {
    let pixels = decode(&image_file(name), &DecodeOptions::default())
        .unwrap()
        .pixels;
    let mut row = vec![0.0; preprocess.row_len(pixels.dimensions())];
    preprocess.write(&pixels, &mut row);
    row
}

/// Posts three images, of which the second is truncated.
async fn three(app: &TestApp, query: &str, accept: &str) -> Reply {
    let (whole, other) = (image_file("t1.jpg"), image_file("astronaut.png"));
    let (media_type, body) = multipart(&[
        ("image", Some("a"), &whole),
        ("image", Some("b"), &whole[..whole.len() / 2]),
        ("image", Some("c"), &other),
    ]);
    let headers = [("content-type", &*media_type), ("accept", accept)];
    let uri = format!("/preprocess?{query}");
    let reply = app.call("POST", &uri, &headers, body).await;
    assert_eq!(reply.status, 200, "{:?}", reply.body);
    reply
}

/// Returns the header and the values of a NumPy file.
fn opened(file: &[u8]) -> (String, &[u8]) {
    assert_eq!(&file[..6], b"\x93NUMPY");
    let len = usize::from(u16::from_le_bytes([file[8], file[9]]));
    let (head, values) = file[10..].split_at(len);
    (String::from_utf8(head.to_vec()).unwrap(), values)
}

#[tokio::test]
async fn a_batch_keeps_the_other_images_in_order_if_one_fails() {
    let app = TestApp::start().await;
    let reply = three(&app, "", "*/*").await;
    assert_eq!(reply.headers[CONTENT_TYPE], "application/x-npy");
    assert_eq!(reply.headers["x-facescan-index"], "0,2");
    assert_eq!(reply.headers["x-facescan-errors"], "1:image_truncated");
    assert_eq!(reply.headers["x-facescan-profile"], "torchvision");
    assert_eq!(reply.headers["x-facescan-device"], "cpu");
    let (head, values) = opened(&reply.body);
    assert!(head.contains("'shape': (2, 3, 224, 224)"), "{head}");
    let usual = Preprocess::default();
    let right = ["t1.jpg", "astronaut.png"].map(|name| expected(name, &usual));
    let right = right.concat();
    assert_eq!(floats(values), right);

    let tree = three(&app, "", "application/json").await.json();
    assert_fields!(tree, {"shape": [2, 3, 224, 224], "index": [0, 2]});
    assert_fields!(tree["errors"][0], {"index": 1, "id": "b"});
    assert_eq!(tree["errors"][0]["error"]["code"], "image_truncated");
    assert_eq!(tree["device"], json!({"requested": "cpu", "active": "cpu"}));
    let tensor = BASE64_STANDARD.decode(tree["tensor"].as_str().unwrap());
    assert_eq!(tensor.unwrap(), values);

    let parts = three(&app, "", "multipart/mixed").await;
    let text = String::from_utf8_lossy(&parts.body);
    assert_eq!(text.matches("content-type: application/x-npy").count(), 2);
    assert_eq!(text.matches("'shape': (3, 224, 224)").count(), 2);
    let order: Vec<usize> = (0..3)
        .map(|index| text.find(&format!("x-facescan-index: {index}")).unwrap())
        .collect();
    assert!(order.is_sorted());
    assert!(text.contains(r#""code":"image_truncated""#));
}

#[tokio::test]
async fn options_set_size_layout_profile_and_type() {
    let app = TestApp::start().await;
    let query = "height=96&width=160&profile=opencv&mode=letterbox&data_format=NHWC\
                 &mean=%5B0.5,0.5,0.5%5D&std=%5B0.5,0.5,0.5%5D";
    let post = async |dtype: &str| {
        let uri = format!("/preprocess?{query}&dtype={dtype}");
        app.post(&uri, image_file("t1.jpg")).await
    };
    let preprocess = Preprocess {
        height: 96,
        width: 160,
        profile: Profile::Opencv,
        mode: Mode::Letterbox,
        layout: Layout::Nhwc,
        mean: [0.5; 3],
        std: [0.5; 3],
        ..Preprocess::default()
    };
    let right = expected("t1.jpg", &preprocess);
    let (whole, half_floats, brain) = (post("f32").await, post("f16").await, post("bf16").await);
    let (head, values) = opened(&whole.body);
    assert!(
        head.contains("'<f4'") && head.contains("(1, 96, 160, 3)"),
        "{head}"
    );
    assert_eq!(floats(values), right);
    let pairs = |reply: &Reply| opened(&reply.body).1.as_chunks::<2>().0.to_vec();
    let apart = |values: Vec<f32>| difference(&values, &right);
    // One level of samples in [−1, 1].
    let level = 1.0 / 127.5;
    let values = pairs(&half_floats)
        .into_iter()
        .map(|v| f16::from_le_bytes(v).to_f32());
    assert!(apart(values.collect()) < level / 10.0);
    let values = pairs(&brain)
        .into_iter()
        .map(|v| bf16::from_le_bytes(v).to_f32());
    assert!(apart(values.collect()) < level);
}

#[tokio::test]
async fn an_invalid_option_is_refused_by_name() {
    let app = TestApp::start().await;
    for (query, option) in [
        ("height=0", "height"),
        ("width=9000", "width"),
        ("mean=%5B2,0,0%5D", "mean"),
        ("std=%5B0,1,1%5D", "std"),
        ("std=7", "std"),
        ("std=null", "std"),
        ("profile=lanczos", "profile"),
        ("store=true", "store"),
        ("size=224", "size"),
    ] {
        let uri = format!("/preprocess?{query}");
        let reply = app.post(&uri, image_file("t1.jpg")).await;
        assert_eq!(reply.status, 422, "{query}: {:?}", reply.body);
        let detail = reply.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.starts_with(&format!("option `{option}")), "{detail}");
    }
    let large = app
        .post("/preprocess?height=8192&width=8192", image_file("t1.jpg"))
        .await;
    large.assert_error(413, "image_too_large");
    let alone = app
        .post("/preprocess", Bytes::from_static(b"not an image"))
        .await;
    assert_eq!(alone.code(), "unsupported_media_type");
    // Rows of different shapes do not fit in one tensor.
    let (media_type, body) = multipart(&[
        ("image", Some("a"), &image_file("t1.jpg")),
        ("image", Some("b"), &image_file("astronaut.png")),
    ]);
    let reply = app
        .post_as("/preprocess?mode=short_side", &media_type, body)
        .await;
    reply.assert_error(422, "invalid_option");
}

#[tokio::test]
async fn a_missing_platform_is_replaced_by_the_cpu_with_a_reason() {
    let asked = [("PREPROCESS_PLATFORM", "gpu"), ("GPU_BACKEND", "cuda")];
    let app = TestApp::with(&asked).await;
    let reply = three(&app, "", "application/json").await.json();
    assert_fields!(reply["device"], {"requested": "cuda:0", "active": "cpu"});
    let reason = reply["device"]["reason"].as_str().unwrap();
    assert!(reason.contains("cuda:0"), "{reason}");
    let report = app.get("/devices").await.json()["preprocessing"].clone();
    assert_eq!(report["toggle"], true);
    for told in ["requested", "active", "reason"] {
        assert_eq!(report[told], reply["device"][told]);
    }
    // Without a device there is no health and no warm-up.
    assert_eq!(
        [&report["health"], &report["warm_up_ms"]],
        [&Value::Null; 2]
    );
    let strict = app
        .post("/preprocess?strict_device=true", image_file("t1.jpg"))
        .await;
    strict.assert_error(503, "device_unavailable");

    let settings = [("JAX_PLATFORM", "tpu"), ("PREPROCESS_STRICT", "true")];
    let error = TestApp::refusal(&settings).await;
    assert!(
        error.contains("preprocess.platform: tpu is not available"),
        "{error}"
    );
}

#[test]
fn the_command_line_writes_a_tensor_and_an_index_of_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let images = folder.path().join("pictures");
    std::fs::create_dir(&images).unwrap();
    for name in ["astronaut.png", "t1.jpg"] {
        std::fs::copy(runtime_dir().join("pictures").join(name), images.join(name)).unwrap();
    }
    std::fs::write(images.join("b.jpg"), &image_file("t1.jpg")[..9000]).unwrap();
    let out = folder.path().join("batch.npy");
    let output = facescan(["preprocess", "--profile", "jax", "--out"])
        .args([&out, &images])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let file = std::fs::read(&out).unwrap();
    let (head, values) = opened(&file);
    assert!(head.contains("(2, 3, 224, 224)"), "{head}");
    let jax = Preprocess {
        profile: Profile::Jax,
        ..Preprocess::default()
    };
    let right = [expected("astronaut.png", &jax), expected("t1.jpg", &jax)].concat();
    assert_eq!(floats(values), right);
    let lines = lines(&std::fs::read(folder.path().join("batch.npy.index.jsonl")).unwrap());
    assert_eq!(lines[0]["row"], 0);
    assert_eq!(lines[1]["error"]["code"], "image_truncated");
    assert_eq!(lines[2]["row"], 1);
    assert!(lines[2]["path"].as_str().unwrap().ends_with("t1.jpg"));

    let out = folder.path().join("batch.safetensors");
    let one = images.join("t1.jpg");
    let output = facescan(["preprocess", "--dtype", "bf16", "--out"])
        .args([&out, &one])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let file = std::fs::read(&out).unwrap();
    let len = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let head: Value = serde_json::from_slice(&file[8..8 + len]).unwrap();
    assert_fields!(head["images"], {"dtype": "BF16", "shape": [1, 3, 224, 224]});
    let offsets = json!([0, file.len() - 8 - len]);
    assert_eq!(head["images"]["data_offsets"], offsets);
    assert_eq!(head["__metadata__"]["profile"], "torchvision");
}

#[test]
fn the_precision_command_reports_differences_between_profiles() {
    let folder = tempfile::tempdir().unwrap();
    let plot = folder.path().join("precision.svg");
    let output = facescan(["precision", "--json", "--plot"])
        .arg(&plot)
        .arg(runtime_dir().join("pictures/t1.jpg"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows.len(), 6);
    let of = |first: &str, second: &str| {
        let is_it = |row: &&Value| row["first"] == first && row["second"] == second;
        rows.iter().find(is_it).unwrap().clone()
    };
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap();
    // Antialiased profiles differ by about one level. A profile without antialiasing differs more.
    let near = of("jax", "pil");
    assert!(number(&near, "max_levels") < 1.1 && number(&near, "mean_levels") < 0.5);
    let far = of("torchvision", "opencv");
    assert!(number(&far, "max_levels") > 20.0 && number(&far, "mean_levels") > 1.0);
    assert!((number(&far, "max_units") - number(&far, "max_levels") / 127.5).abs() < 1e-9);
    let plot = std::fs::read_to_string(plot).unwrap();
    assert!(plot.contains("torchvision and opencv"));
}

#[tokio::test]
async fn the_library_accepts_files_and_bytes_and_reports_failures() {
    let app = TestApp::start().await;
    let preprocessor = Preprocessor::new(&app.app, PreprocessRequest::default()).unwrap();
    let broken = image_file("t1.jpg").slice(..100);
    let sources = [
        Source::File(runtime_dir().join("pictures/t1.jpg")),
        Source::File("no/such/file".into()),
        Source::Bytes(broken),
        Source::Bytes(image_file("astronaut.png")),
        Source::Url("https://example.org/a.jpg".to_owned()),
    ];
    let batch = preprocessor.batch(sources.clone()).await.unwrap();
    assert_eq!((batch.rows, batch.row_shape), (2, [3, 224, 224]));
    assert_eq!(batch.index, [0, 3]);
    let told = batch
        .errors
        .iter()
        .map(|(index, error)| (*index, error.code));
    let codes = [
        (1, "file_unreadable"),
        (2, "image_truncated"),
        (4, "url_forbidden"),
    ];
    assert_eq!(told.collect::<Vec<_>>(), codes);
    let usual = Preprocess::default();
    let right = ["t1.jpg", "astronaut.png"].map(|name| expected(name, &usual));
    let right = right.concat();
    assert_eq!(floats(&batch.values), right);
    let preprocessing = &app.app.pipeline.preprocessing;
    assert_eq!(preprocessing.assignment.state().active, "cpu");
    assert_eq!(preprocessing.warm_up_ms, None);

    let by_aspect = PreprocessRequest {
        mode: Some(Mode::ShortSide),
        ..PreprocessRequest::default()
    };
    let by_aspect = Preprocessor::new(&app.app, by_aspect).unwrap();
    let refused = by_aspect.batch(sources).await.unwrap_err();
    assert!(refused.to_string().contains("one tensor"), "{refused}");
}
