//! Every file of the robustness set is answered with a result or with a client error.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use image::{DynamicImage, ImageFormat};

use crate::support::{
    app::{TestApp, encoded, files, image_file, numbers, testdata},
    values::difference,
};

#[tokio::test]
async fn every_accepted_format_returns_the_same_faces() {
    let app = TestApp::start().await;
    let original = image::load_from_memory(&image_file("t1.jpg")).unwrap();
    let gray = DynamicImage::ImageLuma8(original.to_luma8());
    let deep = DynamicImage::ImageRgb16(original.to_rgb16());
    let clear = DynamicImage::ImageRgba8(original.to_rgba8());
    let lossless = encoded(&original, ImageFormat::Png);
    let result = app.post("/detect?store=false", lossless).await.result();
    let expected = result["faces"].as_array().unwrap().iter();
    let expected: Vec<Vec<f32>> = expected.map(|face| numbers(&face["bbox"])).collect();
    let cases = [
        ("png", &original, ImageFormat::Png, "png"),
        ("16-bit png", &deep, ImageFormat::Png, "png"),
        ("png with alpha", &clear, ImageFormat::Png, "png"),
        ("gray jpeg", &gray, ImageFormat::Jpeg, "jpeg"),
        ("lossless webp", &clear, ImageFormat::WebP, "webp"),
        ("bmp", &original, ImageFormat::Bmp, "bmp"),
        ("tiff", &original, ImageFormat::Tiff, "tiff"),
        ("gif", &original, ImageFormat::Gif, "gif"),
    ];
    for (what, image, format, name) in cases {
        let bytes = encoded(image, format);
        let result = app.post("/detect?store=false", bytes).await.result();
        assert_eq!(result["image"]["format"], name, "{what}");
        let faces = result["faces"].as_array().unwrap();
        assert_eq!(faces.len(), 6, "{what}");
        // A palette and gray levels move a box slightly. Lossless formats do not move it.
        let tolerance = match format {
            ImageFormat::Gif | ImageFormat::Jpeg => 12.0,
            _ => 0.0,
        };
        for expected in &expected {
            // Faces of nearly the same size may be listed in another order, so compare with the nearest box.
            let moved = faces
                .iter()
                .map(|face| difference(&numbers(&face["bbox"]), expected))
                .fold(f32::INFINITY, f32::min);
            assert!(moved <= tolerance, "{what}: a box is off by {moved} px");
        }
    }
}

#[tokio::test]
#[ignore = "needs FACESCAN_TESTDATA"]
async fn every_file_of_the_robustness_set_is_answered() {
    let folder = testdata("formats");
    let app = TestApp::start().await;
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for path in files(&folder) {
        let bytes = std::fs::read(&path).unwrap();
        for uri in ["/detect", "/enhance"] {
            let reply = app.post(uri, bytes.clone().into()).await;
            let outcome = match reply.status {
                StatusCode::OK => "ok".to_owned(),
                status if status.is_client_error() => reply.code(),
                status => panic!("{uri} {}: {status} {:?}", path.display(), reply.body),
            };
            *outcomes.entry(outcome).or_default() += 1;
        }
    }
    println!("{outcomes:?}");
    assert!(outcomes["ok"] > 300, "{outcomes:?}");
}
