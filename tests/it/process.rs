//! `/process` and its commands: every operation on real images, and the errors.

use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use facescan_imaging::{
    decode::{DecodeOptions, decode},
    encode::{OutputFormat, encode},
};
use image::{Rgb, RgbImage};
use serde_json::{Value, json};

use crate::{
    forms::multipart,
    support::{
        app::{Reply, TestApp, image_file, runtime_dir},
        cli::facescan,
        values::{assert_fields, photo},
    },
};

/// Applies operations to the image with six faces.
async fn process(app: &TestApp, operations: Value) -> Reply {
    let body = json!({"images": [photo("t1.jpg")], "options": {"operations": operations}});
    app.post_as("/process", "application/json", body.to_string())
        .await
}

fn pixels(bytes: &[u8]) -> RgbImage {
    decode(bytes, &DecodeOptions::default()).unwrap().pixels
}

/// Decodes the images of a result.
fn images(result: &Value) -> Vec<RgbImage> {
    let list = result["processed"].as_array().unwrap().iter();
    list.map(|image| {
        let data = BASE64_STANDARD
            .decode(image["data"].as_str().unwrap())
            .unwrap();
        let pixels = pixels(&data);
        let told = (&image["width"], &image["height"]);
        assert_eq!(told, (&json!(pixels.width()), &json!(pixels.height())));
        pixels
    })
    .collect()
}

fn png(image: &RgbImage) -> Vec<u8> {
    encode(image, OutputFormat::Png).unwrap()
}

#[tokio::test]
async fn every_anonymize_method_leaves_no_detectable_face() {
    let app = TestApp::start().await;
    let before = pixels(&image_file("t1.jpg"));
    for method in ["blur", "pixelate", "fill"] {
        let step = json!([{"op": "anonymize", "method": method, "color": [9, 99, 199]}]);
        let result = process(&app, step).await.result();
        assert_eq!(result["steps"][0]["op"], "anonymize");
        assert!(result["steps"][0]["faces"].as_u64().unwrap() >= 6);
        assert!(result["steps"][0]["searches"].as_u64().unwrap() >= 2);
        let [after] = images(&result).try_into().unwrap();
        let found = app.post("/detect?store=false", png(&after).into()).await;
        assert_eq!(found.result()["faces"], json!([]), "{method}");
        // The other pixels do not change.
        let same = before.pixels().zip(after.pixels()).filter(|(a, b)| a == b);
        let share = same.count() as f64 / f64::from(before.width() * before.height());
        assert!((0.5..1.0).contains(&share), "{method}: {share}");
    }
}

#[tokio::test]
async fn each_face_is_cropped_with_its_margin() {
    let app = TestApp::start().await;
    let result = process(&app, json!([{"op": "crop", "faces": true, "margin": 0.25}]))
        .await
        .result();
    assert_eq!(result["steps"][0]["faces"], 6);
    let whole = pixels(&image_file("t1.jpg"));
    let found = app.post("/detect?store=false", image_file("t1.jpg")).await;
    let faces = found.result()["faces"].as_array().unwrap().clone();
    for ((face, cut), told) in faces
        .iter()
        .zip(images(&result))
        .zip(result["processed"].as_array().unwrap())
    {
        let region: [u32; 4] = serde_json::from_value(told["region"].clone()).unwrap();
        let bbox: [f32; 4] = serde_json::from_value(face["bbox"].clone()).unwrap();
        assert!(region[0] as f32 <= bbox[0] && region[3] as f32 >= bbox[3]);
        let wider = cut.width() as f32 / (bbox[2] - bbox[0]);
        assert!((1.3..1.6).contains(&wider), "{wider}");
        assert_eq!(
            *cut.get_pixel(3, 4),
            *whole.get_pixel(region[0] + 3, region[1] + 4)
        );
    }
}

