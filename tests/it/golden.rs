//! The recorded answers of the reference implementation for public images: boxes, landmarks, scores, vectors and cosines.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::support::{
    app::{TestApp, numbers, result_of},
    values::{cosine, difference},
};

#[derive(Deserialize)]
struct Golden {
    images: BTreeMap<String, GoldenImage>,
    cosine: BTreeMap<String, BTreeMap<String, f32>>,
}

#[derive(Deserialize)]
struct GoldenImage {
    faces: usize,
    size: [u32; 2],
    sha256: String,
    list: Vec<GoldenFace>,
}

#[derive(Deserialize)]
struct GoldenFace {
    #[serde(rename = "box")]
    bbox: [f32; 4],
    score: f32,
    kps: [[f32; 2]; 5],
    sface_norm: f32,
    sface8: [f32; 8],
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../fixtures/golden.json")).unwrap()
}

/// The images of golden.json that `scripts/setup --tests` fetches.
const PICTURES: [(&str, &str); 5] = [
    ("t1.jpg", "t1.jpg"),
    ("obama", "obama.jpg"),
    ("obama2", "obama2.jpg"),
    ("obama3", "obama3.jpg"),
    ("biden", "biden.jpg"),
];

fn nearest<'a>(faces: &'a [Value], expected: &GoldenFace) -> &'a Value {
    let distance = |face: &&Value| difference(&numbers(&face["bbox"]), &expected.bbox);
    let nearest = |a: &&Value, b: &&Value| distance(a).total_cmp(&distance(b));
    faces.iter().min_by(nearest).unwrap()
}

/// The largest differences of boxes and landmarks in pixels, of scores, of a vector's components, and of its length.
struct Tolerance {
    bbox: f32,
    points: f32,
    score: f32,
    vector: f32,
    norm: f32,
}

const REFERENCE: Tolerance = Tolerance {
    bbox: 0.25,
    points: 0.4,
    score: 0.002,
    vector: 0.01,
    norm: 0.01,
};

#[tokio::test]
async fn faces_and_vectors_equal_the_reference() {
    let app = TestApp::with(&[("FACESCAN__DETECTION__PADDING", "square")]).await;
    assert_golden(&app, &PICTURES, &REFERENCE).await;
}

#[tokio::test]
async fn faces_and_vectors_without_padding_are_near_the_reference() {
    let app = TestApp::start().await;
    assert_golden(&app, &PICTURES[..1], &REFERENCE).await;
    let near = Tolerance {
        bbox: 0.5,
        vector: 0.02,
        ..REFERENCE
    };
    assert_golden(&app, &PICTURES, &near).await;
}

async fn assert_golden(app: &TestApp, pictures: &[(&str, &str)], tolerance: &Tolerance) {
    for &(key, file) in pictures {
        let expected = &golden().images[key];
        let result = result_of(app, "/embed", file).await;
        assert_eq!(result["image"]["sha256"], expected.sha256, "{file}");
        assert_eq!(
            [&result["image"]["width"], &result["image"]["height"]],
            expected.size,
            "{file}"
        );
        let faces = result["faces"].as_array().unwrap();
        assert_eq!(faces.len(), expected.faces, "{file}");
        let mut distances = [0.0_f32; 5];
        for golden in &expected.list {
            let face = nearest(faces, golden);
            let points = face["landmarks"].as_array().unwrap().iter();
            let points: Vec<f32> = points.flat_map(numbers).collect();
            let norm = face["embedding_norm"].as_f64().unwrap() as f32;
            let found = [
                difference(&numbers(&face["bbox"]), &golden.bbox),
                difference(&points, golden.kps.as_flattened()),
                (face["score"].as_f64().unwrap() as f32 - golden.score).abs(),
                difference(&numbers(&face["embedding"])[..8], &golden.sface8),
                (norm / golden.sface_norm - 1.0).abs(),
            ];
            for (distance, found) in distances.iter_mut().zip(found) {
                *distance = distance.max(found);
            }
        }
        println!(
            "{file}: box {:.3} px, points {:.3} px, score {:.4}, vector {:.4}, norm {:.4}",
            distances[0], distances[1], distances[2], distances[3], distances[4]
        );
        let [bbox, points, score, vector, norm] = distances;
        let are_near = bbox <= tolerance.bbox && points <= tolerance.points;
        let are_alike =
            score <= tolerance.score && vector <= tolerance.vector && norm <= tolerance.norm;
        assert!(are_near && are_alike, "{file}: {distances:?}");
    }
}

#[tokio::test]
async fn cosines_between_faces_equal_the_reference() {
    let app = TestApp::start().await;
    let mut vectors = BTreeMap::new();
    for (key, file) in &PICTURES[1..] {
        let result = result_of(&app, "/embed?max_faces=1", file).await;
        vectors.insert(*key, numbers(&result["faces"][0]["embedding"]));
    }
    for (pair, cosines) in &golden().cosine {
        let (a, b) = pair.split_once('|').unwrap();
        let (found, expected) = (cosine(&vectors[a], &vectors[b]), cosines["sface"]);
        let is_near = (found - expected).abs() <= 0.01;
        assert!(is_near, "{pair}: {found} for {expected}");
    }
}
