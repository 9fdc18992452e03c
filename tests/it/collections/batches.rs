//! Batches that search in a collection.

use facescan_config::scope::Scope;

use super::*;
use crate::{
    access::{LOCKED, key, send},
    batches::{as_lines, base64, id_of, item, items, post_with_key, process_all, submit},
};

fn options(collection: &str) -> Value {
    json!({"collection": id(collection), "purpose": "entry control", "case": "archive"})
}

fn batch(collection: &str, items: &[Value]) -> Value {
    json!({"operation": "search", "options": options(collection), "items": items})
}

/// Enrolls a photograph of a subject, and returns the address of the subject.
async fn enrolled(app: &TestApp, collection: &str, external_id: &str, photograph: &str) -> String {
    let person = subject(app, collection, json!({"external_id": external_id})).await;
    let faces = enroll(app, &person, &[photo(photograph)], json!({})).await;
    assert_eq!(faces[0]["status"], "enrolled");
    person
}

on_both!(a_batch_searches, |database: Database| async move {
    story(&TestApp::with_database(&database, &[ALLOWED]).await).await;
});

async fn story(app: &TestApp) {
    let staff = create(app, gallery("staff")).await;
    let obama = enrolled(app, &staff, "44", "obama.jpg").await;
    let biden = enrolled(app, &staff, "46", "biden.jpg").await;
    let flat = json!({"id": "flat", "data": base64(&crate::verify::flat_png())});
    let sent = [
        item("first", "obama2.jpg"),
        item("other", "biden.jpg"),
        item("again", "obama2.jpg"),
        flat,
    ];
    let created = submit(app, &batch(&staff, &sent)).await;
    let batch = id_of(&created);
    process_all(app).await;
    let [first, other, again, flat] = &items(app, &batch, "").await[..] else {
        panic!("four items were sent");
    };
    assert_eq!(
        (&first["state"], &other["state"]),
        (&json!("ok"), &json!("ok"))
    );
    assert_eq!(found(&first["result"]), [id(&obama)]);
    assert_eq!(found(&other["result"]), [id(&biden)]);
    assert_eq!(
        (&first["cached"], &again["cached"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(again["result"], first["result"]);
    assert_fields!(flat, {"state": "error", "error": {"code": "no_face"}});
    // The result is that of a search in a request.
    let mut expected = search(app, &staff, photo("obama2.jpg"), json!({})).await;
    expected["search_id"] = first["result"]["search_id"].clone();
    expected.as_object_mut().unwrap().remove("request_id");
    assert_eq!(first["result"], expected);

    // Equal images are one search.
    let uri = format!("{staff}/searches");
    let recorded = read(app, &uri).await;
    let cases = recorded["results"].as_array().unwrap().iter();
    let of_batch = cases.filter(|search| search["details"]["case"] == "archive");
    assert_eq!(of_batch.count(), 2);

    // An erased candidate is no longer in the result.
    erase(app, &obama).await;
    let left = items(app, &batch, "").await;
    assert_eq!(found(&left[0]["result"]), [""; 0]);
    assert_eq!(found(&left[1]["result"]), [id(&biden)]);
    assert_eq!(left[0]["result"]["n_searched"], 2);
    let stream = as_lines(app, &format!("/batches/{batch}/items")).await;
    assert!(!String::from_utf8_lossy(&stream.body).contains(&id(&obama)));

    // Nor is one who is suppressed by now.
    let banned = create(app, of_kind("suppression", "banned")).await;
    let objector = enrolled(app, &banned, "46", "biden.jpg").await;
    let left = items(app, &batch, "").await;
    assert_eq!(found(&left[1]["result"]), [""; 0]);
    erase(app, &objector).await;
    let left = items(app, &batch, "").await;
    assert_eq!(found(&left[1]["result"]), [id(&biden)]);
    erase(app, &staff).await;
    let left = items(app, &batch, "").await;
    assert_eq!(found(&left[1]["result"]), [""; 0]);
}

#[tokio::test]
async fn a_batch_is_refused_where_a_search_would_be() {
    let app = TestApp::with(&[ALLOWED]).await;
    let staff = create(&app, gallery("staff")).await;
    let banned = create(&app, of_kind("suppression", "banned")).await;
    let unknown = "/collections/0198f2c2-7d3e-7c41-9d3e-0a1b2c3d4e5f";
    let without = |name: &str| {
        let mut options = options(&staff);
        options.as_object_mut().unwrap().remove(name);
        options
    };
    let with = |name: &str, value: Value| {
        let mut options = options(&staff);
        options[name] = value;
        options
    };
    let another = json!("another");
    for (options, status, code) in [
        (without("collection"), 422, "invalid_option"),
        (without("purpose"), 422, "invalid_option"),
        (with("collection", json!("staff")), 422, "invalid_option"),
        (with("limit", json!(101)), 422, "invalid_option"),
        (with("far", json!(1e-9)), 422, "invalid_option"),
        (with("sort", json!(true)), 422, "invalid_option"),
        (with("purpose", another), 403, "purpose_not_allowed"),
        (options(unknown), 404, "not_found"),
        (options(&banned), 409, "conflict"),
    ] {
        let body = json!({"operation": "search", "options": &options, "items": []});
        let refused = call(&app, "POST", "/batches", body).await;
        refused.assert_error_of(options, status, code);
    }
}

#[tokio::test]
async fn a_batch_that_searches_needs_the_scope_search() {
    let app = TestApp::with(&[ALLOWED, LOCKED]).await;
    let all = key(&app, "default", &Scope::ALL).await;
    let only_batches = key(&app, "default", &[Scope::Batch]).await;
    let post = async |key: &str, uri: &str, body: &Value| {
        send(&app, key, ("POST", uri), body.to_string()).await
    };
    let created = post(&all, "/collections", &gallery("staff")).await.json();
    let staff = format!("/collections/{}", text(&created["id"]));
    let mut body = batch(&staff, &[item("one", "biden.jpg")]);
    body["open"] = json!(true);
    let created = post(&all, "/batches", &body).await;
    assert_eq!(created.status, StatusCode::ACCEPTED);
    let batch = format!("/batches/{}", text(&created.json()["id"]));
    let more = json!({"items": [item("two", "obama.jpg")]});
    let items = format!("{batch}/items");
    for (uri, body) in [
        ("/batches", &body),
        (&items, &more),
        (&format!("{batch}/retry"), &json!({})),
    ] {
        let refused = post(&only_batches, uri, body).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{uri}");
    }
    let foreign = key(&app, "other", &Scope::ALL).await;
    let unknown = post(&foreign, "/batches", &body).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    process_all(&app).await;
    let read = |key: String| {
        let (app, items) = (&app, &items);
        async move { send(app, &key, ("GET", items), "").await }
    };
    assert_eq!(read(only_batches).await.status, StatusCode::FORBIDDEN);
    let shown = read(all.clone()).await.json();
    assert_eq!(shown["results"].as_array().unwrap().len(), 1);
    assert_eq!(shown["results"][0]["state"], "ok");

    // Searches count for the key that submitted the batch, so another one cannot add to it.
    let another = key(&app, "default", &[Scope::Batch, Scope::Search]).await;
    for (uri, body) in [(&items, &more), (&format!("{batch}/retry"), &json!({}))] {
        let refused = post(&another, uri, body).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{uri}");
    }
    assert_eq!(read(another).await.status, StatusCode::OK);

    // The audit trail names that key.
    let recorded = send(&app, &all, ("GET", &format!("{staff}/searches")), "").await;
    let recorded = &recorded.json()["results"][0];
    let own = app.app.store.list_keys("default").await.unwrap();
    let own = own.iter().find(|it| it.scopes.len() == Scope::ALL.len());
    assert_eq!(text(&recorded["key_id"]), own.unwrap().id.to_string());
}

#[tokio::test]
async fn searches_of_a_batch_count_for_its_key() {
    let settings = [
        ALLOWED,
        ("FACESCAN__RECOGNITION__MAX_SEARCHES_PER_DAY", "2"),
        ("FACESCAN__BATCHES__MAX_ATTEMPTS", "1"),
        ("FACESCAN__BATCHES__IN_FLIGHT", "1"),
    ];
    let app = TestApp::with(&settings).await;
    let staff = create(&app, gallery("staff")).await;
    let sent = ["obama.jpg", "obama2.jpg", "biden.jpg"].map(|name| item(name, name));
    let created = submit(&app, &batch(&staff, &sent)).await;
    process_all(&app).await;
    let shown = items(&app, &id_of(&created), "").await;
    let states: Vec<&Value> = shown.iter().map(|item| &item["state"]).collect();
    assert_eq!(states, ["ok", "ok", "dead"]);
    assert_eq!(shown[2]["error"]["code"], "rate_limited");
    let body = search_body(photo("biden.jpg"), json!({}));
    let refused = call(&app, "POST", &format!("{staff}/search"), body).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
}

/// Without this, a key without the scope could name the batch of another one.
#[tokio::test]
async fn an_idempotency_key_belongs_to_one_operation() {
    let app = TestApp::with(&[ALLOWED]).await;
    let staff = create(&app, gallery("staff")).await;
    let search = batch(&staff, &[item("one", "biden.jpg")]);
    let created = post_with_key(&app, "one", &search).await;
    assert_eq!(created.status, StatusCode::ACCEPTED);
    let other = json!({"operation": "detect", "items": []});
    let other = post_with_key(&app, "one", &other).await;
    other.assert_error(409, "idempotency_conflict");
}
