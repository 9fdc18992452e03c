//! Subjects whose time is over, and enrollments that outlive the scans they came from.

use facescan_store::{CollectionSize, Consent, ExpiryTimes, Store};
use time::{Duration, OffsetDateTime};

use super::{
    super::fixtures::{face_at, new_scan, noon, page},
    added, collection, created, enroll, key, stored_face, subject,
};

pub async fn time_ends_subjects(store: &Store) {
    let mut gallery = collection("expire", "gallery");
    gallery.terms.consent_required = true;
    created(store, &gallery).await;
    let consent = |days| Consent {
        reference: "form".to_owned(),
        given_at: noon(),
        expires_at: noon() + Duration::days(days),
    };
    let mut people = Vec::new();
    for (consent, expires) in [
        (None, None),
        (Some(consent(5)), None),
        (Some(consent(99)), Some(10)),
        (Some(consent(99)), None),
    ] {
        let mut person = subject(&gallery);
        person.details.consent = consent;
        person.details.expires_at = expires.map(|days| noon() + Duration::days(days));
        store.create_subject("expire", &person, None).await.unwrap();
        people.push(person);
    }
    // Other steps have subjects whose time is over too.
    let left = async |days| {
        let now = noon() + Duration::days(days);
        while store.expire_subjects(now, 2, None).await.unwrap() > 0 {}
        let left = store
            .list_subjects(key(&gallery), None, page(None, 9))
            .await;
        left.unwrap()
            .into_iter()
            .map(|person| person.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(left(4).await.len(), 4);
    assert_eq!(left(5).await, [people[0].id, people[2].id, people[3].id]);
    assert_eq!(left(10).await, [people[0].id, people[3].id]);
    assert_eq!(left(29).await.len(), 2);
    assert_eq!(left(30).await.len(), 0);
    // A deletion commits a little later than its time.
    let has_unpurged = async |days| {
        let before = noon() + Duration::days(days) + Duration::minutes(1);
        store.has_unpurged_erasures(before).await.unwrap()
    };
    let purge = async |days| {
        let now = noon() + Duration::days(days) + Duration::minutes(1);
        assert!(store.purge_erased(now).await.unwrap());
    };
    assert!(has_unpurged(30).await);
    purge(29).await;
    assert!(!has_unpurged(29).await);
    assert!(has_unpurged(30).await);
    purge(30).await;
    assert!(!has_unpurged(30).await);
}

pub async fn deleting_old_scans_keeps_enrollments(store: &Store) {
    let gallery = collection("keep", "gallery");
    created(store, &gallery).await;
    let person = added(store, &gallery).await;
    let mut scan = new_scan("keep", 1);
    scan.faces = vec![face_at(10.0)];
    store.save_scan(scan.clone()).await.unwrap();
    let enrolled = stored_face(scan.faces[0].id);
    enroll(store, &gallery, &person, &[enrolled]).await;
    let later = OffsetDateTime::now_utc() + Duration::days(1);
    let times = ExpiryTimes {
        before: later,
        now: later,
    };
    let expired = store.expire_results("keep", times, 9).await;
    assert_eq!(expired.unwrap().images, 1);
    let left = store
        .list_enrollments(key(&gallery), person.id, page(None, 9))
        .await
        .unwrap();
    assert_eq!((left.len(), left[0].face_id), (1, None));
    let size = CollectionSize {
        subjects: 1,
        enrollments: 1,
    };
    assert_eq!(store.collection_size(gallery.id).await.unwrap(), size);
}