#[tokio::test]
async fn operations_run_in_order_and_are_reported() {
    let app = TestApp::start().await;
    let operations = json!([
        {"op": "crop", "box": [100, 50, 500, 350]},
        {"op": "resize", "width": 200, "profile": "pil"},
        {"op": "rotate", "degrees": 90},
        {"op": "flip", "axis": "horizontal"},
        {"op": "grayscale"},
        {"op": "gaussian_blur", "region": [0, 0, 50, 60]},
    ]);
    let result = process(&app, operations).await.result();
    let names = result["steps"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|step| &step["op"]).collect();
    let sent = [
        "crop",
        "resize",
        "rotate",
        "flip",
        "grayscale",
        "gaussian_blur",
    ];
    assert_eq!(names, sent);
    assert_eq!(result["steps"][1]["profile"], "pil");
    assert_eq!(result["processed"][0]["region"], json!([100, 50, 500, 350]));
    let [after] = images(&result).try_into().unwrap();
    assert_eq!(after.dimensions(), (150, 200));
    assert!(after.pixels().all(|Rgb([r, g, b])| r == g && g == b));
}

#[tokio::test]
async fn accepting_an_image_type_returns_the_image_itself() {
    let app = TestApp::start().await;
    let operations = "operations=%5B%7B%22op%22%3A%22flip%22%2C%22axis%22%3A%22vertical%22%7D%5D";
    let flipped = async |accept: &str| {
        let headers = [("content-type", "image/jpeg"), ("accept", accept)];
        let uri = format!("/process?{operations}");
        app.call("POST", &uri, &headers, image_file("t1.jpg")).await
    };
    let reply = flipped("image/webp").await;
    assert_eq!(reply.status, 200, "{:?}", reply.body);
    assert_eq!(reply.headers[CONTENT_TYPE], "image/webp");
    assert_eq!(reply.headers["x-facescan-steps"], r#"[{"op":"flip"}]"#);
    let (before, after) = (pixels(&image_file("t1.jpg")), pixels(&reply.body));
    assert_eq!(after, image::imageops::flip_vertical(&before));

    let reply = flipped("image/avif").await;
    assert_eq!(reply.status, 200, "{:?}", reply.body);
    assert_eq!(reply.headers[CONTENT_TYPE], "image/avif");
    assert_eq!(reply.body[4..12], *b"ftypavif");
    let large = "%5B%7B%22op%22%3A%22resize%22%2C%22width%22%3A4097%2C%22height%22%3A2160%7D%5D";
    let uri = format!("/process?format=avif&operations={large}");
    let refused = app.post(&uri, image_file("t1.jpg")).await;
    assert_eq!(refused.status, 422, "{:?}", refused.body);
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("option `format`: avif"), "{detail}");
    let reply = flipped("application/x-npy").await;
    assert_eq!(reply.headers[CONTENT_TYPE], "application/x-npy");
    assert_eq!(reply.body[..6], *b"\x93NUMPY");
    assert!(reply.body.ends_with(after.as_raw()));
}

