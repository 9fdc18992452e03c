//! `/verify`, `/calibration` and `facescan verify`: comparing two faces.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use facescan_recognition::calibration::{Calibrations, measure::measure};
use image::{ImageFormat, Rgb, RgbImage};
use serde_json::{Value, json};

use crate::{
    forms::multipart,
    support::{
        app::{
            Reply, TestApp, encoded, files, image_file, numbers, result_of, runtime_dir, testdata,
        },
        cli::facescan,
        database::{Database, on_both},
        values::{assert_fields, lines, photo},
    },
};

async fn verify(app: &TestApp, a: Value, b: Value, options: Value) -> Reply {
    let body = json!({"a": a, "b": b, "options": options});
    app.post_as("/verify", "application/json", body.to_string())
        .await
}

fn ok(reply: &Reply) -> Value {
    assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.body);
    reply.json()
}

#[tokio::test]
async fn faces_of_one_person_match_with_the_error_rate() {
    let app = TestApp::start().await;
    let same = ok(&verify(&app, photo("obama.jpg"), photo("obama2.jpg"), json!({})).await);
    assert_fields!(same, {"match": true, "operation": "verify"});
    assert_eq!(
        same["models"]["embedder"]["vector_space"],
        same["vector_space"]
    );
    assert_eq!(same["devices"]["face_embedding"]["active"], "cpu");
    // The default rate is 0.001, so the response has the rate and its interval.
    let far = &same["far"];
    let value = |name: &str| far[name].as_f64().unwrap();
    assert!((value("value") / 0.001 - 1.0).abs() < 0.01, "{far}");
    assert!(value("low") < 0.001 && 0.001 < value("high"), "{far}");
    assert_eq!(far["bound"], "exact");
    assert!(
        far["pairs"].as_u64().unwrap() > 100_000 && far["set"].is_string(),
        "{far}"
    );
    for side in ["a", "b"] {
        let face = &same[side];
        assert_eq!(face["faces_found"], 1, "{face}");
        assert_eq!(face["quality"]["preset"], "verify", "{face}");
        assert_eq!(face["precision"], "f32", "{face}");
        assert!(face.get("embedding").is_none(), "{face}");
    }

    let far = json!({"far": 0.01});
    let other = ok(&verify(&app, photo("obama.jpg"), photo("biden.jpg"), far).await);
    assert_eq!(other["match"], false);
    assert!(other["threshold"].as_f64() < same["threshold"].as_f64());
    assert!(other["similarity"].as_f64() < other["threshold"].as_f64());
}

#[tokio::test]
async fn a_threshold_decides_instead_of_a_rate() {
    let app = TestApp::start().await;
    let (obama, biden) = (photo("obama.jpg"), photo("biden.jpg"));
    let low = verify(&app, obama.clone(), biden, json!({"threshold": -1})).await;
    let low = ok(&low);
    assert_fields!(low, {"match": true, "threshold": -1.0, "far": {"bound": "at_least"}});
    let near_one = json!({"threshold": 0.9999});
    let high = ok(&verify(&app, obama.clone(), obama.clone(), near_one).await);
    assert_fields!(high, {"match": true, "far": {"bound": "at_most"}});
    for (options, option) in [
        (json!({"far": 0.01, "threshold": 0.5}), "far"),
        (json!({"far": 0}), "far"),
        (json!({"far": 1e-9}), "far"),
        (json!({"threshold": 1.5}), "threshold"),
        (json!({"fars": 0.1}), "fars"),
        (json!({"face": "smallest"}), "face"),
    ] {
        let reply = verify(&app, obama.clone(), obama.clone(), options.clone()).await;
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{options}");
        let detail = reply.json()["detail"].to_string();
        assert!(detail.contains(&format!("option `{option}`")), "{detail}");
    }
}

