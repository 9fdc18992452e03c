//! What searches and enrollments tell of the vectors of enrolled faces, and how often.

use axum::http::StatusCode;
use facescan_config::scope::Scope;
use serde_json::{Value, json};

use super::{
    ALLOWED, call, create, enroll, found, gallery, id, of_kind, ok, search, search_body, subject,
    text,
};
use crate::{
    access::{LOCKED, key, send},
    support::{
        app::TestApp,
        database::{Database, on_both},
        values::photo,
    },
};

/// A vector along one axis, whose cosines are components of other vectors.
fn axis(app: &TestApp, number: usize) -> Value {
    let embedder = &app.app.pipeline.models.embedder;
    let mut values = vec![0.0; 128];
    values[number] = 1.0;
    json!({"embedding": values, "vector_space": embedder.vector_space})
}

#[tokio::test]
async fn vectors_and_aligned_crops_need_a_scope_of_their_own() {
    let app = TestApp::with(&[ALLOWED, LOCKED]).await;
    let all = key(&app, "default", &Scope::ALL).await;
    let most: Vec<Scope> = Scope::ALL
        .into_iter()
        .filter(|scope| *scope != Scope::SearchVectors)
        .collect();
    let most = key(&app, "default", &most).await;
    let post = async |key: &str, uri: &str, body: &Value| {
        send(&app, key, ("POST", uri), body.to_string()).await
    };
    let new = async |uri: &str, body: Value| {
        let created = post(&all, uri, &body).await.json();
        format!("{uri}/{}", text(&created["id"]))
    };
    let staff = new("/collections", gallery("staff")).await;
    let library = new("/collections", of_kind("library", "archive")).await;
    let person = new(&format!("{staff}/subjects"), json!({})).await;

    let body = json!({"images": [photo("obama.jpg")], "options": {"crops": true}});
    let scan = post(&all, "/embed?store=false", &body).await.result();
    let pixels = json!({"data": scan["faces"][0]["crop"]});
    let vector = json!({"faces": [axis(&app, 7)]});
    let crop = json!({"faces": [pixels], "options": {"aligned": true}});
    let mut requests = Vec::new();
    for body in [vector, crop] {
        let mut searched = body.clone();
        searched["options"]["purpose"] = json!("entry control");
        requests.push((format!("{staff}/search"), searched.clone()));
        requests.push((format!("{staff}/searches"), searched.clone()));
        requests.push((format!("{library}/search"), searched));
        requests.push((format!("{person}/enrollments"), body.clone()));
        requests.push((format!("{library}/enrollments"), body));
    }
    // A stored face that came from a crop is no way around it.
    let uri = "/embed?store=true&aligned=true";
    let stored = post(&most, uri, &json!({"images": [pixels]})).await;
    let stored = json!({"face_id": stored.result()["faces"][0]["face_id"]});
    let options = json!({"purpose": "entry control"});
    let body = search_body(stored.clone(), options);
    requests.push((format!("{staff}/search"), body));
    requests.push((format!("{person}/enrollments"), json!({"faces": [stored]})));
    let collection = id(&staff);
    let options = json!({"collection": collection, "purpose": "entry control", "aligned": true});
    let batch = json!({"operation": "search", "options": options, "items": []});
    requests.push(("/batches".to_owned(), batch));
    for (uri, body) in &requests {
        let refused = post(&most, uri, body).await;
        refused.assert_error_of(format!("{uri} {body}"), 403, "forbidden");
        let detail = refused.json()["detail"].to_string();
        assert!(detail.contains("search_vectors"), "{detail}");
        let allowed = post(&all, uri, body).await;
        assert_ne!(allowed.status, StatusCode::FORBIDDEN, "{uri}");
    }
    // Nothing was searched for with the first key.
    let listed = send(&app, &all, ("GET", &format!("{staff}/searches")), "").await;
    let recorded = listed.json()["results"].as_array().unwrap().len();
    // Searches for the vector, the crop and the stored face; /search for the vector and /searches for both.
    assert_eq!(recorded, 5);
}

#[tokio::test]
async fn a_threshold_below_the_floor_is_refused_with_the_floor() {
    let app = TestApp::with(&[ALLOWED]).await;
    let staff = create(&app, gallery("staff")).await;
    let library = create(&app, of_kind("library", "archive")).await;
    let search = |options: Value| search_body(photo("obama.jpg"), options);
    let mut patch = gallery("loose");
    patch["far"] = json!(0.05);
    let threshold = |threshold: f64| search(json!({"threshold": threshold}));
    let far = |far: f64| search(json!({"far": far}));
    let batch = json!({"operation": "search", "items": [], "options":
        {"collection": id(&staff), "purpose": "entry control", "threshold": -1}});
    let (least, most, to) = ("at least 0.31", "at most 0.01", "to 0.01");
    for (method, uri, body, part) in [
        ("POST", &*format!("{staff}/search"), threshold(-1.0), least),
        ("POST", &format!("{staff}/search"), threshold(0.3), least),
        ("POST", &format!("{staff}/searches"), threshold(0.0), least),
        ("POST", &format!("{library}/search"), threshold(0.0), least),
        ("POST", &format!("{staff}/search"), far(0.05), most),
        ("POST", &format!("{staff}/search"), far(0.02), most),
        ("PATCH", &staff, json!({"far": 0.05}), to),
        ("POST", "/collections", patch, to),
        (
            "POST",
            &format!("{library}/clusterings"),
            json!({"far": 0.05}),
            to,
        ),
        ("POST", "/batches", batch, least),
    ] {
        let refused = call(&app, method, uri, body).await;
        refused.assert_error_of(uri, 422, "invalid_option");
        let detail = text(&refused.json()["detail"]);
        let is_told = detail.contains(part) && detail.contains("max_search_far");
        assert!(is_told, "{detail}");
    }
    for options in [json!({"threshold": 0.31}), json!({"far": 0.01}), json!({})] {
        ok(&app, "POST", &format!("{staff}/search"), search(options)).await;
    }
}

