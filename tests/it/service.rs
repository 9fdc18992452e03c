//! The routes about the server itself, and `/quality` and `/enhance` on a real image.

use axum::http::StatusCode;
use image::ImageFormat;
use insta::{assert_json_snapshot, assert_snapshot};
use serde_json::Value;

use crate::support::{
    app::{TestApp, encoded, image_file, numbers, result_of},
    values::{assert_fields, difference},
};

#[tokio::test]
async fn the_openapi_document_matches_its_snapshot() {
    let app = TestApp::start().await;
    let reply = app.get("/openapi.json").await;
    assert_eq!(reply.status, StatusCode::OK);
    let document = reply.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
}

#[tokio::test]
async fn every_response_tells_browsers_not_to_guess_frame_or_name_it() {
    let app = TestApp::with(&[("FACESCAN__SERVER__CORS_ORIGINS", "[https://a.test]")]).await;
    let preflight = [
        ("origin", "https://a.test"),
        ("access-control-request-method", "POST"),
    ];
    let replies = [
        app.get("/docs/").await,
        app.get("/docs/swagger-ui.css").await,
        app.get("/openapi.json").await,
        app.get("/livez").await,
        app.get("/metrics").await,
        app.get("/").await,
        app.get("/nothing").await,
        app.get("/detect").await,
        app.post("/detect", image_file("t1.jpg").slice(..9)).await,
        app.call("OPTIONS", "/detect", &preflight, "").await,
    ];
    for reply in replies {
        let header = |name: &str| reply.headers[name].to_str().unwrap();
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("x-frame-options"), "DENY");
        assert_eq!(header("referrer-policy"), "no-referrer");
        let policy = header("content-security-policy");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(policy.contains("default-src 'none'"), "{policy}");
    }
}

#[tokio::test]
async fn the_policy_of_the_api_pages_allows_their_own_files_and_no_others() {
    let app = TestApp::start().await;
    let page = app.get("/docs/").await;
    assert_eq!(page.status, StatusCode::OK);
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    for allowed in [
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
    ] {
        assert!(policy.contains(allowed), "{policy}");
    }
    // Scripts in the page itself would not run.
    let html = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(
        html.contains("swagger-ui") && !html.contains("https://"),
        "{html}"
    );
    let count = |tag: &str| html.matches(tag).count();
    assert_eq!(count("<script"), count("<script src=\"./"));
    assert!(!policy.contains("http"), "{policy}");
}