/// Compares an image with the face that was stored of it, and with its vector.
async fn stored_faces(app: &TestApp) {
    let scan = result_of(app, "/embed", "obama.jpg").await;
    let face = &scan["faces"][0];
    let id = json!({"face_id": face["face_id"]});
    let answer = ok(&verify(app, id.clone(), photo("obama2.jpg"), json!({})).await);
    assert_eq!(answer["match"], true);
    assert_eq!(answer["a"]["face_id"], face["face_id"]);
    assert_eq!(answer["a"]["bbox"], face["bbox"]);
    let similarity = answer["similarity"].as_f64().unwrap();

    // The vector alone has the same similarity, as numbers and as base64.
    let values = numbers(&face["embedding"]);
    let bytes = values.iter().flat_map(|value| value.to_le_bytes());
    let bytes: Vec<u8> = bytes.collect();
    let packed = json!(BASE64_STANDARD.encode(bytes));
    for embedding in [&face["embedding"], &packed] {
        let vector = json!({"embedding": embedding, "vector_space": answer["vector_space"]});
        let compared = ok(&verify(app, vector, photo("obama2.jpg"), json!({})).await);
        let difference = compared["similarity"].as_f64().unwrap() - similarity;
        assert!(difference.abs() < 1e-6, "{difference}");
        assert_eq!(compared["a"], json!({}));
    }

    // The id is a text in msgpack, too.
    let body = rmp_serde::to_vec_named(&json!({"a": id, "b": id})).unwrap();
    let packed = app.post_as("/verify", "application/msgpack", body).await;
    assert_eq!(ok(&packed)["match"], true);

    // Without images no model runs.
    let both = ok(&verify(app, id.clone(), id.clone(), json!({})).await);
    assert_eq!(
        (&both["devices"], &both["models"]),
        (&json!({}), &json!({}))
    );
    assert!(both["similarity"].as_f64().unwrap() > 0.9999);

    // A face without a vector, and one that was erased.
    let found = result_of(app, "/detect", "biden.jpg").await;
    let without = json!({"face_id": found["faces"][0]["face_id"]});
    let refused = verify(app, without, id.clone(), json!({})).await;
    refused.assert_error(422, "no_vector");
    let uri = format!("/faces/{}", face["face_id"].as_str().unwrap());
    assert_eq!(app.delete(&uri).await.status, StatusCode::NO_CONTENT);
    let gone = verify(app, id.clone(), id, json!({})).await;
    gone.assert_error(404, "not_found");
}

on_both!(
    stored_faces_and_vectors_are_compared,
    |database: Database| async move {
        stored_faces(&TestApp::with_database(&database, &[]).await).await;
    }
);

#[tokio::test]
async fn a_form_has_images_or_ids() {
    let app = TestApp::start().await;
    let face = result_of(&app, "/embed", "obama.jpg").await;
    let id = face["faces"][0]["face_id"].as_str().unwrap().to_owned();
    let send = async |parts: &[(&str, Option<&str>, &[u8])]| {
        let (media_type, body) = multipart(parts);
        app.post_as("/verify", &media_type, body).await
    };
    let (first, second) = (image_file("obama.jpg"), image_file("obama2.jpg"));
    let second = ("b", None, &second[..]);
    let images = ok(&send(&[("a", None, &first), second, ("far", None, b"0.01")]).await);
    let ids = ok(&send(&[("a_face_id", None, id.as_bytes()), second]).await);
    let difference = images["similarity"].as_f64().unwrap() - ids["similarity"].as_f64().unwrap();
    assert!(difference.abs() < 1e-6, "{difference}");
    for parts in [
        &[second][..],
        &[second, second],
        &[second, ("a_face_id", None, &b"7"[..])],
    ] {
        assert_eq!(send(parts).await.code(), "invalid_option");
    }
}

