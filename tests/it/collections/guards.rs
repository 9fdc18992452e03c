//! What keeps faces out of collections and people out of responses.

use axum::http::StatusCode;
use base64::{Engine, prelude::BASE64_STANDARD};
use facescan_config::scope::Scope;
use image::{ImageFormat, imageops::FilterType};
use serde_json::{Value, json};

use super::{
    ALLOWED, EVERY_THRESHOLD, call, create, enroll, erase, found, gallery, id, of_kind, ok, read,
    search, search_body, subject, text,
};
use crate::{
    access::{LOCKED, key},
    support::{
        app::{TestApp, encoded, image_file},
        database::{Database, on_sqlite},
        values::{assert_fields, photo},
    },
};

/// Returns a photograph at a width of 100 pixels.
fn small(name: &str) -> Value {
    let decoded = image::load_from_memory(&image_file(name)).unwrap();
    let small = decoded.resize(100, 1000, FilterType::Triangle);
    json!({"data": BASE64_STANDARD.encode(encoded(&small, ImageFormat::Png))})
}

async fn refused(app: &TestApp, method: &str, uri: &str, body: Value) -> (u16, String, String) {
    let reply = call(app, method, uri, body).await;
    let detail = text(&reply.json()["detail"]);
    (reply.status.as_u16(), reply.code(), detail)
}

#[tokio::test]
async fn without_a_purpose_nothing_can_be_enrolled() {
    let app = TestApp::start().await;
    let (status, code, detail) = refused(&app, "POST", "/collections", gallery("staff")).await;
    assert_eq!((status, code.as_str()), (403, "purpose_not_allowed"));
    assert!(detail.contains("recognition.purposes"), "{detail}");
}

#[tokio::test]
async fn the_terms_of_a_collection_are_checked() {
    let app = TestApp::with(&[ALLOWED]).await;
    let with = |field: &str, value: Value| {
        let mut body = gallery("staff");
        body[field] = value;
        body
    };
    for (field, value) in [
        ("retention_days", json!(0)),
        ("retention_days", json!(1096)),
        ("far", json!(1e-9)),
        ("name", json!("")),
        ("legal_basis", json!("x".repeat(201))),
    ] {
        let (status, code, detail) =
            refused(&app, "POST", "/collections", with(field, value)).await;
        assert_eq!((status, code.as_str()), (422, "invalid_option"), "{field}");
        assert!(detail.contains(field), "{detail}");
    }
    let staff = create(&app, gallery("staff")).await;
    let (status, code, _) = refused(&app, "POST", "/collections", gallery("staff")).await;
    assert_eq!((status, code.as_str()), (409, "conflict"));
    let change = json!({"retention_days": 7, "far": 0.001});
    let changed = ok(&app, "PATCH", &staff, change).await;
    assert_fields!(changed, {"retention_days": 7, "far": 0.001});
    let (status, code, _) = refused(&app, "PATCH", &staff, json!({"purpose": "another"})).await;
    assert_eq!((status, code.as_str()), (422, "invalid_option"));
    create(&app, gallery("visitors")).await;
    let (status, _, _) = refused(&app, "PATCH", &staff, json!({"name": "visitors"})).await;
    assert_eq!(status, 409);
    let listed = read(&app, "/collections?limit=1").await;
    let next = format!("/collections?after={}", text(&listed["next"]));
    let rest = read(&app, &next).await;
    assert_eq!(rest["results"][0]["name"], "visitors");
    assert!(rest.get("next").is_none());
}

#[tokio::test]
async fn a_search_needs_the_purpose_of_the_collection() {
    let app = TestApp::with(&[ALLOWED]).await;
    let staff = create(&app, gallery("staff")).await;
    let uri = format!("{staff}/search");
    let body = json!({"faces": [photo("obama.jpg")]});
    let (status, _, detail) = refused(&app, "POST", &uri, body).await;
    assert_eq!(status, 422);
    assert!(detail.contains("purpose"), "{detail}");
    let purpose = json!({"purpose": "finding photographs"});
    let other = search_body(photo("obama.jpg"), purpose);
    let (status, code, _) = refused(&app, "POST", &uri, other).await;
    assert_eq!((status, code.as_str()), (403, "purpose_not_allowed"));
    let two = json!({"faces": [photo("obama.jpg"), photo("biden.jpg")], "options": {"purpose": "entry control"}});
    let (status, _, _) = refused(&app, "POST", &uri, two).await;
    assert_eq!(status, 422);
    let foreign = json!({"embedding": vec![1.0; 128], "vector_space": "other"});
    let (status, code, _) = refused(&app, "POST", &uri, search_body(foreign, json!({}))).await;
    assert_eq!((status, code.as_str()), (409, "vector_space_mismatch"));
    for (options, option) in [
        (json!({"limit": 101}), "limit"),
        (json!({"far": 0.01, "threshold": 0.5}), "far"),
        (json!({"case": ""}), "case"),
    ] {
        let body = search_body(photo("obama.jpg"), options);
        let (status, _, detail) = refused(&app, "POST", &uri, body).await;
        assert_eq!(status, 422, "{option}");
        assert!(detail.contains(option), "{detail}");
    }
}