#[tokio::test]
async fn normalized_samples_are_returned_as_floats() {
    let app = TestApp::start().await;
    let operations = json!([
        {"op": "crop", "box": [0, 0, 5, 4]},
        {"op": "normalize", "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.5, 1.0], "layout": "NHWC"},
    ]);
    let result = process(&app, operations).await.result();
    assert_eq!(result["processed"][0]["format"], "npy");
    let file = BASE64_STANDARD
        .decode(result["processed"][0]["data"].as_str().unwrap())
        .unwrap();
    let (head, values) = file.split_at(file.len() - 5 * 4 * 3 * 4);
    let head = String::from_utf8_lossy(head);
    assert!(
        head.contains("'<f4'") && head.contains("(4, 5, 3)"),
        "{head}"
    );
    let values = values.as_chunks::<4>().0.iter();
    let values: Vec<f32> = values.map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let Rgb(pixel) = pixels(&image_file("t1.jpg")).get_pixel(2, 1).to_owned();
    for (channel, std) in [0.25, 0.5, 1.0].into_iter().enumerate() {
        let expected = (f32::from(pixel[channel]) / 255.0 - 0.5) / std;
        let given = values[(5 + 2) * 3 + channel];
        assert!((given - expected).abs() < 1e-5, "{given} {expected}");
    }
}

#[tokio::test]
async fn masks_crop_all_images_alike_and_report_unmet_constraints() {
    let app = TestApp::start().await;
    let frame = RgbImage::from_fn(401, 300, |x, y| Rgb([x as u8, y as u8, 7]));
    let mask = |x: std::ops::Range<u32>| {
        let level = |x, y| u8::from((10..=20).contains(&y) && x) * 255;
        png(&RgbImage::from_fn(401, 300, |at, y| {
            Rgb([level(x.contains(&at), y); 3])
        }))
    };
    let operations = br#"[{"op":"mask_crop","min_size":[64,64]}]"#;
    let (media_type, body) = multipart(&[
        ("image", Some("a"), &png(&frame)),
        ("image", Some("b"), &png(&frame)),
        ("mask", Some("m"), &mask(10..15)),
        ("mask", Some("n"), &mask(16..21)),
        ("operations", None, operations),
    ]);
    let reply = app.post_as("/process", &media_type, body).await;
    assert_eq!(reply.status, 200, "{:?}", reply.body);
    for result in reply.json()["results"].as_array().unwrap() {
        // The masks cover 10..=20 on both axes. Padding adds 5 pixels on each side. The box then grows to 64 pixels and
        // moves into the corner of the image.
        assert_eq!(result["processed"][0]["region"], json!([0, 0, 64, 64]));
        assert_fields!(result["steps"][0], {"unmet": [], "padding_clipped": false});
        let [cut] = images(result).try_into().unwrap();
        assert_eq!(*cut.get_pixel(3, 4), *frame.get_pixel(3, 4));
    }

    let body = |mask: &[u8], image: &RgbImage| {
        json!({
            "images": [{"data": BASE64_STANDARD.encode(png(image))}],
            "masks": [{"data": BASE64_STANDARD.encode(mask)}],
            "options": {"operations": [{"op": "mask_crop"}]},
        })
        .to_string()
    };
    let post = async |body: String| app.post_as("/process", "application/json", body).await;
    let reply = post(body(&mask(10..21), &frame)).await.result();
    assert_eq!(reply["processed"][0]["region"], json!([0, 0, 401, 300]));
    assert_eq!(reply["steps"][0]["unmet"], json!(["odd", "min_size"]));
    let empty = post(body(&mask(0..0), &frame)).await.result();
    assert_eq!(empty["steps"][0]["empty"], true);
    assert_eq!(empty["processed"][0]["width"], 401);
    let other = post(body(&mask(10..21), &RgbImage::new(30, 40))).await;
    other.assert_error(422, "invalid_option");
}

#[tokio::test]
async fn anonymizing_thousands_of_overlapping_faces_returns_an_answer() {
    let app = TestApp::start().await;
    let anonymize = json!({"op": "anonymize", "method": "fill", "margin": 10});
    let options = json!({"operations": [anonymize], "min_score": 0.0, "nms_iou": 1.0});
    let body = json!({"images": [photo("t1.jpg")], "options": options}).to_string();
    let reply = app.post_as("/process", "application/json", body).await;
    // With a minimum score of 0 faces are always found. The test checks that the request ends.
    reply.assert_error(422, "anonymization_failed");
}

#[tokio::test]
async fn an_invalid_operation_is_refused_with_the_reason() {
    let app = TestApp::start().await;
    let one = |operation: Value| json!([operation]);
    let large = json!({"op": "resize", "width": 9000, "height": 9000});
    for (operations, told) in [
        (json!([]), "1 to 16"),
        (one(json!({"op": "crop"})), "either `box` or `faces`"),
        (one(json!({"op": "crop", "box": [9, 9, 9, 12]})), "empty"),
        (
            one(json!({"op": "crop", "box": [5000, 0, 6000, 10]})),
            "outside",
        ),
        (one(json!({"op": "mask_crop"})), "masks"),
        (one(json!({"op": "resize"})), "size"),
        (
            one(json!({"op": "resize", "width": 99, "mode": "letterbox"})),
            "height",
        ),
        (
            one(json!({"op": "resize", "width": 16384, "height": 16384})),
            "pixels",
        ),
        (one(json!({"op": "gaussian_blur", "kernel": 256})), "255"),
        (json!([{"op": "normalize"}, {"op": "grayscale"}]), "last"),
        (one(json!({"op": "rotate", "degrees": 1000})), "-360"),
        (
            json!([large, {"op": "normalize"}]),
            "the response would take",
        ),
        (one(json!({"op": "normalize", "mean": [2, 0, 0]})), "mean"),
        (json!(vec![json!({"op": "grayscale"}); 17]), "1 to 16"),
        (json!("[{"), "ends too early"),
    ] {
        let reply = process(&app, operations.clone()).await;
        assert!([413, 422].contains(&reply.status.as_u16()), "{operations}");
        let detail = reply.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(told), "{operations}: {detail}");
    }
    // Other routes accept no masks.
    let mask = png(&RgbImage::new(4, 4));
    let (media_type, body) = multipart(&[("image", Some("a"), &mask), ("mask", Some("m"), &mask)]);
    let reply = app.post_as("/detect", &media_type, body).await;
    reply.assert_error(422, "invalid_option");
}

