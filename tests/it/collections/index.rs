//! The index follows the database, also that of another process.

use facescan_recognition::collections::similar::Wanted;
use facescan_store::{
    Collection, CollectionKey, ErasureTarget, NewEnrollment, NewErasure, Subject, SubjectDetails,
};
use serde_json::json;
use uuid::Uuid;

use super::{ALLOWED, EVERY_THRESHOLD, create, enroll, erase, found, gallery, id, search, subject};
use crate::support::{
    app::TestApp,
    database::{Database, on_postgres, on_sqlite},
    values::photo,
};

/// Returns a vector of length 1 that depends on a number.
pub(super) fn vector(number: usize, dim: usize) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(number as u64);
    let values: Vec<f32> = (0..dim).map(|_| random.f32() - 0.5).collect();
    let norm = values.iter().map(|value| value * value).sum::<f32>().sqrt();
    values.into_iter().map(|value| value / norm).collect()
}

pub(super) async fn collection(app: &TestApp, uri: &str) -> Collection {
    let key = CollectionKey {
        tenant: "default",
        id: id(uri).parse().unwrap(),
    };
    let store = &app.app.collections.store;
    store.collection(key).await.unwrap().unwrap()
}

/// Enrolls a vector for each number, each for a subject of its own. Returns the subjects.
pub(super) async fn add(app: &TestApp, uri: &str, numbers: std::ops::Range<usize>) -> Vec<Uuid> {
    let of = collection(app, uri).await;
    let store = &app.app.collections.store;
    let key = CollectionKey {
        tenant: "default",
        id: of.id,
    };
    let now = app.app.collections.clock.now();
    let mut subjects = Vec::new();
    for number in numbers {
        let subject = Subject {
            id: Uuid::now_v7(),
            collection_id: of.id,
            created_at: now,
            last_seen_at: now,
            details: SubjectDetails::default(),
        };
        store
            .create_subject("default", &subject, None)
            .await
            .unwrap();
        let face = NewEnrollment {
            id: Uuid::now_v7(),
            face_id: None,
            image_id: None,
            is_acceptable: true,
            vector: vector(number, of.dim as usize),
        };
        let faces = [face];
        let enrolled = store.enroll((key, Some(subject.id)), &faces, now, None);
        enrolled.await.unwrap();
        subjects.push(subject.id);
    }
    subjects
}

/// Returns the subject that is most similar to the vector of a number, and the number of faces that were compared.
pub(super) async fn nearest(app: &TestApp, uri: &str, number: usize) -> (Option<Uuid>, u64) {
    let of = collection(app, uri).await;
    let wanted = Wanted {
        threshold: 0.99,
        limit: 1,
        by_subject: true,
        must_be_exact: false,
    };
    let vector = vector(number, of.dim as usize);
    let similar = app.app.collections.similar(&of, &vector, wanted).await;
    let similar = similar.unwrap();
    let first = similar.faces.first();
    (
        first.and_then(|face| face.row.enrollment.subject_id),
        similar.searched,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_see_each_others_changes() {
    on_postgres(|database: Database| async move {
        let one = TestApp::with_database(&database, &[ALLOWED]).await;
        let other = TestApp::with_database(&database, &[ALLOWED]).await;
        let staff = create(&one, gallery("staff")).await;
        let first = add(&one, &staff, 0..50).await;
        assert_eq!(nearest(&other, &staff, 7).await, (Some(first[7]), 50));
        let second = add(&other, &staff, 50..80).await;
        assert_eq!(nearest(&one, &staff, 60).await, (Some(second[10]), 80));
        erase(&other, &format!("{staff}/subjects/{}", first[7])).await;
        assert_eq!(nearest(&one, &staff, 7).await, (None, 79));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_far_behind_is_loaded_again() {
    on_sqlite(|database: Database| async move {
        let app = TestApp::with_database(&database, &[ALLOWED, EVERY_THRESHOLD]).await;
        let staff = create(&app, gallery("staff")).await;
        let subjects = add(&app, &staff, 0..10).await;
        assert_eq!(nearest(&app, &staff, 3).await, (Some(subjects[3]), 10));
        add(&app, &staff, 10..20).await;
        let of = collection(&app, &staff).await;
        let store = &app.app.collections.store;
        store
            .trim_index_changes(of.id, of.position - 5)
            .await
            .unwrap();
        let (found, searched) = nearest(&app, &staff, 12).await;
        assert!(found.is_some());
        assert_eq!(searched, 20);
    })
    .await;
}

/// The index still has the face, but the database does not.
#[tokio::test]
async fn a_stale_index_cannot_answer_an_erased_face() {
    let app = TestApp::with(&[ALLOWED]).await;
    let staff = create(&app, gallery("staff")).await;
    let subjects = add(&app, &staff, 0..5).await;
    let stale = collection(&app, &staff).await;
    assert_eq!(nearest(&app, &staff, 2).await.0, Some(subjects[2]));
    let erasures = &app.app.erasures.store;
    let target = ErasureTarget::Subject(subjects[2]);
    let new = NewErasure {
        id: Uuid::now_v7(),
        tenant: "default".to_owned(),
        target: target.clone(),
        requested_at: app.app.collections.clock.now(),
        audit: None,
    };
    erasures.begin_erasure(&new).await.unwrap();
    let erased = erasures.erase_from_collections(new.id, "default", &target);
    erased.await.unwrap();
    // With the position from before the erasure, the index applies no change.
    let wanted = Wanted {
        threshold: 0.99,
        limit: 1,
        by_subject: true,
        must_be_exact: false,
    };
    let vector = vector(2, stale.dim as usize);
    let similar = app.app.collections.similar(&stale, &vector, wanted).await;
    let similar = similar.unwrap();
    assert_eq!((similar.searched, similar.faces.len()), (5, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_at_the_same_time_get_their_own_answers() {
    let app = TestApp::with(&[ALLOWED]).await;
    let staff = create(&app, gallery("staff")).await;
    let subjects = add(&app, &staff, 0..100).await;
    let searches = (0..100).map(|number| nearest(&app, &staff, number));
    let answers = futures::future::join_all(searches).await;
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, (Some(subjects[number]), 100));
    }
}

/// All rows that the index proposes first belong to one subject.
#[tokio::test]
async fn many_faces_of_one_subject_do_not_hide_others() {
    let app = TestApp::with(&[ALLOWED, EVERY_THRESHOLD]).await;
    let staff = create(&app, gallery("staff")).await;
    let obama = subject(&app, &staff, json!({})).await;
    let copies = vec![photo("obama.jpg"); 60];
    enroll(&app, &obama, &copies, json!({})).await;
    enroll(&app, &obama, &copies, json!({})).await;
    let biden = subject(&app, &staff, json!({})).await;
    enroll(&app, &biden, &[photo("biden.jpg")], json!({})).await;
    let options = json!({"threshold": -1, "limit": 2});
    let answer = search(&app, &staff, photo("obama2.jpg"), options).await;
    assert_eq!(found(&answer), [id(&obama), id(&biden)]);
}
