//! The mistakes of a first hour, and what each is told: the status, the code, and what to do.
//!
//! Each message names the field or the setting, says what is allowed, and has no word of a programming language and no byte of the
//! body.

mod access;
mod addresses;
mod bodies;
mod images;
mod options;
mod stored;

use axum::{
    body::Body,
    http::{Request, header::CONTENT_TYPE},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{
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
