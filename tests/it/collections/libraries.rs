//! Libraries over HTTP: faces are grouped into people, and no clustering changes what a user decided.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{
    ALLOWED, call, commands::write, create, erase, gallery, id, of_kind, ok, read, search, text,
};
use crate::support::{
    app::TestApp,
    cli::facescan,
    database::{Database, on_both},
    values::{assert_fields, lines, photo},
};

fn library(name: &str) -> Value {
    of_kind("library", name)
}

/// Enrolls faces in a library and returns the ids of those that were enrolled.
async fn add(app: &TestApp, library: &str, faces: &[Value]) -> Vec<String> {
    let body = json!({ "faces": faces });
    let answer = ok(app, "POST", &format!("{library}/enrollments"), body).await;
    let entries = answer["results"].as_array().unwrap();
    assert_eq!(entries.len(), faces.len());
    let faces = entries
        .iter()
        .flat_map(|entry| entry["faces"].as_array().unwrap());
    faces.map(|face| text(&face["enrollment_id"])).collect()
}

/// Groups the faces of a library, and returns the clustering.
async fn cluster(app: &TestApp, library: &str, body: Value) -> Value {
    let clusterings = format!("{library}/clusterings");
    let requested = call(app, "POST", &clusterings, body).await;
    assert_eq!(requested.status, StatusCode::ACCEPTED);
    let requested = requested.json();
    assert_eq!(requested["state"], "queued");
    assert!(app.app.collections.cluster_once().await.unwrap());
    let uri = format!("{clusterings}/{}", text(&requested["id"]));
    let done = read(app, &uri).await;
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(done["compared"], done["faces"]);
    done
}

/// Returns the people of a library.
async fn people(app: &TestApp, library: &str) -> Vec<Value> {
    let answer = read(app, &format!("{library}/people")).await;
    answer["results"].as_array().unwrap().clone()
}

/// Returns the person of an enrolled face, and whether the face is pinned.
async fn person_of(app: &TestApp, library: &str, face: &str) -> (Option<String>, bool) {
    let answer = read(app, &format!("{library}/enrollments")).await;
    let faces = answer["results"].as_array().unwrap();
    let face = faces.iter().find(|it| it["id"] == face).unwrap();
    let person = face["person_id"].as_str();
    (person.map(ToOwned::to_owned), face["pinned"] == true)
}

on_both!(
    faces_become_people_who_stay,
    |database: Database| async move {
        story(&TestApp::with_database(&database, &[ALLOWED]).await).await;
    }
);

async fn story(app: &TestApp) {
    let archive = create(app, library("archive")).await;
    let obamas = [photo("obama.jpg"), photo("obama2.jpg"), photo("obama3.jpg")];
    let obamas = add(app, &archive, &obamas).await;
    let biden = add(app, &archive, &[photo("biden.jpg")]).await;
    let group = add(app, &archive, &[photo("t1.jpg")]).await;
    assert_eq!((obamas.len(), biden.len(), group.len()), (3, 1, 6));

    let done = cluster(app, &archive, json!({})).await;
    assert_fields!(done, {"faces": 10, "people": 1, "unassigned": 7, "moved": 0});
    let found = people(app, &archive).await;
    assert_eq!((found.len(), &found[0]["faces"]), (1, &json!(3)));
    let person = text(&found[0]["id"]);
    for face in &obamas {
        assert_eq!(
            person_of(app, &archive, face).await,
            (Some(person.clone()), false)
        );
    }
    let uri = format!("{archive}/people/{person}");
    let named = ok(app, "PATCH", &uri, json!({"name": "the president"})).await;
    assert_eq!(named["name"], "the president");
    let answer = search(app, &archive, photo("obama.jpg"), json!({})).await;
    assert_eq!(answer["candidates"].as_array().unwrap().len(), 1);
    assert_eq!(answer["candidates"][0]["person_id"], json!(person));
    assert!(answer["candidates"][0].get("subject_id").is_none());

    new_faces_join(app, &archive, &person).await;
    decisions_stay(app, &archive, (&person, &obamas)).await;
    erased_faces_leave(app, &archive, (&person, &obamas)).await;
}

