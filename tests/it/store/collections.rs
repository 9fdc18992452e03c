//! Collections: what may be in a response, what an index is told, and what erasing removes.

mod expiry;

use std::collections::BTreeMap;

use facescan_store::{
    Changed, Collection, CollectionKey, CollectionKind, CollectionTerms, Consent, Enrolled,
    ErasedCounts, ErasureTarget, IndexPosition, IndexRow, NewEnrollment, Store, Subject,
    SubjectChange, SubjectDetails, TermsChange, Written,
};
use serde_json::json;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::fixtures::{erase, face_at, new_scan, noon, page};

/// Runs every step.
pub async fn scenario(store: &Store) {
    names_and_ids_are_unique(store).await;
    only_live_subjects_are_in_answers(store).await;
    an_index_can_follow(store).await;
    erasing_removes_enrollments(store).await;
    expiry::deleting_old_scans_keeps_enrollments(store).await;
    an_erased_image_takes_enrollments_of_older_scans(store).await;
    expiry::time_ends_subjects(store).await;
}

pub fn collection(tenant: &str, name: &str) -> Collection {
    Collection {
        id: Uuid::now_v7(),
        tenant: tenant.to_owned(),
        kind: CollectionKind::Gallery,
        vector_space: "c1".to_owned(),
        dim: 2,
        created_at: noon(),
        position: 0,
        enrolled: 0,
        terms: CollectionTerms {
            name: name.to_owned(),
            purpose: "entry control".to_owned(),
            legal_basis: "consent".to_owned(),
            consent_required: false,
            retention_days: 30,
            far: 0.0001,
        },
    }
}

fn subject(collection: &Collection) -> Subject {
    Subject {
        id: Uuid::now_v7(),
        collection_id: collection.id,
        created_at: noon(),
        last_seen_at: noon(),
        details: SubjectDetails::default(),
    }
}

pub fn key(collection: &Collection) -> CollectionKey<'_> {
    CollectionKey {
        tenant: &collection.tenant,
        id: collection.id,
    }
}

/// Returns a face with a vector in this direction.
fn face(direction: [f32; 2]) -> NewEnrollment {
    let norm = direction[0].hypot(direction[1]);
    NewEnrollment {
        id: Uuid::now_v7(),
        face_id: None,
        image_id: None,
        is_acceptable: true,
        vector: direction.iter().map(|value| value / norm).collect(),
    }
}

/// Returns a face whose vector came from a stored face.
pub fn stored_face(id: Uuid) -> NewEnrollment {
    NewEnrollment {
        face_id: Some(id),
        ..face([1.0, 0.0])
    }
}

pub async fn created(store: &Store, collection: &Collection) {
    let written = store.create_collection(collection, None).await.unwrap();
    assert_eq!(written, Written::Done);
}

pub async fn added(store: &Store, collection: &Collection) -> Subject {
    let subject = subject(collection);
    let written = store.create_subject(&collection.tenant, &subject, None);
    assert_eq!(written.await.unwrap(), Written::Done);
    subject
}

pub async fn enroll(
    store: &Store,
    collection: &Collection,
    subject: &Subject,
    faces: &[NewEnrollment],
) -> Enrolled {
    let subject = (key(collection), Some(subject.id));
    store.enroll(subject, faces, noon(), None).await.unwrap()
}

/// Returns the rows of a collection, as an index has them after it has read all of them.
async fn rows(store: &Store, collection: &Collection) -> Vec<IndexRow> {
    store.index_rows(collection.id, 0, 1000).await.unwrap()
}

async fn live(
    store: &Store,
    (tenant, collection): (&str, &Collection),
    rows: &[u64],
    now: OffsetDateTime,
) -> Vec<Uuid> {
    let key = CollectionKey {
        tenant,
        id: collection.id,
    };
    let live = store.live_rows(key, rows, now).await.unwrap();
    live.into_iter().map(|row| row.enrollment.id).collect()
}

