//! The mistakes of a first hour, and what each is told: the status, the code, and what to do.
//!
//! Each message names the field or the setting, says what is allowed, and has no word of a programming language and no byte of the
//! body.

use axum::{
    body::Body,
    http::{Request, header::CONTENT_TYPE},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use facescan_config::scope::Scope;
use insta::assert_json_snapshot;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{
    access::{key, send},
    forms::multipart,
    support::app::{Reply, TestApp, image_file},
};

const JSON: &str = "application/json";
const RAW: &str = "application/octet-stream";

/// Words of the program, which no message has.
const FOREIGN: [&str; 11] = [
    "usize",
    "u32",
    "u64",
    "struct",
    "variant",
    "enum ",
    "serde",
    "deserialize",
    "invalid type",
    "invalid value",
    "expected struct",
];

/// A part of a form: its name, the name of its file, and its bytes.
type Part<'a> = (&'a str, Option<&'a str>, &'a [u8]);

/// An application, and what it told about each mistake.
struct Mistakes {
    app: TestApp,
    told: Map<String, Value>,
}

impl Mistakes {
    async fn with(settings: &[(&str, &str)]) -> Self {
        Self {
            app: TestApp::with(settings).await,
            told: Map::new(),
        }
    }

    async fn post(&mut self, what: &str, uri: &str, media_type: &str, body: impl Into<Body>) {
        let reply = self.app.post_as(uri, media_type, body).await;
        self.note(what, &reply);
    }

    async fn json(&mut self, what: &str, uri: &str, body: &Value) {
        self.post(what, uri, JSON, body.to_string()).await;
    }