#[tokio::test]
async fn faces_that_are_not_good_enough_are_rejected() {
    let app = TestApp::with(&[ALLOWED]).await;
    let staff = create(&app, gallery("staff")).await;
    let person = subject(&app, &staff, json!({})).await;
    let group = photo("t1.jpg");
    let broken = json!({"data": "AAAA"});
    let foreign = json!({"embedding": vec![1.0; 128], "vector_space": "other"});
    let faces = [
        group.clone(),
        broken.clone(),
        foreign.clone(),
        photo("obama.jpg"),
    ];
    let outcomes = enroll(&app, &person, &faces, json!({})).await;
    let reasons: Vec<&Value> = outcomes.iter().map(|face| &face["reason"]).collect();
    let told = json!(["several_faces", "image", "vector_space_mismatch", null]);
    assert_eq!(json!(reasons), told);
    assert_eq!(outcomes[0]["faces"], 6);
    let two = [small("obama.jpg"), small("obama.jpg")];
    let outcomes = enroll(&app, &person, &two, json!({})).await;
    assert_eq!(outcomes[0]["reason"], "low_quality", "{outcomes:?}");
    let reasons = outcomes[0]["quality"].as_array().unwrap();
    assert!(reasons.contains(&json!("face_too_small")), "{reasons:?}");
    // The rejection of the only face is the error of the request.
    for (face, status, code, named) in [
        (small("obama.jpg"), 422, "low_quality", "face_too_small"),
        (group.clone(), 422, "several_faces", "face=largest"),
        (broken, 415, "unsupported_media_type", "jpeg"),
        (foreign, 409, "vector_space_mismatch", "vector space"),
    ] {
        let uri = format!("{person}/enrollments");
        let refused = refused(&app, "POST", &uri, json!({"faces": [face]})).await;
        assert_eq!((refused.0, refused.1.as_str()), (status, code));
        assert!(refused.2.contains(named), "{}", refused.2);
    }
    let lenient = json!({"allow_low_quality": true});
    let outcomes = enroll(&app, &person, &[small("obama.jpg")], lenient).await;
    assert_eq!(outcomes[0]["status"], "enrolled", "{outcomes:?}");
    let largest = json!({"face": "largest"});
    let outcomes = enroll(&app, &person, &[group], largest).await;
    assert_eq!(outcomes[0]["status"], "enrolled", "{outcomes:?}");

    // A face of another subject of the collection.
    let twin = subject(&app, &staff, json!({})).await;
    let two = [photo("obama2.jpg"), photo("obama2.jpg")];
    let outcomes = enroll(&app, &twin, &two, json!({})).await;
    assert_eq!(outcomes[0]["reason"], "conflict");
    assert_eq!(outcomes[0]["subject_id"], id(&person));
    let allowed = json!({"allow_conflicts": true});
    let outcomes = enroll(&app, &twin, &[photo("obama2.jpg")], allowed).await;
    assert_eq!(outcomes[0]["status"], "enrolled");
    let uri = format!("{twin}/enrollments");
    let body = json!({"faces": [photo("obama3.jpg")]});
    let (status, code, detail) = refused(&app, "POST", &uri, body).await;
    assert_eq!((status, code.as_str()), (409, "conflict"));
    assert!(
        detail.contains(&id(&person)),
        "the other subject is similar too: {detail}"
    );
}