/// A new face joins its person, and the person keeps the name.
async fn new_faces_join(app: &TestApp, archive: &str, person: &str) {
    let again = add(app, archive, &[photo("obama2.jpg")]).await;
    let before = person_of(app, archive, &again[0]).await;
    assert_eq!(before, (None, false));
    let done = cluster(app, archive, json!({})).await;
    assert_fields!(done, {"people": 1, "moved": 0});
    let after = person_of(app, archive, &again[0]).await;
    assert_eq!(after, (Some(person.to_owned()), false));
    let uri = format!("{archive}/people/{person}");
    let shown = read(app, &uri).await;
    assert_fields!(shown, {"name": "the president", "faces": 4});
    let uri = format!("{archive}/enrollments?person={person}");
    let of_person = read(app, &uri).await;
    assert_eq!(of_person["results"].as_array().unwrap().len(), 4);
    let uri = format!("{archive}/enrollments/{}", again[0]);
    erase(app, &uri).await;
}

/// Splits, merges and single decisions stay when all faces are grouped again.
async fn decisions_stay(app: &TestApp, archive: &str, (person, faces): (&str, &[String])) {
    let full = json!({"full": true});
    let uri = format!("{archive}/people/{person}/split");
    let other = ok(app, "POST", &uri, json!({"faces": [faces[2]]})).await;
    let other = text(&other["id"]);
    cluster(app, archive, full.clone()).await;
    let moved = person_of(app, archive, &faces[2]).await;
    assert_eq!(moved, (Some(other.clone()), true));
    let stayed = person_of(app, archive, &faces[0]).await;
    assert_eq!(stayed, (Some(person.to_owned()), true));

    let body = json!({"into": person, "people": [other]});
    let merged = ok(app, "POST", &format!("{archive}/people/merge"), body).await;
    assert_fields!(merged, {"name": "the president", "faces": 3});
    assert_eq!(people(app, archive).await.len(), 1);
    let uri = format!("{archive}/people/{other}");
    let gone = call(app, "GET", &uri, Value::Null).await;
    gone.assert_error(404, "not_found");

    let uri = format!("{archive}/enrollments/{}/person", faces[1]);
    ok(app, "PUT", &uri, json!({"person_id": null})).await;
    cluster(app, archive, full.clone()).await;
    assert_eq!(person_of(app, archive, &faces[1]).await, (None, true));
    erase(app, &uri).await;
    assert_eq!(person_of(app, archive, &faces[1]).await, (None, false));
    cluster(app, archive, full).await;
    let again = person_of(app, archive, &faces[1]).await;
    assert_eq!(again, (Some(person.to_owned()), false));
}

/// An erased face is in no person, and a person without faces is deleted.
async fn erased_faces_leave(app: &TestApp, archive: &str, (person, faces): (&str, &[String])) {
    let uri = format!("{archive}/people/{person}");
    for (face, left) in faces.iter().zip([2, 1]) {
        erase(app, &format!("{archive}/enrollments/{face}")).await;
        let shown = read(app, &uri).await;
        assert_eq!(shown["faces"], json!(left));
    }
    let last = format!("{archive}/enrollments/{}", faces[2]);
    erase(app, &last).await;
    let gone = call(app, "GET", &uri, Value::Null).await;
    gone.assert_error(404, "not_found");
    a_person_is_erased_with_all_faces(app, archive).await;
    erase(app, archive).await;
    let gone = call(app, "GET", &format!("{archive}/people"), Value::Null).await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
}