/// Neither close thresholds nor the order of candidates tell more than a hundredth.
#[tokio::test]
async fn similarities_and_thresholds_are_hundredths() {
    let app = TestApp::with(&[ALLOWED]).await;
    let staff = create(&app, gallery("staff")).await;
    let obama = subject(&app, &staff, json!({})).await;
    enroll(&app, &obama, &[photo("obama2.jpg")], json!({})).await;
    let answer = search(&app, &staff, photo("obama.jpg"), json!({})).await;
    let hundredths = |value: &Value| {
        let hundredths = value.as_f64().unwrap() * 100.0;
        assert!((hundredths - hundredths.round()).abs() < 1e-4, "{value}");
        hundredths.round() as i32
    };
    let similarity = hundredths(&answer["candidates"][0]["similarity"]);
    assert!(similarity > hundredths(&answer["threshold"]));
    for thousandths in [-9, -1, 0, 1, 4, 9] {
        let is_found = thousandths <= 0;
        let threshold = f64::from(similarity * 10 + thousandths) / 1000.0;
        let options = json!({"threshold": threshold});
        let close = search(&app, &staff, photo("obama.jpg"), options).await;
        assert_eq!(!found(&close).is_empty(), is_found, "{threshold}");
        let used = hundredths(&close["threshold"]);
        assert_eq!(used > similarity, !is_found, "{threshold}");
    }
    // The one that was enrolled first comes first, although another one is as similar.
    let twin = subject(&app, &staff, json!({})).await;
    let allowed = json!({"allow_conflicts": true});
    enroll(&app, &twin, &[photo("obama2.jpg")], allowed).await;
    let answer = search(&app, &staff, photo("obama.jpg"), json!({"limit": 1})).await;
    assert_eq!(found(&answer), [id(&obama)]);
}

/// Every face that an enrollment compares with other people is a search of the key.
#[tokio::test]
async fn enrollments_that_compare_faces_use_up_the_searches() {
    let settings = [
        ALLOWED,
        LOCKED,
        ("FACESCAN__RECOGNITION__MAX_SEARCHES_PER_DAY", "3"),
        ("FACESCAN__AUDIT__LEVEL", "off"),
    ];
    let app = TestApp::with(&settings).await;
    let enrolls = key(&app, "default", &[Scope::Enroll]).await;
    let post =
        async |uri: &str, body: Value| send(&app, &enrolls, ("POST", uri), body.to_string()).await;
    let created = post("/collections", gallery("staff")).await.json();
    let subjects = format!("/collections/{}/subjects", text(&created["id"]));
    let created = post(&subjects, json!({})).await.json();
    let faces = format!("{subjects}/{}/enrollments", text(&created["id"]));
    let two = json!({"faces": [photo("obama.jpg"), photo("obama2.jpg")]});
    assert_eq!(post(&faces, two.clone()).await.status, StatusCode::OK);
    let refused = post(&faces, two.clone()).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "one is left");
    let one = json!({"faces": [photo("obama3.jpg")]});
    assert_eq!(post(&faces, one.clone()).await.status, StatusCode::OK);
    let refused = post(&faces, one.clone()).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    // Nobody is compared, so nothing is told.
    let mut unchecked = two.clone();
    unchecked["options"] = json!({"allow_conflicts": true});
    assert_eq!(post(&faces, unchecked.clone()).await.status, StatusCode::OK);
    // With a suppression collection, these are compared too, and faces of libraries.
    let objections = of_kind("suppression", "objections");
    let created = post("/collections", objections).await.json();
    let objectors = format!("/collections/{}/subjects", text(&created["id"]));
    let created = post(&objectors, json!({})).await.json();
    let objector = format!("{objectors}/{}/enrollments", text(&created["id"]));
    assert_eq!(post(&objector, one.clone()).await.status, StatusCode::OK);
    let refused = post(&faces, unchecked).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    let library = of_kind("library", "archive");
    let created = post("/collections", library).await.json();
    let library = format!("/collections/{}/enrollments", text(&created["id"]));
    let refused = post(&library, one).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    // They are recorded as searches are: at every level.
    let entries = app.app.store.audit_entries("default", 0, 10).await;
    let entries = entries.unwrap();
    let searches = entries.iter().map(|entry| {
        assert_eq!(entry.entry.action, "enroll");
        let details: Value = serde_json::from_str(&entry.entry.details).unwrap();
        details["searches"].as_u64().unwrap()
    });
    assert_eq!(searches.collect::<Vec<_>>(), [2, 1]);
}

on_both!(
    searches_at_the_same_moment_do_not_exceed_the_limit,
    searches_at_the_same_moment
);

async fn searches_at_the_same_moment(database: Database) {
    let limit = ("FACESCAN__RECOGNITION__MAX_SEARCHES_PER_DAY", "5");
    let app = TestApp::with_database(&database, &[ALLOWED, limit]).await;
    let staff = create(&app, gallery("staff")).await;
    let uri = format!("{staff}/search");
    let searches = (0..12).map(|number| {
        let body = search_body(axis(&app, number), json!({}));
        call(&app, "POST", &uri, body)
    });
    let replies = futures::future::join_all(searches).await;
    let count = |status| {
        replies
            .iter()
            .filter(|reply| reply.status == status)
            .count()
    };
    assert_eq!(
        (count(StatusCode::OK), count(StatusCode::TOO_MANY_REQUESTS)),
        (5, 7)
    );
}