#[tokio::test]
async fn a_suppressed_person_is_neither_enrolled_nor_found() {
    let app = TestApp::with(&[ALLOWED, EVERY_THRESHOLD]).await;
    let staff = create(&app, gallery("staff")).await;
    let obama = subject(&app, &staff, json!({})).await;
    enroll(&app, &obama, &[photo("obama.jpg")], json!({})).await;
    let biden = subject(&app, &staff, json!({})).await;
    enroll(&app, &biden, &[photo("biden.jpg")], json!({})).await;

    let objections = create(&app, of_kind("suppression", "objections")).await;
    let body = search_body(photo("obama.jpg"), json!({}));
    let (status, code, _) = refused(&app, "POST", &format!("{objections}/search"), body).await;
    assert_eq!((status, code.as_str()), (409, "conflict"));
    let objector = subject(&app, &objections, json!({})).await;
    let outcomes = enroll(&app, &objector, &[photo("obama2.jpg")], json!({})).await;
    assert_eq!(outcomes[0]["status"], "enrolled");

    let two = [photo("obama3.jpg"), photo("obama3.jpg")];
    let outcomes = enroll(&app, &obama, &two, json!({})).await;
    assert_eq!(outcomes[0]["reason"], "suppressed");
    let everyone = || json!({"threshold": -1});
    let answer = search(&app, &staff, photo("obama3.jpg"), everyone()).await;
    assert!(
        found(&answer).is_empty(),
        "the person is suppressed: {answer}"
    );
    let answer = search(&app, &staff, photo("biden.jpg"), everyone()).await;
    assert_eq!(
        found(&answer),
        [id(&biden)],
        "the other candidate is suppressed"
    );
    erase(&app, &objector).await;
    let answer = search(&app, &staff, photo("biden.jpg"), everyone()).await;
    assert_eq!(found(&answer), [id(&biden), id(&obama)]);
}

#[tokio::test]
async fn consent_that_is_required_must_be_valid() {
    let app = TestApp::with(&[ALLOWED]).await;
    let mut body = gallery("staff");
    body["consent_required"] = json!(true);
    let staff = create(&app, body).await;
    let person = subject(&app, &staff, json!({"external_id": "7"})).await;
    let faces = json!({"faces": [photo("obama.jpg")]});
    let uri = format!("{person}/enrollments");
    let (status, code, detail) = refused(&app, "POST", &uri, faces.clone()).await;
    assert_eq!((status, code.as_str()), (409, "conflict"));
    assert!(detail.contains("consent"), "{detail}");
    let consent = |until: &str| json!({"consent": {"reference": "form 3", "given_at": "2020-01-01T00:00:00Z", "expires_at": until}});
    let (status, _, _) = refused(&app, "PATCH", &person, consent("2019-01-01T00:00:00Z")).await;
    assert_eq!(status, 422);
    let changed = ok(&app, "PATCH", &person, consent("2099-01-01T00:00:00Z")).await;
    assert_eq!(changed["external_id"], "7", "fields that are absent stay");
    ok(&app, "POST", &uri, faces).await;
    let answer = search(&app, &staff, photo("obama2.jpg"), json!({})).await;
    assert_eq!(found(&answer), [id(&person)]);
    // Withdrawn: the person is in no response from now on.
    ok(&app, "PATCH", &person, json!({"consent": null})).await;
    let answer = search(&app, &staff, photo("obama2.jpg"), json!({})).await;
    assert!(found(&answer).is_empty());
    let shown = read(&app, &staff).await;
    assert_fields!(shown, {"subjects": 1, "enrollments": 0});
}

/// A search is recorded at every level, and refused if it cannot be recorded.
#[tokio::test]
async fn no_search_is_unrecorded() {
    let app = TestApp::with(&[ALLOWED, ("FACESCAN__AUDIT__LEVEL", "off")]).await;
    let staff = create(&app, gallery("staff")).await;
    search(&app, &staff, photo("obama.jpg"), json!({"case": "7"})).await;
    let recorded = read(&app, &format!("{staff}/searches")).await;
    assert_eq!(recorded["results"][0]["details"]["case"], "7");
    assert_eq!(recorded["results"].as_array().unwrap().len(), 1);

    let broken = "ALTER TABLE audit_entries RENAME TO audit_entries_away";
    app.database().execute(broken).await;
    let body = search_body(photo("obama.jpg"), json!({}));
    let (status, code, _) = refused(&app, "POST", &format!("{staff}/search"), body).await;
    assert_eq!((status, code.as_str()), (503, "audit_unavailable"));
}

