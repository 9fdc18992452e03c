//! The four request forms, both answer forms and the command line return the same results.

use axum::http::{StatusCode, header::CONTENT_TYPE};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::support::{
    app::{TestApp, image_file, numbers, result_of, runtime_dir},
    cli::facescan,
    values::{assert_fields, difference, floats},
};

const BOUNDARY: &str = "facescan-test-boundary";

/// Returns a content type and a multipart body. A part with a filename is a file.
pub fn multipart(parts: &[(&str, Option<&str>, &[u8])]) -> (String, Vec<u8>) {
    let mut body = Vec::new();
    for (name, file, bytes) in parts {
        let file = file
            .map(|file| format!("; filename=\"{file}\""))
            .unwrap_or_default();
        let head = format!("content-disposition: form-data; name=\"{name}\"{file}");
        body.extend(format!("--{BOUNDARY}\r\n{head}\r\n\r\n").bytes());
        body.extend(*bytes);
        body.extend(b"\r\n");
    }
    body.extend(format!("--{BOUNDARY}--\r\n").bytes());
    (format!("multipart/form-data; boundary={BOUNDARY}"), body)
}

fn msgpack(image: &[u8]) -> Vec<u8> {
    #[derive(serde::Serialize)]
    struct Image<'a> {
        id: &'a str,
        #[serde(with = "serde_bytes_as_binary")]
        data: &'a [u8],
    }
    mod serde_bytes_as_binary {
        pub fn serialize<S: serde::Serializer>(
            data: &[u8],
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(data)
        }
    }
    #[derive(serde::Serialize)]
    struct Body<'a> {
        images: [Image<'a>; 1],
        options: Value,
    }
    let body = Body {
        images: [Image {
            id: "t1.jpg",
            data: image,
        }],
        options: json!({"quality": true, "store": false}),
    };
    rmp_serde::to_vec_named(&body).unwrap()
}

/// Returns the fields that must not depend on the request form.
fn essence(result: &Value) -> Value {
    json!({"image": result["image"], "faces": result["faces"], "status": result["status"]})
}

#[tokio::test]
async fn every_request_form_returns_the_same_answer() {
    let app = TestApp::start().await;
    let image = image_file("t1.jpg");
    for operation in ["detect", "embed"] {
        let uri = format!("/{operation}");
        let query = format!("{uri}?quality=true&store=false");
        let raw = app
            .post_as(&query, "image/jpeg", image.clone())
            .await
            .result();
        assert_eq!(raw["faces"].as_array().unwrap().len(), 6);

        let fields: [(&str, Option<&str>, &[u8]); 3] = [
            ("image", Some("t1.jpg"), &image),
            ("quality", None, b"true"),
            ("store", None, b"false"),
        ];
        let (media_type, body) = multipart(&fields);
        let by_fields = app.post_as(&uri, &media_type, body).await.result();
        assert_eq!(by_fields["id"], "t1.jpg");

        let options = br#"{"quality": true, "store": false}"#;
        let (media_type, body) = multipart(&[
            ("options", None, options),
            ("image", Some("t1.jpg"), &image),
        ]);
        let by_options = app.post_as(&uri, &media_type, body).await.result();

        let prefixed = format!("data:image/jpeg;base64,{}", BASE64_STANDARD.encode(&image));
        let body = json!({"images": [{"id": "t1.jpg", "data": prefixed}], "options": {"quality": true, "store": false}});
        let by_json = app
            .post_as(&uri, "application/json", body.to_string())
            .await
            .result();

        let by_msgpack = app
            .post_as(&uri, "application/msgpack", msgpack(&image))
            .await
            .result();

        for other in [&by_fields, &by_options, &by_json, &by_msgpack] {
            assert_eq!(essence(&raw), essence(other), "{operation}");
        }
    }
}

