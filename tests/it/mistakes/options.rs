//! Mistakes with options.

use insta::assert_json_snapshot;
use serde_json::json;

use super::{Mistakes, Part, base64};
use crate::support::app::image_file;

#[tokio::test]
async fn mistakes_with_options() {
    let mut told = Mistakes::with(&[]).await;
    let photo = image_file("obama.jpg");
    for query in [
        "max_face=3",
        "max_faces=one",
        "max_faces=-1",
        "landmarks=maybe",
        "min_score=60",
        "min_score=60&nms_iou=7&max_face=3",
        "det_size=500",
        "det_size=fat",
        "embedding_format=list",
        "model=arcface",
        "detector_backend=retinaface",
        "preset=strict",
        "decode=Fast",
        "priority=high",
    ] {
        told.raw(query, &format!("/embed?store=false&{query}"), &photo)
            .await;
    }
    for uri in [
        "/detect?aligned=true&store=false",
        "/enhance?store=true",
        "/enhance?gamma=bright",
        "/enhance?jpeg_quality=0",
    ] {
        told.raw(uri, uri, &photo).await;
    }
    for query in [
        "landmarks=True",
        "landmarks=1",
        "landmarks=yes",
        "landmarks=OFF",
    ] {
        told.raw(query, &format!("/detect?store=false&{query}"), &photo)
            .await;
    }
    let parts: [Part<'_>; 3] = [
        ("image", Some("a.jpg"), &photo),
        ("store", None, b"False"),
        ("landmarks", None, b"True"),
    ];
    told.form("booleans of Python in a form", "/detect", &parts)
        .await;
    let parts: [Part<'_>; 2] = [
        ("image", Some("a.jpg"), &photo),
        ("options", None, b"{max_faces: 1}"),
    ];
    told.form("options that are no json", "/detect", &parts)
        .await;
    let images = json!([{"data": base64("obama.jpg")}]);
    for (what, options) in [
        ("a boolean as text in json", json!({"landmarks": "true"})),
        ("a number as text in json", json!({"max_faces": "3"})),
        ("a list as an option", json!({"det_size": [640]})),
        ("options that are a list", json!([1])),
    ] {
        told.json(
            what,
            "/detect",
            &json!({"images": images, "options": options}),
        )
        .await;
    }
    let operations = |text: &str| format!("/process?operations={}", text.replace('"', "%22"));
    for (what, text) in [
        ("an operation by another name", r#"[{"op":"blur"}]"#),
        ("an operation without its name", r#"[{"width":7}]"#),
        (
            "fields of an operation",
            r#"[{"op":"resize","widht":7,"mode":"fit"}]"#,
        ),
        ("operations that are words", "blur"),
        ("an operation that is no list", r#"{"op":"flip"}"#),
    ] {
        told.raw(what, &operations(text), &photo).await;
    }
    told.raw("no operations", "/process", &photo).await;
    told.raw(
        "a tensor of no size",
        "/preprocess?width=0&mean=[0.5,0.5]&dtype=float32",
        &photo,
    )
    .await;
    for query in ["far=0.5&threshold=0.3", "far=2", "threshold=x"] {
        let parts: [Part<'_>; 2] = [("a", Some("a.jpg"), &photo), ("b", Some("b.jpg"), &photo)];
        told.form(
            &format!("a comparison with {query}"),
            &format!("/verify?{query}"),
            &parts,
        )
        .await;
    }
    assert_json_snapshot!(told.told);
}