/// A key that may only enroll does not learn who is similar.
#[tokio::test]
async fn a_conflict_names_nobody_to_a_key_that_may_not_search() {
    let app = TestApp::with(&[ALLOWED, LOCKED]).await;
    let all = key(&app, "default", &Scope::ALL).await;
    let enrolls = key(&app, "default", &[Scope::Enroll]).await;
    let send = async |key: &str, uri: &str, body: Value| {
        let sent = crate::access::send(&app, key, ("POST", uri), body.to_string()).await;
        sent.json()
    };
    let created = send(&enrolls, "/collections", gallery("staff")).await;
    let subjects = format!("/collections/{}/subjects", text(&created["id"]));
    let mut faces = Vec::new();
    for _ in 0..2 {
        let created = send(&enrolls, &subjects, json!({})).await;
        faces.push(format!("{subjects}/{}/enrollments", text(&created["id"])));
    }
    let body = json!({"faces": [photo("obama.jpg"), photo("obama.jpg")]});
    send(&enrolls, &faces[0], body.clone()).await;
    let hidden = send(&enrolls, &faces[1], body.clone()).await["results"][0].clone();
    assert_eq!(hidden, json!({"status": "rejected", "reason": "conflict"}));
    // Nor whether the person has objected.
    let objections = of_kind("suppression", "objections");
    let created = send(&enrolls, "/collections", objections).await;
    let objectors = format!("/collections/{}/subjects", text(&created["id"]));
    let created = send(&enrolls, &objectors, json!({})).await;
    let objector = format!("{objectors}/{}/enrollments", text(&created["id"]));
    let biden = json!({"faces": [photo("biden.jpg"), photo("biden.jpg")]});
    send(&enrolls, &objector, biden.clone()).await;
    assert_eq!(
        send(&enrolls, &faces[1], biden.clone()).await["results"][0],
        hidden
    );
    let known = send(&all, &faces[1], biden).await["results"][0].clone();
    assert_eq!(known["reason"], "suppressed");
    let shown = send(&all, &faces[1], body).await["results"][0].clone();
    assert!(shown["subject_id"].is_string() && shown["similarity"].as_f64() > Some(0.99));
}

#[tokio::test]
async fn stored_faces_need_the_scope_read() {
    let app = TestApp::with(&[ALLOWED, LOCKED]).await;
    let all = key(&app, "default", &Scope::ALL).await;
    let send = async |key: &str, uri: &str, body: Value| {
        crate::access::send(&app, key, ("POST", uri), body.to_string()).await
    };
    let body = json!({"images": [photo("obama.jpg")]});
    let scan = send(&all, "/embed?store=true", body).await;
    let face = json!({"face_id": scan.result()["faces"][0]["face_id"]});
    let created = send(&all, "/collections", gallery("staff")).await.json();
    let staff = format!("/collections/{}", text(&created["id"]));
    let subjects = format!("{staff}/subjects");
    let created = send(&all, &subjects, json!({})).await.json();
    let faces = format!("{subjects}/{}/enrollments", text(&created["id"]));
    let enrolled = send(&all, &faces, json!({"faces": [face]})).await;
    assert_eq!(enrolled.json()["results"][0]["status"], "enrolled");
    let search = format!("{staff}/search");
    for (scope, uri, body) in [
        (Scope::Enroll, &faces, json!({"faces": [face]})),
        (Scope::Search, &search, search_body(face.clone(), json!({}))),
    ] {
        let own = key(&app, "default", &[scope]).await;
        let refused = send(&own, uri, body.clone()).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{uri}");
        let own = key(&app, "default", &[scope, Scope::Read]).await;
        assert_eq!(send(&own, uri, body).await.status, StatusCode::OK, "{uri}");
    }
}

/// The audit trail counts the searches, so the limit also holds after a restart and for other servers.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_can_search_only_so_often_in_a_day() {
    on_sqlite(|database: Database| async move {
        let settings = [
            ALLOWED,
            ("FACESCAN__RECOGNITION__MAX_SEARCHES_PER_DAY", "2"),
        ];
        let app = TestApp::with_database(&database, &settings).await;
        let staff = create(&app, gallery("staff")).await;
        let uri = format!("{staff}/search");
        let body = || search_body(photo("biden.jpg"), json!({}));
        ok(&app, "POST", &uri, body()).await;
        let mut two = body();
        two["faces"] = json!([photo("biden.jpg"), photo("obama.jpg")]);
        let refused = call(&app, "POST", &format!("{staff}/searches"), two).await;
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        let wrong = search_body(photo("biden.jpg"), json!({"purpose": "another"}));
        let refused = call(&app, "POST", &uri, wrong).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "this is no search");
        ok(&app, "POST", &uri, body()).await;
        let restarted = TestApp::with_database(&database, &settings).await;
        for app in [&app, &restarted] {
            let refused = call(app, "POST", &uri, body()).await;
            refused.assert_error(429, "rate_limited");
            let wait = refused.headers["retry-after"].to_str().unwrap();
            let wait: u32 = wait.parse().unwrap();
            assert!((86_000..=86_460).contains(&wait), "{wait}");
        }
    })
    .await;
}
