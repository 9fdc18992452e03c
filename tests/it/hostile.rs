//! Bodies that state more than they have, or more than anyone needs. Each is refused soon, with little memory.

use axum::http::StatusCode;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::json;

use crate::support::app::{TestApp, image_file};

/// Returns a form with this number of parts.
fn form(parts: usize, part: &str) -> Vec<u8> {
    let part = format!("--b\r\ncontent-disposition: form-data; {part}\r\n\r\nx\r\n");
    [part.repeat(parts).into_bytes(), b"--b--\r\n".to_vec()].concat()
}

#[tokio::test]
async fn forms_with_ten_thousand_parts_are_refused() {
    let app = TestApp::start().await;
    for (part, code) in [
        (r#"name="image"; filename="a""#, "too_many_images"),
        (r#"name="min_score""#, "invalid_body"),
        (r#"name="options""#, "invalid_option"),
    ] {
        let form_type = "multipart/form-data; boundary=b";
        let reply = app.post_as("/detect", form_type, form(10_000, part)).await;
        assert!(reply.status.is_client_error(), "{part}: {:?}", reply.body);
        assert_eq!(reply.code(), code, "{part}");
    }
}

#[tokio::test]
async fn trees_that_are_deep_or_state_gigabytes_are_refused() {
    let app = TestApp::start().await;
    let (json, msgpack) = ("application/json", "application/msgpack");
    let deep = "[".repeat(100_000);
    let deep_options = format!(r#"{{"images":[],"options":{{"det_size":{deep}}}}}"#).into_bytes();
    // The start of a value that states 4 GiB or as many entries.
    let long = |kind: u8| vec![kind, 0xff, 0xff, 0xff, 0xff];
    // {"images": …}
    let images = |value: &[u8]| [b"\x81\xa6images", value].concat();
    let data = |value: &[u8]| images(&[b"\x91\x81\xa4data", value].concat());
    for (name, media_type, body) in [
        ("deep lists", json, "[".repeat(1_000_000).into_bytes()),
        ("deep objects", json, "{\"a\":".repeat(200_000).into_bytes()),
        ("deep options", json, deep_options),
        ("deep msgpack", msgpack, vec![0x91; 1_000_000]),
        ("a long list", msgpack, images(&long(0xdd))),
        ("a long map", msgpack, long(0xdf)),
        ("long bytes", msgpack, data(&long(0xc6))),
        ("a long text", msgpack, data(&long(0xdb))),
    ] {
        for uri in ["/detect", "/batches"] {
            let reply = app.post_as(uri, media_type, body.clone()).await;
            reply.assert_error_of(format!("{name} to {uri}"), 400, "invalid_body");
        }
    }
}

#[tokio::test]
async fn a_response_to_an_unread_body_closes_the_connection() {
    let app = TestApp::start().await;
    for (uri, content_type) in [("/livez", "image/jpeg"), ("/detect", "text/plain")] {
        let reply = app.post_as(uri, content_type, vec![b'x'; 1 << 20]).await;
        assert!(reply.status.is_client_error());
        assert_eq!(reply.headers["connection"], "close", "{uri}");
    }
    let read = app.post_as("/detect", "image/jpeg", vec![b'x'; 100]).await;
    assert!(!read.headers.contains_key("connection"));
}

#[tokio::test]
async fn a_nul_character_in_an_address_is_an_invalid_option() {
    let app = TestApp::start().await;
    for uri in ["/batches?name=%00", "/keys/%00", "/detect?source=a%00"] {
        let reply = app.post_as(uri, "image/jpeg", vec![b'x'; 10]).await;
        assert_eq!(reply.code(), "invalid_option", "{uri}: {:?}", reply.body);
    }
}

#[tokio::test]
async fn a_compressed_body_is_not_unpacked() {
    let app = TestApp::start().await;
    // A gzip stream of an image would be one, if it was unpacked.
    for (media_type, code) in [
        ("application/json", "invalid_body"),
        ("image/jpeg", "unsupported_media_type"),
    ] {
        let headers = [("content-type", media_type), ("content-encoding", "gzip")];
        let gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
        let reply = app.call("POST", "/detect", &headers, gzip).await;
        assert_eq!(reply.code(), code, "{media_type}");
    }
}

/// A file that is two formats at once is what its first bytes say.
#[tokio::test]
async fn a_file_with_another_format_behind_it_is_read_as_the_first() {
    let app = TestApp::start().await;
    let (jpeg, png) = (image_file("t1.jpg"), image_file("astronaut.png"));
    let archive = b"PK\x03\x04 and <script>alert(1)</script> %PDF-1.7";
    for (first, second, format) in [
        (&jpeg[..], &png[..], "jpeg"),
        (&png[..], &jpeg[..], "png"),
        (&jpeg[..], &archive[..], "jpeg"),
    ] {
        let file = [first, second].concat();
        let reply = app.post("/detect?store=false", file.into()).await;
        assert_eq!(reply.result()["image"]["format"], format);
    }
    let behind = [&archive[..], &jpeg[..]].concat();
    let reply = app.post("/detect?store=false", behind.into()).await;
    assert_eq!(reply.code(), "unsupported_media_type");
}

/// The other images of a request have their results beside hostile ones.
#[tokio::test]
async fn headers_that_state_huge_images_fail_alone() {
    let app = TestApp::start().await;
    let png = [
        &b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..],
        &u32::MAX.to_be_bytes(),
        &(1_u32 << 29).to_be_bytes(),
        &[8, 6, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let jpeg = [
        &b"\xff\xd8\xff\xc0\0\x11\x08"[..],
        &12_336_u16.to_be_bytes(),
        &12_336_u16.to_be_bytes(),
        b"\x03\x01\x22\0\x02\x11\x01\x03\x11\x01",
        b"\xff\xda\0\x0c\x03\x01\0\x02\x11\x03\x11\0\x3f\0",
    ]
    .concat();
    let image = |data: &[u8]| json!({"data": BASE64_STANDARD.encode(data)});
    let body = json!({
        "images": [image(&png), image(&jpeg), image(&image_file("t1.jpg"))],
        "options": {"store": false},
    });
    let body = body.to_string();
    let reply = app.post_as("/detect", "application/json", body).await;
    assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.body);
    let results = reply.json()["results"].clone();
    let code = |index: usize| results[index]["error"]["code"].clone();
    assert_eq!(code(0), "image_too_large");
    let damaged = ["image_too_large", "image_truncated", "image_corrupt"];
    assert!(damaged.iter().any(|known| code(1) == *known), "{}", code(1));
    assert_eq!(results[2]["status"], "ok");
}