async fn a_person_is_erased_with_all_faces(app: &TestApp, archive: &str) {
    let obamas = [photo("obama.jpg"), photo("obama2.jpg")];
    add(app, archive, &obamas).await;
    cluster(app, archive, json!({})).await;
    let person = text(&people(app, archive).await[0]["id"]);
    let before = search(app, archive, photo("obama3.jpg"), json!({})).await;
    assert_eq!(before["candidates"][0]["person_id"], json!(person));
    let report = ok(app, "POST", "/erasures", json!({"person": person})).await;
    assert_eq!(report["erased"]["enrollments"], 2);
    let after = search(app, archive, photo("obama3.jpg"), json!({})).await;
    assert_eq!(after["candidates"], json!([]));
    assert_eq!(people(app, archive).await, [] as [Value; 0]);
    add(app, archive, &obamas).await;
    cluster(app, archive, json!({})).await;
    let person = text(&people(app, archive).await[0]["id"]);
    let uri = format!("{archive}/people/{person}");
    for status in [StatusCode::NO_CONTENT, StatusCode::NOT_FOUND] {
        assert_eq!(call(app, "DELETE", &uri, Value::Null).await.status, status);
    }
    // The faces of nobody stay.
    let faces = read(app, &format!("{archive}/enrollments")).await;
    assert_eq!(faces["results"].as_array().unwrap().len(), 7);
}