async fn names_and_ids_are_unique(store: &Store) {
    let (a, b) = (collection("names", "a"), collection("names", "b"));
    created(store, &a).await;
    created(store, &b).await;
    created(store, &collection("other names", "a")).await;
    let same = collection("names", "a");
    let written = store.create_collection(&same, None).await.unwrap();
    assert_eq!(written, Written::Taken);
    assert_eq!(store.collection(key(&a)).await.unwrap(), Some(a.clone()));

    let renamed = TermsChange {
        name: Some("b".to_owned()),
        ..TermsChange::default()
    };
    let changed = store.change_collection(key(&a), &renamed, None).await;
    assert_eq!(changed.unwrap(), Changed::Taken);
    let change = TermsChange {
        retention_days: Some(7),
        ..TermsChange::default()
    };
    let terms = CollectionTerms {
        retention_days: 7,
        ..a.terms.clone()
    };
    let changed = store.change_collection(key(&a), &change, None).await;
    let expected = Collection {
        terms: terms.clone(),
        ..a.clone()
    };
    assert_eq!(changed.unwrap(), Changed::Done(expected));
    let foreign = CollectionKey {
        tenant: "other names",
        id: a.id,
    };
    let changed = store.change_collection(foreign, &change, None).await;
    assert_eq!(changed.unwrap(), Changed::NotFound);
    let first = store
        .list_collections("names", page(None, 1))
        .await
        .unwrap();
    assert_eq!(first[0].terms, terms);
    let rest = store
        .list_collections("names", page(Some(a.id), 9))
        .await
        .unwrap();
    assert_eq!(rest, std::slice::from_ref(&b));

    let mut subject = subject(&a);
    subject.details = SubjectDetails {
        external_id: Some("employee 7".to_owned()),
        metadata: Some(json!({"door": 3})),
        consent: Some(Consent {
            reference: "form 12".to_owned(),
            given_at: noon(),
            expires_at: noon() + Duration::days(9),
        }),
        expires_at: Some(noon() + Duration::days(3)),
    };
    let written = store.create_subject("names", &subject, None).await;
    assert_eq!(written.unwrap(), Written::Done);
    let written = store.create_subject("other names", &subject, None).await;
    assert_eq!(written.unwrap(), Written::NotFound);
    let read = store.subject(key(&a), subject.id).await.unwrap();
    assert_eq!(read.as_ref(), Some(&subject));
    let listed = store.list_subjects(key(&a), Some("employee 7"), page(None, 9));
    assert_eq!(listed.await.unwrap(), std::slice::from_ref(&subject));
    let listed = store.list_subjects(key(&a), Some("employee 8"), page(None, 9));
    assert_eq!(listed.await.unwrap(), []);
    let same = Subject {
        id: Uuid::now_v7(),
        ..subject.clone()
    };
    let written = store.create_subject("names", &same, None).await.unwrap();
    assert_eq!(written, Written::Taken);
    let in_other = Subject {
        collection_id: b.id,
        ..same
    };
    let written = store.create_subject("names", &in_other, None).await;
    assert_eq!(written.unwrap(), Written::Done);
    let later = noon() + Duration::days(1);
    let nothing = SubjectChange::default();
    let same = store.change_subject((key(&a), subject.id), &nothing, later, None);
    assert_eq!(same.await.unwrap(), Changed::Done(subject.clone()));
    subject.details.external_id = None;
    subject.last_seen_at = later;
    let change = SubjectChange {
        external_id: Some(None),
        ..SubjectChange::default()
    };
    let changed = store.change_subject((key(&a), subject.id), &change, later, None);
    assert_eq!(changed.await.unwrap(), Changed::Done(subject.clone()));
    let elsewhere = store.change_subject((key(&b), subject.id), &change, later, None);
    assert_eq!(
        elsewhere.await.unwrap(),
        Changed::NotFound,
        "another collection"
    );
    let read = store.subject(key(&a), subject.id).await.unwrap();
    assert_eq!(read, Some(subject));
}