#[tokio::test]
async fn a_healthy_server_is_alive_and_ready() {
    let app = TestApp::start().await;
    assert_eq!(app.get("/livez").await.status, StatusCode::OK);
    let ready = app.get("/readyz").await;
    assert_eq!(ready.status, StatusCode::OK);
    assert_json_snapshot!(ready.json());

    app.app.lifecycle.stop();
    let stopping = app.get("/readyz").await;
    assert_eq!(stopping.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(stopping.json()["reasons"][0], "the server is shutting down");
}

#[tokio::test]
async fn the_models_are_listed_with_their_licenses() {
    let app = TestApp::start().await;
    assert_json_snapshot!(app.get("/models").await.json());
}

#[tokio::test]
async fn an_answer_names_models_devices_and_timings() {
    let app = TestApp::start().await;
    let reply = app
        .post("/embed?timings=true&max_faces=1", image_file("obama.jpg"))
        .await;
    let rounded = |value: &Value| (value.as_f64().unwrap() * 10.0).round() / 10.0;
    let mut answer = reply.json();
    let timings = answer["results"][0]["timings_ms"].take();
    for stage in ["decode", "detect", "embed", "total"] {
        assert!(timings[stage].as_f64().unwrap() > 0.0, "{stage}: {timings}");
    }
    let face = &mut answer["results"][0]["faces"][0];
    assert_eq!(face["embedding"].take().as_array().unwrap().len(), 128);
    // The last digits differ between processors.
    for field in ["score", "embedding_norm"] {
        face[field] = rounded(&face[field]).into();
    }
    for point in face["bbox"].as_array_mut().unwrap() {
        *point = rounded(point).round().into();
    }
    let landmarks = face["landmarks"].as_array_mut().unwrap().iter_mut();
    for point in landmarks.flat_map(|point| point.as_array_mut().unwrap()) {
        *point = rounded(point).round().into();
    }
    assert_json_snapshot!(answer, {
        ".request_id" => "[id]",
        ".results[].image_id" => "[id]",
        ".results[].faces[].face_id" => "[id]",
    });
}

#[tokio::test]
async fn quality_distinguishes_a_clear_face_from_a_blurred_one() {
    let app = TestApp::start().await;
    let clear = result_of(&app, "/quality?store=false&max_faces=1", "obama.jpg").await;
    let face = &clear["faces"][0]["quality"];
    assert_eq!(face["acceptable"], true, "{face}");
    assert_eq!(face["measured_size"], serde_json::json!([112, 112]));
    assert_eq!(face["occlusion_measured"], false);

    let image = image::load_from_memory(&image_file("obama.jpg")).unwrap();
    let blurred = encoded(&image.blur(12.0), ImageFormat::Png);
    let blurred = app
        .post("/quality?store=false&max_faces=1", blurred)
        .await
        .result();
    let face = &blurred["faces"][0]["quality"];
    assert_eq!(face["acceptable"], false);
    let reasons = face["reasons"].as_array().unwrap();
    assert!(reasons.contains(&"too_blurry".into()), "{face}");
    let blur = |result: &Value| result["picture_quality"]["blur_score"].as_f64();
    assert!(blur(&blurred) < blur(&clear));
}

#[tokio::test]
async fn enhancing_a_small_image_reports_the_correct_scale() {
    let app = TestApp::start().await;
    let large = image::load_from_memory(&image_file("obama.jpg")).unwrap();
    let small = large.resize_exact(180, 225, image::imageops::FilterType::Triangle);
    let bytes = encoded(&small, ImageFormat::Png);
    // `/enhance` accepts the options that every operation accepts.
    let uri = "/enhance?identity=true&timings=true&store=false&min_score=0.7&det_size=320";
    let result = app.post(uri, bytes.clone()).await.result();
    let enhanced = &result["enhanced"];
    let scale = enhanced["scale"].as_f64().unwrap();
    assert_eq!(enhanced["width"].as_f64().unwrap(), 180.0 * scale);
    assert_eq!(enhanced["height"].as_f64().unwrap(), 225.0 * scale);
    assert_fields!(result["identity"], {"identity_drift": false});
    let steps = enhanced["steps"].as_array().unwrap().iter();
    let names: Vec<&Value> = steps.map(|step| &step["name"]).collect();
    assert_eq!(names, ["upscale", "contrast", "sharpness", "unsharp_mask"]);

    // Boxes in the enhanced image, divided by the scale, equal those of the original.
    let headers = [("content-type", "image/png"), ("accept", "image/*")];
    let (uri, sent) = ("/enhance?format=png", bytes.clone());
    let image = app.call("POST", uri, &headers, sent).await;
    let header = |name: &str| image.headers[name].to_str().unwrap();
    assert_eq!(header("content-type"), "image/png");
    assert_eq!(header("x-facescan-scale").parse::<f64>(), Ok(scale));
    assert!(header("x-facescan-steps").contains("unsharp_mask"));
    let before = app.post("/detect?store=false", bytes).await.result();
    let after = app.post("/detect?store=false", image.body).await.result();
    let after = numbers(&after["faces"][0]["bbox"]).into_iter();
    let after: Vec<f32> = after.map(|edge| edge / scale as f32).collect();
    let moved = difference(&numbers(&before["faces"][0]["bbox"]), &after);
    assert!(moved < 4.0, "{moved}");
}

#[tokio::test]
async fn a_small_image_can_be_searched_at_its_own_size() {
    let app = TestApp::start().await;
    let portrait = image::load_from_memory(&image_file("biden.jpg")).unwrap();
    let small = portrait.resize(200, 200, image::imageops::FilterType::Triangle);
    let bytes = encoded(&small, ImageFormat::Png);
    let mut boxes = Vec::new();
    for size in ["640", "fit"] {
        let query = format!("/detect?store=false&det_size={size}");
        let result = app.post(&query, bytes.clone()).await.result();
        let [face] = result["faces"].as_array().unwrap().as_slice() else {
            panic!("{size}: {result}");
        };
        boxes.push(numbers(&face["bbox"]));
    }
    let largest = difference(&boxes[0], &boxes[1]);
    assert!(largest > 0.0 && largest < 6.0, "{boxes:?}");
}

#[tokio::test]
async fn a_second_detection_size_finds_a_face_that_fills_the_image() {
    let app = TestApp::start().await;
    let portrait = image::load_from_memory(&image_file("biden.jpg")).unwrap();
    let all = result_of(&app, "/detect?store=false&second_det_size=320", "biden.jpg").await;
    assert_eq!(
        all["faces"].as_array().unwrap().len(),
        1,
        "one NMS covers both resolutions"
    );
    let face = numbers(&all["faces"][0]["bbox"]);
    let close = portrait.crop_imm(
        face[0] as u32,
        face[1] as u32,
        (face[2] - face[0]) as u32,
        (face[3] - face[1]) as u32,
    );
    let bytes = encoded(&close, ImageFormat::Png);
    let found = app
        .post("/detect?store=false&second_det_size=160", bytes)
        .await
        .result();
    assert_eq!(found["faces"].as_array().unwrap().len(), 1);
}