#[tokio::test]
async fn the_command_line_returns_the_same_answer_as_the_server() {
    let app = TestApp::start().await;
    for (operation, command) in [("detect", "scan"), ("embed", "embed")] {
        let over_http = result_of(
            &app,
            &format!("/{operation}?quality=true&store=false"),
            "t1.jpg",
        )
        .await;
        let path = runtime_dir().join("pictures/t1.jpg");
        // One thread, like the sessions of `app`. With several threads, sums differ in the last bit.
        let output = facescan([command, "--quality", path.to_str().unwrap()])
            .env("FACESCAN__RUNTIME__INTRA_THREADS", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let line: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(line["path"], path.to_str().unwrap());
        assert_eq!(essence(&line), essence(&over_http), "{command}");
    }
}

#[tokio::test]
async fn msgpack_and_json_answers_have_the_same_content() {
    let app = TestApp::start().await;
    let embed = async |accept: &str| {
        let headers = [("content-type", "image/jpeg"), ("accept", accept)];
        let uri = "/embed?store=false&max_faces=1";
        app.call("POST", uri, &headers, image_file("t1.jpg")).await
    };
    let json = embed("application/json").await;
    let msgpack = embed("application/msgpack").await;
    assert_eq!(msgpack.headers[CONTENT_TYPE], "application/msgpack");
    let mut decoded: Value = rmp_serde::from_slice(&msgpack.body).unwrap();
    let mut expected = json.json();
    for answer in [&mut decoded, &mut expected] {
        answer["request_id"].take();
        // msgpack holds f32 and JSON the shortest decimal, so these fields are not equal here.
        let face = &mut answer["results"][0]["faces"][0];
        for field in ["bbox", "landmarks", "embedding", "score", "embedding_norm"] {
            assert!(!face[field].take().is_null(), "{field}");
        }
    }
    assert_eq!(decoded, expected);
}

#[tokio::test]
async fn base64_vectors_equal_float_vectors() {
    let app = TestApp::start().await;
    let embedding = async |format: &str| {
        let uri = format!("/embed?store=false&max_faces=1&embedding_format={format}");
        result_of(&app, &uri, "obama.jpg").await["faces"][0]["embedding"].clone()
    };
    let float = numbers(&embedding("float").await);
    assert_eq!(float, floats(&decode(&embedding("base64-f32").await)));
    let f16s: Vec<f32> = decode(&embedding("base64-f16").await)
        .chunks_exact(2)
        .map(|bytes| half::f16::from_le_bytes(bytes.try_into().unwrap()).to_f32())
        .collect();
    assert_eq!(f16s.len(), 128);
    assert!(difference(&float, &f16s) < 1e-3);
}

fn decode(value: &Value) -> Vec<u8> {
    BASE64_STANDARD.decode(value.as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn an_invalid_image_does_not_fail_the_other_images() {
    let app = TestApp::start().await;
    let image = image_file("t1.jpg");
    let parts: [(&str, Option<&str>, &[u8]); 5] = [
        ("image", Some("cut.jpg"), &image[..40_000]),
        ("image", Some("t1.jpg"), &image),
        ("image", Some("text.jpg"), b"this is not an image"),
        ("store", None, b"false"),
        ("landmarks", None, b"false"),
    ];
    let (media_type, body) = multipart(&parts);
    let reply = app.post_as("/detect", &media_type, body).await;
    assert_eq!(reply.status, StatusCode::OK);
    let results = reply.json()["results"].clone();
    assert_fields!(results[0], {"status": "error", "error": {"code": "image_truncated"}});
    assert_fields!(results[1], {"index": 1, "id": "t1.jpg"});
    assert_eq!(results[1]["faces"].as_array().unwrap().len(), 6);
    assert!(results[1]["faces"][0].get("landmarks").is_none());
    assert_eq!(results[2]["error"]["code"], "unsupported_media_type");
}

#[tokio::test]
async fn embedding_an_aligned_crop_returns_the_vector_of_its_face() {
    let app = TestApp::start().await;
    let uncut = result_of(&app, "/embed?store=false&crops=true", "obama.jpg").await;
    let face = &uncut["faces"][0];
    let crop = decode(&face["crop"]);
    let aligned = app
        .post("/embed?store=false&aligned=true", crop.into())
        .await
        .result();
    assert_eq!(aligned["faces"][0]["embedding"], face["embedding"]);
    assert_eq!(aligned["faces"][0]["bbox"], json!([0.0, 0.0, 112.0, 112.0]));
    assert!(aligned["faces"][0].get("score").is_none());

    let refused = app
        .post("/embed?store=false&aligned=true", image_file("obama.jpg"))
        .await;
    refused.assert_error(422, "invalid_option");
}
