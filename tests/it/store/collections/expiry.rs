//! Subjects whose time is over.

use facescan_store::{Consent, Stores};
use time::Duration;

use super::{super::fixtures::noon, collection, created, key, subject};

pub async fn time_ends_subjects(stores: &Stores) {
    let store = stores.collections.as_ref();
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
        let left = store.list_subjects(key(&gallery), None, (None, 9)).await;
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
}
