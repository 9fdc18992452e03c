//! Collections over HTTP: enrollment, search, what keeps people out of responses, and erasure.

mod batches;
mod commands;
mod guards;
mod index;
mod libraries;
mod measuring;
#[cfg(feature = "qdrant")]
mod qdrant;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::{
    app::{Reply, TestApp},
    database::{Database, on_both},
    values::{assert_fields, photo},
};

/// The settings that allow collections.
const ALLOWED: (&str, &str) = (
    "FACESCAN__RECOGNITION__PURPOSES",
    "[entry control, finding photographs]",
);

/// The setting that allows every threshold.
const EVERY_THRESHOLD: (&str, &str) = ("FACESCAN__RECOGNITION__MAX_SEARCH_FAR", "1");

async fn call(app: &TestApp, method: &str, uri: &str, body: Value) -> Reply {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let headers = [("content-type", "application/json")];
    app.call(method, uri, &headers, body).await
}

async fn ok(app: &TestApp, method: &str, uri: &str, body: Value) -> Value {
    let reply = call(app, method, uri, body).await;
    assert!(reply.status.is_success(), "{uri}: {:?}", reply.body);
    match reply.body.is_empty() {
        true => Value::Null,
        false => reply.json(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

pub(crate) fn gallery(name: &str) -> Value {
    json!({"name": name, "purpose": "entry control", "legal_basis": "consent", "retention_days": 30})
}

pub(crate) fn of_kind(kind: &str, name: &str) -> Value {
    let mut body = gallery(name);
    body["kind"] = json!(kind);
    body
}

async fn read(app: &TestApp, uri: &str) -> Value {
    ok(app, "GET", uri, Value::Null).await
}

async fn erase(app: &TestApp, uri: &str) {
    ok(app, "DELETE", uri, Value::Null).await;
}

/// Creates a collection and returns its address.
async fn create(app: &TestApp, body: Value) -> String {
    let created = ok(app, "POST", "/collections", body).await;
    format!("/collections/{}", text(&created["id"]))
}

/// Creates a subject and returns its address.
async fn subject(app: &TestApp, collection: &str, body: Value) -> String {
    let uri = format!("{collection}/subjects");
    let created = ok(app, "POST", &uri, body).await;
    format!("{uri}/{}", text(&created["id"]))
}

/// Enrolls faces and returns what became of them.
async fn enroll(app: &TestApp, subject: &str, faces: &[Value], options: Value) -> Vec<Value> {
    let body = json!({"faces": faces, "options": options});
    let answer = ok(app, "POST", &format!("{subject}/enrollments"), body).await;
    answer["results"].as_array().unwrap().clone()
}

fn search_body(face: Value, options: Value) -> Value {
    let mut options = options;
    let purpose = options.get("purpose").cloned();
    options["purpose"] = purpose.unwrap_or(json!("entry control"));
    json!({"faces": [face], "options": options})
}

async fn search(app: &TestApp, collection: &str, face: Value, options: Value) -> Value {
    let body = search_body(face, options);
    ok(app, "POST", &format!("{collection}/search"), body).await
}

/// Returns the subjects of the candidates.
fn found(answer: &Value) -> Vec<String> {
    let candidates = answer["candidates"].as_array().unwrap();
    candidates
        .iter()
        .map(|candidate| text(&candidate["subject_id"]))
        .collect()
}

fn id(uri: &str) -> String {
    uri.rsplit('/').next().unwrap().to_owned()
}

on_both!(
    a_person_is_enrolled_found_and_erased,
    |database: Database| async move {
        let app = TestApp::with_database(&database, &[ALLOWED, EVERY_THRESHOLD]).await;
        story(&app, "exact").await;
    }
);

/// `kind` is that of the index.
async fn story(app: &TestApp, kind: &str) {
    let staff = create(app, gallery("staff")).await;
    let obama = subject(
        app,
        &staff,
        json!({"external_id": "44", "metadata": {"floor": 3}}),
    )
    .await;
    let biden = subject(app, &staff, json!({"external_id": "46"})).await;
    let faces = enroll(
        app,
        &obama,
        &[photo("obama.jpg"), photo("obama2.jpg")],
        json!({}),
    )
    .await;
    assert!(
        faces.iter().all(|face| face["status"] == "enrolled"),
        "{faces:?}"
    );
    let faces = enroll(app, &biden, &[photo("biden.jpg")], json!({})).await;
    let of_biden = text(&faces[0]["enrollment_id"]);

    let answer = search(app, &staff, photo("obama3.jpg"), json!({"case": "door 7"})).await;
    assert_eq!(found(&answer), [id(&obama)]);
    assert_eq!(answer["decision"], "candidates_only");
    assert_fields!(answer, {"n_searched": 3, "index": {"kind": kind, "exact": kind == "exact"}});
    let candidate = &answer["candidates"][0];
    assert_fields!(candidate, {"rank": 1, "external_id": "44"});
    assert!(candidate["similarity"].as_f64() > answer["threshold"].as_f64());
    assert!(candidate["far"]["value"].as_f64() <= answer["far"]["value"].as_f64());
    let strangers = answer["expected_false_matches"].as_f64().unwrap();
    assert!((strangers / 3e-4 - 1.0).abs() < 0.01, "{answer}");
    assert!(!answer.to_string().contains("embedding"));
    let by_face = json!({"by": "face", "threshold": -1, "limit": 2});
    let answer = search(app, &staff, photo("obama3.jpg"), by_face).await;
    assert_eq!(found(&answer), [id(&obama), id(&obama)]);
    let all = json!({"threshold": -1, "exact": true});
    let answer = search(app, &staff, photo("obama3.jpg"), all).await;
    assert_eq!(answer["index"]["exact"], true);
    assert_eq!(found(&answer), [id(&obama), id(&biden)]);

    let faces = [
        photo("obama3.jpg"),
        json!({"data": "AAAA"}),
        photo("biden.jpg"),
    ];
    let body = json!({"faces": faces, "options": {"purpose": "entry control", "case": "door 7"}});
    let several = ok(app, "POST", &format!("{staff}/searches"), body).await;
    let [first, unreadable, last] = &several["results"].as_array().unwrap()[..] else {
        panic!("{several}");
    };
    assert_eq!(found(&first["found"]), [id(&obama)]);
    assert_eq!(found(&last["found"]), [id(&biden)]);
    assert_eq!(
        (&first["status"], &last["index"]),
        (&json!("ok"), &json!(2))
    );
    assert_fields!(unreadable, {"status": "error", "error": {"code": "unsupported_media_type"}});

    let recorded = read(app, &format!("{staff}/searches?limit=2")).await;
    assert_eq!(recorded["results"].as_array().unwrap().len(), 2);
    let cases = recorded["results"].as_array().unwrap().iter();
    let cases: Vec<&Value> = cases.map(|search| &search["details"]["case"]).collect();
    assert_eq!(cases, [&json!("door 7"), &json!("door 7")]);
    let next = format!("{staff}/searches?before={}", recorded["next"]);
    let older = read(app, &next).await;
    let first = &older["results"][2]["details"];
    assert_fields!(first, {"case": "door 7", "searched": 3});
    assert_eq!(first["candidates"].as_array().unwrap().len(), 1);

    let shown = read(app, &staff).await;
    assert_fields!(shown, {"subjects": 2, "enrollments": 3});
    let uri = format!("{staff}/subjects?external_id=44");
    let listed = read(app, &uri).await;
    assert_eq!(listed["results"][0]["metadata"], json!({"floor": 3}));
    assert_eq!(listed["results"].as_array().unwrap().len(), 1);
    let faces = read(app, &format!("{obama}/enrollments")).await;
    assert_eq!(faces["results"].as_array().unwrap().len(), 2);
    assert!(faces.get("next").is_none());
    let uri = format!("{obama}/enrollments?limit=1");
    let page = read(app, &uri).await;
    assert_eq!(page["results"], json!([faces["results"][0]]));
    let uri = format!("{uri}&after={}", text(&page["next"]));
    let page = read(app, &uri).await;
    assert_eq!(page, json!({"results": [faces["results"][1]]}));
    let uri = format!("{obama}/enrollments?after={}", id(&obama));
    let unknown = call(app, "GET", &uri, Value::Null).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);

    // Erased people are in no later response.
    let body = json!({"subject": id(&obama)});
    let report = ok(app, "POST", "/erasures", body).await;
    assert_fields!(report["erased"], {"subjects": 1, "enrollments": 2});
    let answer = search(app, &staff, photo("obama3.jpg"), json!({"threshold": -1})).await;
    assert_eq!(
        (found(&answer), &answer["n_searched"]),
        (vec![id(&biden)], &json!(1))
    );
    let gone = call(app, "GET", &obama, Value::Null).await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
    erase(app, &format!("{staff}/enrollments/{of_biden}")).await;
    let answer = search(app, &staff, photo("biden.jpg"), json!({"threshold": -1})).await;
    assert_eq!(found(&answer), [""; 0]);
    erase(app, &biden).await;
    erase(app, &staff).await;
    let body = search_body(photo("biden.jpg"), json!({}));
    let gone = call(app, "POST", &format!("{staff}/search"), body).await;
    gone.assert_error(404, "not_found");
}