#[test]
fn the_command_line_writes_results_but_never_over_the_input() {
    let out = tempfile::tempdir().unwrap();
    let images = runtime_dir().join("pictures/t1.jpg");
    let output = facescan(["anonymize", "--method", "fill", "--format", "jpeg", "--out"])
        .arg(out.path())
        .arg(&images)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["status"], "ok");
    let written = out.path().join("t1.jpg");
    assert_eq!(line["written"], json!([written]));
    let found = facescan(["scan", "--format", "jsonl"])
        .arg(&written)
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(found["faces"], json!([]));

    // The command never overwrites its input.
    let copy = out.path().join("copy.jpg");
    std::fs::copy(&images, &copy).unwrap();
    let process = |operations: &str| {
        facescan(["process", "--format", "jpeg", "--operations", operations])
            .arg("--out")
            .args([out.path(), &copy])
            .output()
            .unwrap()
    };
    let output = process(r#"[{"op":"crop","faces":true}]"#);
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["written"].as_array().unwrap().len(), 6);
    let output = process(r#"[{"op":"flip","axis":"vertical"}]"#);
    assert_eq!(output.status.code(), Some(1));
    let read = |path| std::fs::read(path).unwrap();
    assert_eq!(read(&copy), read(&images));
}

/// Resizes a photograph, and returns the body of the request for the result in a format.
fn resized(side: u32, format: &str) -> String {
    let resize = json!([{"op": "resize", "width": side, "height": side, "mode": "stretch"}]);
    json!({"images": [photo("t1.jpg")], "options": {"operations": resize, "format": format}})
        .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_image_is_encoded_in_a_process() {
    let app = TestApp::encoding_apart().await;
    let post = |body: String| app.post_as("/process", "application/json", body);
    for (side, format) in [(300, "avif"), (1500, "webp")] {
        let result = post(resized(side, format)).await.result();
        let here = TestApp::start().await;
        let expected = here
            .post_as("/process", "application/json", resized(side, format))
            .await
            .result();
        assert_eq!(result["processed"], expected["processed"]);
        assert_eq!(result["processed"][0]["width"], side);
    }
}

/// The encoder takes ten seconds.
#[tokio::test(flavor = "multi_thread")]
async fn the_process_of_an_encoder_ends_when_its_caller_leaves() {
    let app = TestApp::encoding_apart().await;
    let encoders = app.app.pipeline.encoders.as_ref().unwrap();
    let load = encoders.pool().load();
    let until = async |busy: usize| {
        let change = async {
            while load().busy != busy {
                tokio::task::yield_now().await;
            }
        };
        let changed = tokio::time::timeout(Duration::from_secs(5), change).await;
        changed.expect("the encoder does not start or end");
    };
    let body = resized(2800, "avif");
    tokio::select! {
        reply = app.post_as("/process", "application/json", body) => panic!("{:?}", reply.status),
        () = until(1) => {}
    }
    until(0).await;
}