/// A clustering that is cancelled changes nobody, whether or not a server has begun it.
#[tokio::test(flavor = "multi_thread")]
async fn a_clustering_is_cancelled() {
    let app = TestApp::with(&[ALLOWED]).await;
    let archive = create(&app, library("archive")).await;
    add(&app, &archive, &[photo("obama.jpg"), photo("obama2.jpg")]).await;
    let clusterings = format!("{archive}/clusterings");
    let requested = ok(&app, "POST", &clusterings, json!({})).await;
    let cancel = format!("{clusterings}/{}/cancel", text(&requested["id"]));
    let cancelled = ok(&app, "POST", &cancel, Value::Null).await;
    assert_eq!(cancelled["state"], "cancelled");
    assert!(cancelled["finished_at"].is_string(), "{cancelled}");
    assert!(!app.app.collections.cluster_once().await.unwrap());
    assert_eq!(ok(&app, "POST", &cancel, Value::Null).await, cancelled);
    assert_eq!(people(&app, &archive).await.len(), 0);

    let done = cluster(&app, &archive, json!({})).await;
    let cancel = format!("{clusterings}/{}/cancel", text(&done["id"]));
    assert_eq!(ok(&app, "POST", &cancel, Value::Null).await, done);
    assert_eq!(people(&app, &archive).await.len(), 1);
    let unknown = format!("{clusterings}/{}/cancel", id(&archive));
    let unknown = call(&app, "POST", &unknown, Value::Null).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_library_refuses() {
    let app = TestApp::with(&[ALLOWED]).await;
    let mut with_consent = library("consent");
    with_consent["consent_required"] = json!(true);
    let refused = call(&app, "POST", "/collections", with_consent).await;
    refused.assert_error(422, "invalid_option");

    let archive = create(&app, library("archive")).await;
    let staff = create(&app, gallery("staff")).await;
    let (person, face) = (id(&staff), id(&archive));
    let merge = |people: &str| json!({"into": person, "people": [people]});
    let split = format!("people/{person}/split");
    for (method, path, body, status) in [
        ("POST", "subjects", json!({}), 409),
        ("POST", "clusterings", json!({"min_faces": 0}), 422),
        ("POST", "clusterings", json!({"far": 0.5}), 422),
        ("GET", &format!("clusterings/{person}"), Value::Null, 404),
        ("POST", "people/merge", merge(&face), 404),
        ("POST", "people/merge", merge(&person), 422),
        ("POST", &split, json!({"faces": []}), 422),
        ("POST", &split, json!({"faces": [face]}), 404),
        ("PATCH", &format!("people/{person}"), json!({}), 422),
        (
            "PATCH",
            &format!("people/{person}"),
            json!({"name": " "}),
            422,
        ),
        (
            "PUT",
            &format!("enrollments/{face}/person"),
            json!({"person_id": null}),
            404,
        ),
    ] {
        let code = match status {
            404 => "not_found",
            409 => "conflict",
            _ => "invalid_option",
        };
        let refused = call(&app, method, &format!("{archive}/{path}"), body).await;
        refused.assert_error_of(format!("{method} {path}"), status, code);
    }
    let consent = json!({"consent_required": true});
    let refused = call(&app, "PATCH", &archive, consent).await;
    refused.assert_error(422, "invalid_option");
    // A gallery has no people.
    for (method, path) in [
        ("POST", "clusterings"),
        ("GET", "people"),
        ("GET", "enrollments"),
    ] {
        let refused = call(&app, method, &format!("{staff}/{path}"), json!({})).await;
        refused.assert_error_of(path, 409, "conflict");
    }
    ok(&app, "POST", &format!("{archive}/clusterings"), json!({})).await;
    let second = call(&app, "POST", &format!("{archive}/clusterings"), json!({})).await;
    assert_eq!(second.status, StatusCode::CONFLICT);
    // A library without faces has no people.
    assert!(app.app.collections.cluster_once().await.unwrap());
    assert!(!app.app.collections.cluster_once().await.unwrap());
    let listed = read(&app, &format!("{archive}/clusterings")).await;
    let [only] = &listed["results"].as_array().unwrap()[..] else {
        panic!("{listed}");
    };
    assert_fields!(only, {"state": "done", "people": 0});
}

/// A person in a suppression collection is not enrolled in a library.
#[tokio::test(flavor = "multi_thread")]
async fn suppressed_people_are_not_enrolled_in_a_library() {
    let app = TestApp::with(&[ALLOWED]).await;
    let objections = create(&app, of_kind("suppression", "objections")).await;
    let person = super::subject(&app, &objections, json!({})).await;
    super::enroll(&app, &person, &[photo("obama.jpg")], json!({})).await;
    let archive = create(&app, library("archive")).await;
    let body = json!({"faces": [photo("obama2.jpg"), photo("biden.jpg")]});
    let answer = ok(&app, "POST", &format!("{archive}/enrollments"), body).await;
    let status = |entry: usize| &answer["results"][entry]["faces"][0]["status"];
    assert_eq!(
        (status(0), status(1)),
        (&json!("rejected"), &json!("enrolled"))
    );
    assert_eq!(answer["results"][0]["faces"][0]["reason"], "suppressed");
}

/// `facescan cluster` groups a folder. The folder of each image is the person.
#[test]
fn a_folder_is_grouped_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let obamas = ["obama.jpg", "obama2.jpg", "obama3.jpg"];
    write(folder.path(), &obamas.map(|image| ("obama", image)));
    write(folder.path(), &[("biden", "biden.jpg")]);
    let out = folder.path().join("people.jsonl");
    let output = facescan(["cluster", "--evaluate", "--out"])
        .arg(&out)
        .arg(folder.path())
        .output()
        .unwrap();
    let report = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{report}");
    for part in [
        "4 faces in 4 images: 1 people, 1 faces of nobody; 0 images failed",
        "2 folders",
        "BCubed: precision 1.0000, recall 1.0000, F 1.0000",
    ] {
        assert!(report.contains(part), "{report}");
    }
    let [person, nobody] = &lines(&std::fs::read(&out).unwrap())[..] else {
        panic!("two lines");
    };
    assert_eq!(
        (&person["person"], &nobody["person"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(person["faces"].as_array().unwrap().len(), 3);
    assert_eq!(person["faces"][0]["bbox"].as_array().unwrap().len(), 4);
    assert_eq!(nobody["faces"][0]["file"], "biden/biden.jpg");
    let refused = facescan(["cluster", "--min-score", "2", "--out"])
        .arg(&out)
        .arg(folder.path())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert_eq!(lines(&std::fs::read(&out).unwrap()).len(), 2);
}