async fn only_live_subjects_are_in_answers(store: &Store) {
    let mut gallery = collection("live", "gallery");
    gallery.terms.consent_required = true;
    created(store, &gallery).await;
    let without = added(store, &gallery).await;
    let refused = enroll(store, &gallery, &without, &[face([1.0, 0.0])]).await;
    assert_eq!(refused, Enrolled::NotLive);

    let mut with = subject(&gallery);
    with.details.consent = Some(Consent {
        reference: "form".to_owned(),
        given_at: noon(),
        expires_at: noon() + Duration::days(9),
    });
    with.details.expires_at = Some(noon() + Duration::days(20));
    store.create_subject("live", &with, None).await.unwrap();
    let faces = [face([1.0, 0.0]), face([0.0, 1.0])];
    assert_eq!(enroll(store, &gallery, &with, &faces).await, Enrolled::Done);
    let listed = async |page| {
        let listed = store.list_enrollments(key(&gallery), with.id, page).await;
        let listed = listed.unwrap().into_iter();
        listed.map(|face| face.id).collect::<Vec<_>>()
    };
    assert_eq!(listed(page(None, 9)).await, [faces[0].id, faces[1].id]);
    assert_eq!(listed(page(None, 1)).await, [faces[0].id]);
    assert_eq!(listed(page(Some(faces[0].id), 9)).await, [faces[1].id]);
    assert!(listed(page(Some(faces[1].id), 9)).await.is_empty());
    let all: Vec<u64> = rows(store, &gallery)
        .await
        .iter()
        .map(|row| row.row)
        .collect();
    let count = async |days| {
        let now = noon() + Duration::days(days);
        live(store, ("live", &gallery), &all, now).await.len()
    };
    assert_eq!(count(0).await, 2);
    let foreign = live(store, ("names", &gallery), &all, noon()).await;
    assert!(foreign.is_empty(), "another tenant");
    assert_eq!(count(9).await, 0, "consent");
    let required = |required| TermsChange {
        consent_required: Some(required),
        ..TermsChange::default()
    };
    let change = required(false);
    let changed = store.change_collection(key(&gallery), &change, None);
    changed.await.unwrap();
    assert_eq!(count(19).await, 2);
    assert_eq!(count(20).await, 0, "expiry");
    let change = SubjectChange {
        expires_at: Some(None),
        ..SubjectChange::default()
    };
    let changed = store.change_subject((key(&gallery), with.id), &change, noon(), None);
    changed.await.unwrap();
    assert_eq!(count(29).await, 2);
    assert_eq!(count(30).await, 0, "retention");
    // Without faces an enrollment is no interaction.
    assert_eq!(enroll(store, &gallery, &with, &[]).await, Enrolled::Done);
    // A withdrawn consent erases the faces, now or when the collection requires consent.
    let withdrawn = SubjectChange {
        consent: Some(None),
        ..SubjectChange::default()
    };
    let changed = store.change_subject((key(&gallery), with.id), &withdrawn, noon(), None);
    changed.await.unwrap();
    assert_eq!(rows(store, &gallery).await.len(), 2);
    let change = required(true);
    let changed = store.change_collection(key(&gallery), &change, None);
    changed.await.unwrap();
    assert_eq!(rows(store, &gallery).await.len(), 0);
    let other = collection("live", "other");
    created(store, &other).await;
    let foreign = live(store, ("live", &other), &all, noon()).await;
    assert!(foreign.is_empty(), "another collection");
}

/// Applies the changes of a collection to an empty index, and compares it with the rows.
async fn an_index_can_follow(store: &Store) {
    let gallery = collection("follow", "gallery");
    created(store, &gallery).await;
    let (first, second) = (added(store, &gallery).await, added(store, &gallery).await);
    let faces: Vec<NewEnrollment> = (0..5).map(|n| face([1.0, n as f32])).collect();
    enroll(store, &gallery, &first, &faces[..3]).await;
    enroll(store, &gallery, &second, &faces[3..]).await;
    erase(store, "follow", ErasureTarget::Enrollment(faces[1].id)).await;
    erase(store, "follow", ErasureTarget::Subject(second.id)).await;

    let position = store
        .collection(key(&gallery))
        .await
        .unwrap()
        .unwrap()
        .position;
    assert_eq!(position, 5 + 1 + 2);
    let positions = store.index_positions().await.unwrap();
    let expected = IndexPosition {
        collection_id: gallery.id,
        vector_space: gallery.vector_space.clone(),
        dim: 2,
        position,
        enrolled: 2,
    };
    assert!(positions.contains(&expected));
    let one = store.index_position(gallery.id).await.unwrap();
    assert_eq!(one, Some(expected));
    let mut index = BTreeMap::new();
    let mut after = 0;
    loop {
        let changes = store.index_changes(gallery.id, after, 3).await.unwrap();
        let Some(last) = changes.last() else { break };
        for (expected, change) in (after + 1..).zip(&changes) {
            assert_eq!(change.position, expected, "no gaps");
            match change.is_added {
                true => {
                    let added = store
                        .index_rows_of(gallery.id, &[change.row])
                        .await
                        .unwrap();
                    index.insert(change.row, added.into_iter().next());
                }
                false => drop(index.remove(&change.row)),
            }
        }
        after = last.position;
    }
    assert_eq!(after, position);
    let index: Vec<IndexRow> = index.into_values().flatten().collect();
    assert_eq!(index, rows(store, &gallery).await);
    let vectors: Vec<&[f32]> = index.iter().map(|row| &row.vector[..]).collect();
    assert_eq!(vectors, [&faces[0].vector[..], &faces[2].vector[..]]);

    store
        .trim_index_changes(gallery.id, position - 1)
        .await
        .unwrap();
    let left = store.index_changes(gallery.id, 0, 100).await.unwrap();
    assert_eq!((left.len(), left[0].position), (1, position));
    let next = store.index_rows(gallery.id, index[0].row, 1).await.unwrap();
    assert_eq!(next, [index[1].clone()]);
}

