//! The EXIF orientation of an image does not change its faces.

use image::{ImageFormat, RgbImage, imageops};
use serde_json::Value;

use crate::support::{
    app::{TestApp, encoded, files, image_file, numbers, testdata},
    values::difference,
};

/// Returns the image as a turned camera would have stored it: `orientation` turns it upright.
fn turned(upright: &RgbImage, orientation: u8) -> RgbImage {
    match orientation {
        2 => imageops::flip_horizontal(upright),
        3 => imageops::rotate180(upright),
        4 => imageops::flip_vertical(upright),
        5 => imageops::rotate270(&imageops::flip_horizontal(upright)),
        6 => imageops::rotate270(upright),
        7 => imageops::rotate90(&imageops::flip_horizontal(upright)),
        8 => imageops::rotate90(upright),
        _ => upright.clone(),
    }
}

/// Returns a TIFF header with only the tag 0x0112, the orientation (EXIF 2.32, 4.6.4).
fn exif(orientation: u8) -> Vec<u8> {
    let mut tiff = b"MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
    tiff.extend([orientation, 0, 0, 0, 0, 0, 0]);
    tiff
}

fn jpeg(image: &RgbImage, orientation: u8) -> Vec<u8> {
    let plain = encoded(&image.clone().into(), ImageFormat::Jpeg);
    let payload = [b"Exif\0\0".as_slice(), &exif(orientation)].concat();
    let length = u16::try_from(payload.len() + 2).unwrap().to_be_bytes();
    [&plain[..2], &[0xff, 0xe1], &length, &payload, &plain[2..]].concat()
}

fn png(image: &RgbImage, orientation: u8) -> Vec<u8> {
    use image::{ImageEncoder, codecs::png::PngEncoder};
    let mut bytes = Vec::new();
    let mut encoder = PngEncoder::new(&mut bytes);
    encoder.set_exif_metadata(exif(orientation)).unwrap();
    let (width, height) = image.dimensions();
    encoder
        .write_image(image, width, height, image::ExtendedColorType::Rgb8)
        .unwrap();
    bytes
}

fn boxes(result: &Value) -> Vec<Vec<f32>> {
    result["faces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|face| numbers(&face["bbox"]))
        .collect()
}

fn assert_same_faces(found: &Value, expected: &Value, tolerance: f32, what: &str) {
    let (found, expected) = (boxes(found), boxes(expected));
    assert_eq!(found.len(), expected.len(), "{what}");
    // Faces of nearly the same size may be listed in another order.
    for expected in &expected {
        let nearest = found
            .iter()
            .map(|found| difference(found, expected))
            .fold(f32::MAX, f32::min);
        assert!(
            nearest <= tolerance,
            "{what}: {expected:?} not in {found:?}"
        );
    }
}

#[tokio::test]
async fn every_orientation_returns_the_same_upright_faces() {
    let app = TestApp::start().await;
    let upright = image::load_from_memory(&image_file("t1.jpg"))
        .unwrap()
        .to_rgb8();
    let expected = app
        .post("/detect?store=false", png(&upright, 1).into())
        .await
        .result();
    assert_eq!(boxes(&expected).len(), 6);
    for orientation in 1..=8 {
        let stored = turned(&upright, orientation);
        for (format, bytes, tolerance) in [
            ("png", png(&stored, orientation), 0.0),
            ("jpeg", jpeg(&stored, orientation), 2.0),
        ] {
            let found = app.post("/detect?store=false", bytes.into()).await.result();
            assert_eq!(found["image"]["orientation"], orientation);
            assert_eq!(
                (&found["image"]["width"], &found["image"]["height"]),
                (&Value::from(1280), &Value::from(886))
            );
            assert_same_faces(
                &found,
                &expected,
                tolerance,
                &format!("{format} {orientation}"),
            );
        }
    }
}

#[tokio::test]
#[ignore = "needs FACESCAN_TESTDATA"]
async fn the_example_files_of_every_orientation_return_the_same_faces() {
    let folder = testdata("exif_orientation");
    let app = TestApp::start().await;
    for kind in ["Landscape", "Portrait"] {
        let mut first: Option<Value> = None;
        let named: Vec<_> = files(&folder)
            .into_iter()
            .filter(|path| {
                path.file_name()
                    .unwrap()
                    .to_string_lossy()
                    .starts_with(kind)
            })
            .collect();
        assert_eq!(named.len(), 9);
        for path in named {
            let bytes = std::fs::read(&path).unwrap();
            let found = app
                .post("/quality?store=false", bytes.into())
                .await
                .result();
            let expected = first.get_or_insert_with(|| found.clone());
            for side in ["width", "height"] {
                assert_eq!(found["image"][side], expected["image"][side], "{path:?}");
            }
            assert_same_faces(&found, expected, 4.0, &path.display().to_string());
            // Each file was compressed separately, so the pixels differ slightly.
            let brightness =
                |result: &Value| result["picture_quality"]["brightness"].as_f64().unwrap();
            assert!(
                (brightness(&found) - brightness(expected)).abs() < 1.0,
                "{path:?}"
            );
        }
    }
}