#[tokio::test]
async fn pairs_that_cannot_be_compared_say_why() {
    let app = TestApp::start().await;
    let vector = |vector_space: &str, values: Value| json!({"embedding": values, "vector_space": vector_space});
    let flat = json!({"data": BASE64_STANDARD.encode(flat_png())});
    let (x, face) = (vector("x", json!([1, 0])), photo("obama.jpg"));
    let both = json!({"data": "AAAA", "url": "https://example.org"});
    let url = json!({"url": "https://example.org/a.jpg"});
    let longer = vector("x", json!([1, 0, 0]));
    for (a, b, status, code) in [
        (&flat, &face, 422, "no_face"),
        (&x, &face, 409, "vector_space_mismatch"),
        (&x, &longer, 422, "invalid_option"),
        (&x, &x, 422, "invalid_option"),
        (&vector("x", json!([0, 0])), &face, 422, "invalid_option"),
        (&vector("x", json!("AAA=")), &face, 422, "invalid_option"),
        (&json!({"embedding": [1]}), &face, 422, "invalid_option"),
        (&json!({}), &face, 422, "invalid_option"),
        (&both, &face, 422, "invalid_option"),
        (
            &json!({"data": "AAAA"}),
            &face,
            415,
            "unsupported_media_type",
        ),
        (&url, &face, 403, "url_forbidden"),
    ] {
        let reply = verify(&app, a.clone(), b.clone(), json!({})).await;
        reply.assert_error(status, code);
    }
    let raw = app.post("/verify", image_file("obama.jpg")).await;
    assert_eq!(raw.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    // A vector space without a table needs a threshold.
    let compared = ok(&verify(&app, x.clone(), x, json!({"threshold": 0.5})).await);
    assert_fields!(compared, {"far": null, "match": true});
}

pub(crate) fn flat_png() -> Bytes {
    let image = RgbImage::from_pixel(64, 64, Rgb([90, 90, 90]));
    encoded(&image.into(), ImageFormat::Png)
}

/// Returns the face that is nearest to the center of the image.
fn central(scan: &Value) -> Option<&Value> {
    let side = |name: &str| scan["image"][name].as_f64().unwrap() as f32;
    let (width, height) = (side("width"), side("height"));
    let from_center = |face: &&Value| {
        let edges = numbers(&face["bbox"]);
        (edges[0] + edges[2] - width).powi(2) + (edges[1] + edges[3] - height).powi(2)
    };
    let faces = scan["faces"].as_array().unwrap().iter();
    faces.min_by(|a, b| from_center(a).total_cmp(&from_center(b)))
}

#[tokio::test]
async fn the_chosen_face_is_the_largest_or_the_central_one() {
    let app = TestApp::start().await;
    let scan = result_of(&app, "/embed", "t1.jpg").await;
    let central = central(&scan).unwrap();
    for (choice, expected) in [("largest", &scan["faces"][0]), ("central", central)] {
        let options = json!({"face": choice});
        let answer = ok(&verify(&app, photo("t1.jpg"), photo("obama.jpg"), options).await);
        assert_eq!(answer["a"]["bbox"], expected["bbox"], "{choice}");
        assert_eq!(answer["a"]["faces_found"], 6);
    }
}

#[tokio::test]
async fn a_comparison_is_recorded() {
    let app = TestApp::with(&[("FACESCAN__AUDIT__LEVEL", "all")]).await;
    let scan = result_of(&app, "/embed", "obama.jpg").await;
    let id = scan["faces"][0]["face_id"].clone();
    ok(&verify(&app, json!({"face_id": id}), photo("obama.jpg"), json!({})).await);
    let output = facescan(["audit", "export"])
        .env("FACESCAN__DATA_DIR", app.data_dir())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let entries = lines(text.as_bytes());
    let entry = |action: &str| {
        let entry = entries.iter().find(|entry| entry["action"] == action);
        entry.unwrap_or_else(|| panic!("{text}"))
    };
    assert_eq!(entry("verify_face")["target"], id);
    let details = entry("verify")["details"].as_str().unwrap();
    let details: Value = serde_json::from_str(details).unwrap();
    assert_eq!(details["images"], json!([scan["image"]["sha256"]]));
}

#[tokio::test]
async fn the_calibrations_are_listed() {
    let app = TestApp::start().await;
    let listed = app.get("/calibration").await.json();
    let own = &app.app.pipeline.models.embedder.vector_space;
    let tables = listed["calibrations"].as_array().unwrap();
    let table = tables
        .iter()
        .find(|table| table["vector_space"] == own.as_str())
        .unwrap();
    assert!(table["points"].as_array().unwrap().len() >= 3, "{table}");
    assert_eq!(table["embedder"], "sface-2021dec");
}

#[test]
fn the_command_compares_files_and_exits_with_the_decision() {
    let run = |other: &str| {
        let pictures = runtime_dir().join("pictures");
        let pair = ["obama.jpg", other].map(|name| pictures.join(name));
        facescan(["verify"]).args(pair).output().unwrap()
    };
    let same = run("obama2.jpg");
    let printed: Value = serde_json::from_slice(&same.stdout).unwrap();
    assert_eq!(same.status.code(), Some(0));
    assert_eq!(printed["match"], true);
    assert!(printed["far"]["value"].is_f64(), "{printed}");
    assert_eq!(run("biden.jpg").status.code(), Some(1));
    assert_eq!(run("/no/such.jpg").status.code(), Some(2));
}

/// The table in the repository was measured on the same faces, so the thresholds are inside its intervals.
#[tokio::test]
#[ignore = "needs FACESCAN_TESTDATA"]
async fn a_new_calibration_is_within_the_intervals_of_the_built_in_one() {
    let folder = testdata("lfw_fold1/images");
    let app = TestApp::start().await;
    let mut people = BTreeMap::<_, Vec<Vec<f32>>>::new();
    for path in files(&folder) {
        let bytes = std::fs::read(&path).unwrap();
        let scan = app.post("/embed?store=false", bytes.into()).await.result();
        if let Some(face) = central(&scan) {
            let person = people.entry(path.parent().unwrap().to_owned()).or_default();
            person.push(numbers(&face["embedding"]));
        }
    }
    let people: Vec<_> = people.into_values().collect();
    let measured = measure(&people, 7);
    let known = Calibrations::load(&[]).unwrap();
    let table = known
        .of(&app.app.pipeline.models.embedder.vector_space)
        .unwrap();
    assert_eq!(measured.points.len(), table.points.len());
    for (new, stored) in measured.points.iter().zip(&table.points) {
        let interval = stored.threshold_low..=stored.threshold_high;
        assert!(interval.contains(&new.threshold), "{new:?} {stored:?}");
    }
}