async fn erasing_removes_enrollments(store: &Store) {
    let gallery = collection("erase people", "gallery");
    created(store, &gallery).await;
    let person = added(store, &gallery).await;
    let mut scans = Vec::new();
    for number in [1, 2] {
        let mut scan = new_scan("erase people", number);
        scan.faces = vec![face_at(10.0), face_at(300.0)];
        store.save_scan(scan.clone()).await.unwrap();
        scans.push(scan);
    }
    let of = |scan: usize, position: usize| stored_face(scans[scan].faces[position].id);
    let faces = [of(0, 0), of(0, 1), of(1, 0), face([0.0, 1.0])];
    assert_eq!(
        enroll(store, &gallery, &person, &faces).await,
        Enrolled::Done
    );
    let erased = async |target| {
        let report = erase(store, "erase people", target).await;
        let counts = report.unwrap().counts;
        (counts.subjects, counts.enrollments)
    };
    let left = async || rows(store, &gallery).await.len();

    assert_eq!(
        erased(ErasureTarget::Face(scans[0].faces[0].id)).await,
        (0, 1)
    );
    assert_eq!(left().await, 3);
    let gone = enroll(store, &gallery, &person, &[of(0, 0)]).await;
    assert_eq!(gone, Enrolled::NoFace);
    assert_eq!(
        erased(ErasureTarget::Image(scans[1].image.id)).await,
        (0, 1)
    );
    assert_eq!(left().await, 2);
    let foreign = erase(store, "names", ErasureTarget::Enrollment(faces[3].id)).await;
    assert_eq!(foreign, None, "another tenant");
    assert_eq!(erased(ErasureTarget::Enrollment(faces[3].id)).await, (0, 1));
    assert_eq!(left().await, 1);
    assert_eq!(erased(ErasureTarget::Collection(gallery.id)).await, (1, 1));
    assert_eq!(left().await, 0);
    assert_eq!(store.collection(key(&gallery)).await.unwrap(), None);

    let again = collection("erase people", "gallery");
    created(store, &again).await;
    let person = added(store, &again).await;
    enroll(store, &again, &person, &[face([1.0, 0.0])]).await;
    let report = erase(store, "erase people", ErasureTarget::Tenant).await;
    let counts = report.unwrap().counts;
    let expected = ErasedCounts {
        images: 1,
        scans: 1,
        faces: 1,
        vectors: 1,
        subjects: 1,
        enrollments: 1,
        ..ErasedCounts::default()
    };
    assert_eq!(counts, expected);
}

/// A scan is replaced, so its faces are deleted. The image is erased later.
async fn an_erased_image_takes_enrollments_of_older_scans(store: &Store) {
    let gallery = collection("older scans", "gallery");
    created(store, &gallery).await;
    let person = added(store, &gallery).await;
    let mut scan = new_scan("older scans", 1);
    scan.faces = vec![face_at(10.0), face_at(300.0)];
    store.save_scan(scan.clone()).await.unwrap();
    let enrolled = stored_face(scan.faces[0].id);
    enroll(store, &gallery, &person, &[enrolled]).await;
    // Without the other face, the scan does not answer, and a new one replaces it.
    let other = ErasureTarget::Face(scan.faces[1].id);
    erase(store, "older scans", other).await;
    let again = facescan_store::NewScan {
        id: Uuid::now_v7(),
        faces: vec![face_at(10.0)],
        ..scan.clone()
    };
    store.save_scan(again).await.unwrap();
    let left = store
        .list_enrollments(key(&gallery), person.id, page(None, 9))
        .await
        .unwrap();
    assert_eq!((left.len(), left[0].face_id), (1, None));
    let image = ErasureTarget::Image(scan.image.id);
    let report = erase(store, "older scans", image).await.unwrap();
    assert_eq!(report.counts.enrollments, 1);
    assert_eq!(rows(store, &gallery).await.len(), 0);
}