    async fn form(&mut self, what: &str, uri: &str, parts: &[Part<'_>]) {
        let (media_type, body) = multipart(parts);
        self.post(what, uri, &media_type, body).await;
    }

    async fn raw(&mut self, what: &str, uri: &str, body: &[u8]) {
        self.post(what, uri, RAW, body.to_vec()).await;
    }

    async fn get(&mut self, what: &str, uri: &str) {
        let reply = self.app.get(uri).await;
        self.note(what, &reply);
    }

    async fn request(&mut self, what: &str, request: Request<Body>) {
        let reply = self.app.send(request).await;
        self.note(what, &reply);
    }

    /// Keeps what a mistake is told. A mistake that is none any more has only a status.
    fn note(&mut self, what: &str, reply: &Reply) {
        let status = reply.status.as_u16();
        let mut told = json!({ "status": status });
        if !reply.status.is_success() {
            assert_eq!(
                reply.headers[CONTENT_TYPE], "application/problem+json",
                "{what}"
            );
            let body = reply.json();
            let text = body.to_string();
            for word in FOREIGN {
                assert!(!text.contains(word), "{what}: `{word}` in {text}");
            }
            assert!(
                !text.contains("/9j/"),
                "{what}: bytes of the body in {text}"
            );
            if body["code"] == "invalid_option" && status == 422 {
                assert!(
                    !body["errors"].as_array().unwrap().is_empty(),
                    "{what}: {text}"
                );
            }
            for name in ["code", "detail", "errors"] {
                if let Some(value) = body.get(name) {
                    told[name] = without_new_ids(value);
                }
            }
        }
        assert!(
            self.told.insert(what.to_owned(), told).is_none(),
            "{what} twice"
        );
    }
}

/// Replaces the ids that this run made. Those of requests begin like the one in the documentation.
fn without_new_ids(value: &Value) -> Value {
    let text = value.to_string();
    let words = text.split_inclusive(' ').map(|word| {
        let id = word.trim_matches(|char: char| !char.is_ascii_hexdigit());
        let is_new = Uuid::try_parse(id).is_ok() && !id.starts_with("0192f0c");
        if is_new {
            word.replace(id, "[id]")
        } else {
            word.to_owned()
        }
    });
    serde_json::from_str(&words.collect::<String>()).unwrap()
}

fn base64(name: &str) -> String {
    BASE64_STANDARD.encode(image_file(name))
}

#[tokio::test]
async fn mistakes_with_the_image_of_a_request() {
    let mut told = Mistakes::with(&[("FACESCAN__LIMITS__MAX_IMAGE_BYTES", "700000")]).await;
    let (photo, small) = (image_file("t1.jpg"), image_file("obama.jpg"));
    assert!(photo.len() > 64 << 10, "longer than an option may be");
    let store = ("store", None, &b"false"[..]);
    for name in ["file", "files", "images", "image[]"] {
        let part = (name, Some("t1.jpg"), &photo[..]);
        told.form(
            &format!("a form with the part `{name}`"),
            "/detect",
            &[part, store],
        )
        .await;
    }
    told.form(
        "a form with the part `photo`",
        "/detect",
        &[("photo", Some("t1.jpg"), &photo)],
    )
    .await;
    told.form(
        "a form with an image without the name of a file",
        "/detect",
        &[("photo", None, &photo)],
    )
    .await;
    told.form("a form with options only", "/detect", &[store])
        .await;
    told.form("an empty form", "/detect", &[]).await;
    told.form(
        "a form with the name of a file",
        "/detect",
        &[("image", None, b"photo.jpg"), store],
    )
    .await;
    told.form(
        "a form with an empty file",
        "/detect",
        &[("image", Some("a.jpg"), b""), store],
    )
    .await;
    told.form(
        "a comparison of the parts `img1` and `img2`",
        "/verify",
        &[
            ("img1", Some("a.jpg"), &photo),
            ("img2", Some("b.jpg"), &small),
        ],
    )
    .await;
    told.form(
        "a comparison of one image",
        "/verify",
        &[("a", Some("a.jpg"), &small)],
    )
    .await;
    told.raw("an empty body", "/detect", b"").await;
    told.raw("a short text as an image", "/detect", b"photo.jpg")
        .await;
    let text = "some text\n".repeat(100);
    let files: [(&str, &[u8]); 8] = [
        ("a long text", text.as_bytes()),
        ("a pdf", b"%PDF-1.7 \xFF"),
        ("an svg", b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>"),
        ("a page", b"<!DOCTYPE html><p>"),
        ("a heic", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"),
        ("an avif", b"\0\0\0\x1Cftypavif\0\0\0\0mif1miaf"),
        ("unknown bytes", b"\0\x01\x02\x03\xFF"),
        ("a jpeg that ends early", &photo[..40_000]),
    ];
    for (what, bytes) in files {
        told.raw(&format!("{what} as an image"), "/detect?store=false", bytes)
            .await;
    }
    told.raw(
        "an image above the limit",
        "/detect?store=false",
        &image_file("astronaut.png"),
    )
    .await;
    assert_json_snapshot!(told.told);
}

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

#[tokio::test]
async fn mistakes_with_addresses_and_lists() {
    let mut told = Mistakes::with(&[]).await;
    for uri in [
        "/detect",
        "/detect/",
        "/detct",
        "/health",
        "/v1/embed",
        "/nowhere/at/all",
        "/images/123",
        "/images/0192f0c8-0000-7000-8000-000000000000",
        "/collections/people",
        "/images?limit=5000",
        "/images?page=2",
        "/images?after=yesterday&limit=ten",
        "/batches?state=finished",
    ] {
        told.get(&format!("GET {uri}"), uri).await;
    }
    assert_json_snapshot!(told.told);
}

#[tokio::test]
async fn mistakes_with_collections_batches_and_erasures() {
    let settings = [("FACESCAN__RECOGNITION__PURPOSES", "[photo album]")];
    let mut told = Mistakes::with(&settings).await;
    let encoded = base64("obama.jpg");
    told.json(
        "a collection with a name only",
        "/collections",
        &json!({"name": "people"}),
    )
    .await;
    told.json(
        "a collection with wrong fields",
        "/collections",
        &json!({"name": 7, "purpose": "", "legal_basis": true, "retention": 30, "kind": "galery", "consent_required": "yes"}),
    )
    .await;
    let gallery = |purpose: &str| json!({"name": "people", "purpose": purpose, "legal_basis": "consent", "retention_days": 30});
    told.json(
        "a purpose that is not allowed",
        "/collections",
        &gallery("marketing"),
    )
    .await;
    let created = told
        .app
        .post_as("/collections", JSON, gallery("photo album").to_string())
        .await;
    let collection = format!("/collections/{}", created.json()["id"].as_str().unwrap());
    let subjects = format!("{collection}/subjects");
    told.json(
        "a consent that is true",
        &subjects,
        &json!({"consent": true}),
    )
    .await;
    told.json(
        "a consent without its fields",
        &subjects,
        &json!({"consent": {"reference": "form 3", "given_at": "yesterday"}, "expires_at": "soon", "name": "A"}),
    )
    .await;
    let search = format!("{collection}/search");
    let face = json!({"data": encoded});
    told.json(
        "a search without a purpose",
        &search,
        &json!({"faces": [face]}),
    )
    .await;
    told.json(
        "a search with `face`",
        &search,
        &json!({"face": face, "purpose": "photo album"}),
    )
    .await;
    told.json(
        "a search for two faces",
        &search,
        &json!({"faces": [face, face], "options": {"purpose": "photo album"}}),
    )
    .await;
    told.json("a search that is too long", &search, &json!({"faces": [face], "options": {"purpose": "photo album", "limit": 500, "by": "person"}})).await;
    told.json(
        "a batch without an operation",
        "/batches",
        &json!({"items": []}),
    )
    .await;
    told.json(
        "a batch of `images`",
        "/batches",
        &json!({"operation": "detect", "images": []}),
    )
    .await;
    told.json(
        "a batch that sings",
        "/batches",
        &json!({"operation": "sing", "nmae": "a", "open": "yes"}),
    )
    .await;
    told.json(
        "a batch with a wrong option",
        "/batches",
        &json!({"operation": "detect", "options": {"max_face": 1, "min_score": 7}}),
    )
    .await;
    told.post(
        "a batch of lines without a head",
        "/batches",
        "application/x-ndjson",
        "",
    )
    .await;
    told.post(
        "a batch of lines that begins with a list",
        "/batches",
        "application/x-ndjson",
        "[1]",
    )
    .await;
    told.json(
        "a clustering of no library",
        &format!("{collection}/clusterings"),
        &json!({"min_faces": 0}),
    )
    .await;
    told.json(
        "a webhook over http",
        "/webhooks",
        &json!({"url": "http://example.org/hook"}),
    )
    .await;
    told.json(
        "a webhook of a private host",
        "/webhooks",
        &json!({"url": "https://127.0.0.1/hook"}),
    )
    .await;
    told.json(
        "a webhook without its url",
        "/webhooks",
        &json!({"uri": "https://example.org"}),
    )
    .await;
    told.json(
        "an erasure of two things",
        "/erasures",
        &json!({"source": "a", "host": "b"}),
    )
    .await;
    told.json("an erasure of nothing", "/erasures", &json!({}))
        .await;
    told.json(
        "an erasure of no id",
        "/erasures",
        &json!({"image": "a.jpg"}),
    )
    .await;
    told.post("an erasure as text", "/erasures", "text/plain", "image")
        .await;
    assert_json_snapshot!(told.told);
}

#[tokio::test]
async fn mistakes_with_keys_urls_and_origins() {
    let url = |url: &str| json!({"images": [{"url": url}]});
    let mut told = Mistakes::with(&[]).await;
    told.json("a url", "/detect", &url("https://example.org/a.jpg"))
        .await;
    told.json(
        "keys of an open server",
        "/keys",
        &json!({"name": "a", "scopes": ["read"]}),
    )
    .await;
    let proxied = Request::get("/images")
        .header("host", "photos.example.com")
        .body(Body::empty());
    told.request("through a proxy", proxied.unwrap()).await;
    let mut fetching = Mistakes::with(&[("FACESCAN__URLS__ENABLED", "true")]).await;
    fetching
        .json(
            "a url over http",
            "/detect",
            &url("http://example.org/a.jpg"),
        )
        .await;
    fetching
        .json(
            "a url of a private host",
            "/detect",
            &url("https://127.0.0.1/a.jpg"),
        )
        .await;
    fetching.json("no url", "/detect", &url("a.jpg")).await;
    told.told.append(&mut fetching.told);

    let mut open = Mistakes::with(&[("FACESCAN__ACCESS__MODE", "off")]).await;
    let preflight = Request::options("/detect")
        .header("origin", "https://page.example")
        .header("access-control-request-method", "POST")
        .body(Body::empty());
    open.request("a page of another origin", preflight.unwrap())
        .await;
    told.told.append(&mut open.told);

    let mut locked = Mistakes::with(&[("FACESCAN__ACCESS__MODE", "required")]).await;
    locked.get("no key", "/images").await;
    let reader = key(&locked.app, "default", &[Scope::Read]).await;
    let admin = key(&locked.app, "default", &[Scope::Admin]).await;
    let reply = send(&locked.app, "fsk_wrong", ("GET", "/images"), "").await;
    locked.note("a wrong key", &reply);
    let reply = send(&locked.app, &reader, ("POST", "/detect"), "{}").await;
    locked.note("a key without the scope", &reply);
    let new = json!({"name": "a", "scopes": ["read", "root", "serch"], "expires": "2001-01-01T00:00:00Z"});
    let reply = send(&locked.app, &admin, ("POST", "/keys"), new.to_string()).await;
    locked.note("a key with scopes that do not exist", &reply);
    told.told.append(&mut locked.told);
    assert_json_snapshot!(told.told);
}
