//! Mistakes with the format of a body.

use axum::{body::Body, http::Request};
use insta::assert_json_snapshot;
use serde_json::json;

use super::{JSON, Mistakes, base64};
use crate::support::app::image_file;

#[tokio::test]
async fn mistakes_with_the_format_of_a_body() {
    let mut told = Mistakes::with(&[]).await;
    let photo = image_file("obama.jpg");
    let encoded = base64("obama.jpg");
    let no_type = Request::post("/detect").body(Body::from("{}")).unwrap();
    told.request("no content type", no_type).await;
    told.post(
        "the content type of curl -d",
        "/detect",
        "application/x-www-form-urlencoded",
        "x",
    )
    .await;
    told.post("an image as json", "/detect", JSON, photo.clone())
        .await;
    told.post("nothing as json", "/detect", JSON, "").await;
    told.post("a list as json", "/detect", JSON, "[1]").await;
    told.post("python as json", "/detect", JSON, "{'images': []}")
        .await;
    told.post(
        "json that ends early",
        "/detect",
        JSON,
        r#"{"images": [{"data": "/9j/"#,
    )
    .await;
    told.post(
        "json with more behind it",
        "/detect",
        JSON,
        r#"{"images": []} x"#,
    )
    .await;
    told.post(
        "json as msgpack",
        "/detect",
        "application/msgpack",
        r#"{"images": []}"#,
    )
    .await;
    told.post(
        "msgpack that ends early",
        "/detect",
        "application/msgpack",
        &b"\x81\xa6images\x91\x81"[..],
    )
    .await;
    told.post(
        "a form without a boundary",
        "/detect",
        "multipart/form-data",
        "x",
    )
    .await;
    told.post(
        "a form that ends early",
        "/detect",
        "multipart/form-data; boundary=b",
        "--b\r\n",
    )
    .await;
    told.json(
        "`image` in place of `images`",
        "/detect",
        &json!({"image": encoded}),
    )
    .await;
    told.json(
        "`url` in place of `images`",
        "/detect",
        &json!({"url": "https://example.org/a.jpg"}),
    )
    .await;
    told.json(
        "options beside the images",
        "/detect",
        &json!({"images": [{"data": encoded}], "max_faces": 1}),
    )
    .await;
    told.json(
        "base64 without its field",
        "/detect",
        &json!({"images": [encoded]}),
    )
    .await;
    told.json(
        "an image that is no list",
        "/detect",
        &json!({"images": {"data": encoded}}),
    )
    .await;
    told.json(
        "a field that is misspelled",
        "/detect",
        &json!({"images": [{"dta": encoded}, {"id": 7}]}),
    )
    .await;
    told.json(
        "no base64",
        "/detect",
        &json!({"images": [{"data": "not base64!"}]}),
    )
    .await;
    told.json(
        "base64 for urls",
        "/detect",
        &json!({"images": [{"data": "_9j_"}]}),
    )
    .await;
    told.json(
        "half of the base64",
        "/detect",
        &json!({"images": [{"data": "aGVsb"}]}),
    )
    .await;
    told.json(
        "bytes and a url",
        "/detect",
        &json!({"images": [{"data": encoded, "url": "https://example.org/a.jpg"}]}),
    )
    .await;
    told.json(
        "neither bytes nor a url",
        "/detect",
        &json!({"images": [{"id": "a"}]}),
    )
    .await;
    told.json("no images", "/detect", &json!({"images": []}))
        .await;
    told.json("an empty object", "/detect", &json!({})).await;
    told.json(
        "65 images",
        "/detect",
        &json!({"images": vec![json!({"data": ""}); 65]}),
    )
    .await;
    told.json(
        "a face of two kinds",
        "/verify",
        &json!({"a": {"data": encoded, "face_id": "x"}, "b": {"embedding": [1]}}),
    )
    .await;
    told.json(
        "a comparison with one face",
        "/verify",
        &json!({"a": {"data": encoded}}),
    )
    .await;
    told.raw("a comparison of one body", "/verify", &photo)
        .await;
    assert_json_snapshot!(told.told);
}
