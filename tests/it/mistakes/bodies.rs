//! Mistakes with the format of a body.

use axum::{body::Body, http::Request};
use insta::assert_json_snapshot;
use serde_json::json;

use super::{JSON, Mistakes, base64};
use crate::support::app::image_file;

#[tokio::test]
async fn mistakes_with_the_format_of_a_body() {
    let settings = [("FACESCAN__SERVER__MAX_BODY_BYTES", "2000000")];
    let mut told = Mistakes::with(&settings).await;
    let photo = image_file("obama.jpg");
    let encoded = base64("obama.jpg");
    let no_type = Request::post("/detect").body(Body::from("{}")).unwrap();
    told.request("no content type", no_type).await;
    let (msgpack, form) = ("application/msgpack", "multipart/form-data");
    let of_curl = "application/x-www-form-urlencoded";
    let bodies: [(&str, &str, &[u8]); 11] = [
        ("the content type of curl -d", of_curl, b"x"),
        ("an image as json", JSON, &photo),
        ("nothing as json", JSON, b""),
        ("a list as json", JSON, b"[1]"),
        ("python as json", JSON, b"{'images': []}"),
        (
            "json that ends early",
            JSON,
            br#"{"images": [{"data": "/9j/"#,
        ),
        ("json with more behind it", JSON, br#"{"images": []} x"#),
        ("json as msgpack", msgpack, br#"{"images": []}"#),
        (
            "msgpack that ends early",
            msgpack,
            b"\x81\xa6images\x91\x81",
        ),
        ("a form without a boundary", form, b"x"),
        (
            "a form that ends early",
            &format!("{form}; boundary=b"),
            b"--b\r\n",
        ),
    ];
    for (what, media_type, body) in bodies {
        told.post(what, "/detect", media_type, body.to_vec()).await;
    }
    let url = "https://example.org/a.jpg";
    let image = |image| json!({"images": [image]});
    for (what, body) in [
        ("`image` in place of `images`", json!({"image": encoded})),
        ("`url` in place of `images`", json!({"url": url})),
        (
            "options beside the images",
            json!({"images": [{"data": encoded}], "max_faces": 1}),
        ),
        ("base64 without its field", image(json!(encoded))),
        (
            "an image that is no list",
            json!({"images": {"data": encoded}}),
        ),
        (
            "a field that is misspelled",
            json!({"images": [{"dta": encoded}, {"id": 7}]}),
        ),
        ("no base64", image(json!({"data": "not base64!"}))),
        ("base64 for urls", image(json!({"data": "_9j_"}))),
        ("half of the base64", image(json!({"data": "aGVsb"}))),
        (
            "bytes and a url",
            image(json!({"data": encoded, "url": url})),
        ),
        ("neither bytes nor a url", image(json!({"id": "a"}))),
        ("no images", json!({"images": []})),
        ("an empty object", json!({})),
        (
            "65 images",
            json!({"images": vec![json!({"data": ""}); 65]}),
        ),
    ] {
        told.json(what, "/detect", &body).await;
    }
    let two_kinds = json!({"data": encoded, "face_id": "x"});
    for (what, body) in [
        (
            "a face of two kinds",
            json!({"a": two_kinds, "b": {"embedding": [1]}}),
        ),
        (
            "a comparison with one face",
            json!({"a": {"data": encoded}}),
        ),
    ] {
        told.json(what, "/verify", &body).await;
    }
    told.raw("a comparison of one body", "/verify", &photo)
        .await;
    told.raw("a body above the limit", "/detect", &[0; 2_000_001])
        .await;
    assert_json_snapshot!(told.told);
}
