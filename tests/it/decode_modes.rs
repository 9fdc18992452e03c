//! `decode=fast`: large JPEGs are reduced while they are decoded.

use bytes::Bytes;
use image::{ImageFormat, imageops::FilterType};
use serde_json::Value;

use crate::support::{
    app::{TestApp, encoded, image_file, numbers, runtime_dir},
    values::{cosine, difference},
};

async fn app_with_libjpeg_turbo() -> TestApp {
    let library = runtime_dir().join("turbojpeg/libturbojpeg.so.0");
    let library = library.display().to_string();
    TestApp::with(&[("FACESCAN__RUNTIME__TURBOJPEG", &library)]).await
}

/// Returns a photo of six people, enlarged as if a camera of more megapixels had taken it.
fn photo(factor: u32) -> Bytes {
    let image = image::load_from_memory(&image_file("t1.jpg")).unwrap();
    let (width, height) = (image.width() * factor, image.height() * factor);
    let large = image.resize_exact(width, height, FilterType::Triangle);
    encoded(&large.to_rgb8().into(), ImageFormat::Jpeg)
}

fn faces(result: &Value) -> &[Value] {
    result["faces"].as_array().unwrap()
}

/// Returns the results of an image in both modes.
async fn full_and_fast(app: &TestApp, uri: &str, photo: &Bytes) -> (Value, Value) {
    let full = app.post(uri, photo.clone()).await.result();
    let fast = app.post(&format!("{uri}&decode=fast"), photo.clone()).await;
    (full, fast.result())
}

/// Returns the face whose box is nearest, and the largest difference of a coordinate.
fn nearest<'a>(face: &Value, others: &'a [Value]) -> (&'a Value, f32) {
    let distance = |other: &Value| difference(&numbers(&face["bbox"]), &numbers(&other["bbox"]));
    let distances = others.iter().map(|other| (other, distance(other)));
    distances.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
}

fn cosine_of(a: &Value, b: &Value) -> f32 {
    cosine(&numbers(&a["embedding"]), &numbers(&b["embedding"]))
}

#[tokio::test]
async fn the_same_faces_are_found_in_a_reduced_image() {
    let app = app_with_libjpeg_turbo().await;
    let photo = photo(3);
    let (full, fast) = full_and_fast(&app, "/embed?store=false", &photo).await;
    let found = app
        .post("/detect?store=false&decode=fast", photo)
        .await
        .result();
    assert_eq!(full["image"], fast["image"], "the size is that of the file");
    assert_eq!(faces(&full).len(), 6);
    for fast in [&fast, &found] {
        assert_eq!(faces(fast).len(), 6);
        for face in faces(fast) {
            let (_, apart) = nearest(face, faces(&full));
            assert!(apart < 24.0, "{apart} of 3840 pixels apart");
        }
    }
    for face in faces(&fast) {
        let (other, _) = nearest(face, faces(&full));
        let cosine = cosine_of(face, other);
        assert!(cosine > 0.97, "{cosine}");
    }
    assert_ne!(fast["faces"], full["faces"], "the image was reduced");
}

/// At half of the sides of the usual image, all six faces are smaller than a crop.
#[tokio::test]
async fn small_faces_are_cut_out_of_the_image_in_full_size() {
    let app = app_with_libjpeg_turbo().await;
    let photo = photo(2);
    let uri = "/embed?store=false&det_size=320";
    let (full, fast) = full_and_fast(&app, uri, &photo).await;
    assert_eq!(faces(&fast).len(), faces(&full).len());
    for face in faces(&fast) {
        // The detector finds rough landmarks of such small faces, and others in the reduced image.
        let cosine = cosine_of(face, nearest(face, faces(&full)).0);
        assert!(cosine > 0.75, "{cosine}");
    }
}

#[tokio::test]
async fn without_a_library_every_image_is_decoded_in_full() {
    let app = TestApp::start().await;
    let (full, fast) = full_and_fast(&app, "/detect?store=false", &photo(2)).await;
    assert_eq!(fast, full);
}

#[tokio::test]
async fn results_that_need_all_pixels_do_not_depend_on_the_mode() {
    let app = app_with_libjpeg_turbo().await;
    let photo = photo(2);
    for uri in [
        "/quality?store=false",
        "/detect?store=false&crops=true",
        "/embed?store=false&quality=true",
    ] {
        let (full, fast) = full_and_fast(&app, uri, &photo).await;
        assert_eq!(full, fast, "{uri}");
    }
}

#[tokio::test]
async fn lengths_are_in_pixels_of_the_file() {
    let app = app_with_libjpeg_turbo().await;
    let photo = photo(2);
    let all = app
        .post("/detect?store=false&decode=fast", photo.clone())
        .await
        .result();
    let shorter_side = |face: &Value| {
        let bbox = numbers(&face["bbox"]);
        (bbox[2] - bbox[0]).min(bbox[3] - bbox[1])
    };
    let mut sides: Vec<f32> = faces(&all).iter().map(shorter_side).collect();
    sides.sort_by(f32::total_cmp);
    let least = (sides[2] + sides[3]) / 2.0;
    let uri = format!("/detect?store=false&decode=fast&min_face_size={least}");
    let some = app.post(&uri, photo).await.result();
    let mut expected = faces(&all).to_vec();
    expected.retain(|face| shorter_side(face) > least);
    assert_eq!((faces(&some), expected.len()), (&expected[..], 3));
}

#[tokio::test]
async fn a_stored_result_is_reused_for_the_same_mode_only() {
    let app = app_with_libjpeg_turbo().await;
    let photo = photo(2);
    for (uri, cached) in [
        ("/detect", false),
        ("/detect?decode=fast", false),
        ("/detect?decode=fast", true),
        ("/detect?decode=full", true),
    ] {
        let result = app.post(uri, photo.clone()).await.result();
        assert_eq!(result["cached"], cached, "{uri}");
    }
}

#[tokio::test]
async fn a_library_that_the_settings_name_must_exist() {
    let named = [(
        "FACESCAN__RUNTIME__TURBOJPEG",
        "/nonexistent/libturbojpeg.so.0",
    )];
    let error = TestApp::refusal(&named).await;
    assert!(error.contains("runtime.turbojpeg"), "{error}");
}
