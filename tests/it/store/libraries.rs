//! Libraries: who leases a clustering, what a clustering may change, and when faces and people end.

use facescan_store::{
    Assignment, ClusteringEnd, ClusteringProgress, ClusteringState, Collection, CollectionKind,
    Decided, Decision, Enrolled, ErasureTarget, FaceFilter, LeasedClustering, NewClustering,
    NewEnrollment, Store, Written,
};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{
    collections::{collection, created, key},
    fixtures::{erase, noon, page},
};

/// Runs every step.
pub async fn scenario(store: &Store) {
    one_server_leases_a_clustering(store).await;
    a_clustering_changes_no_decision(store).await;
    time_ends_faces(store).await;
}

async fn library(store: &Store, tenant: &str) -> Collection {
    let mut library = collection(tenant, "library");
    library.kind = CollectionKind::Library;
    created(store, &library).await;
    library
}

/// Enrolls faces, and returns their rows in order.
async fn enrolled(store: &Store, library: &Collection, count: usize) -> Vec<(u64, Uuid)> {
    let faces: Vec<NewEnrollment> = (0..count)
        .map(|_| NewEnrollment {
            id: Uuid::now_v7(),
            face_id: None,
            image_id: None,
            is_acceptable: true,
            vector: vec![1.0, 0.0],
        })
        .collect();
    let done = store.enroll((key(library), None), &faces, noon(), None);
    assert_eq!(done.await.unwrap(), Enrolled::Done);
    let rows = store.face_rows(library.id, 0, 99).await.unwrap();
    let rows = rows.into_iter().map(|face| face.row);
    rows.zip(faces.into_iter().map(|face| face.id)).collect()
}

fn request() -> NewClustering {
    NewClustering {
        id: Uuid::now_v7(),
        is_full: true,
        min_faces: 2,
        far: None,
        created_at: noon(),
    }
}

async fn one_server_leases_a_clustering(store: &Store) {
    let library = library(store, "lease").await;
    let new = request();
    let create = async |new: NewClustering| {
        let created = store.create_clustering(key(&library), &new, None);
        created.await.unwrap()
    };
    assert_eq!(create(new).await, Written::Done);
    assert_eq!(create(request()).await, Written::Taken);
    let leased = lease(store, noon()).await.unwrap();
    assert_eq!((leased.request, leased.collection.id), (new, library.id));
    assert_eq!(lease(store, noon()).await, None, "it is leased");

    let progress = ClusteringProgress {
        compared: 3,
        faces: 9,
        ..ClusteringProgress::default()
    };
    let until = noon() + Duration::minutes(2);
    let renewed = store.renew_clustering(&leased, until, progress);
    assert!(renewed.await.unwrap());
    let read = async || {
        let clustering = store.clustering(key(&library), new.id).await;
        clustering.unwrap().unwrap()
    };
    let running = read().await;
    assert_eq!(
        (running.state, running.progress),
        (ClusteringState::Running, progress)
    );
    let again = lease(store, until).await.unwrap();
    assert_eq!(again.request, new);
    a_lost_lease_writes_nothing(store, &leased, until).await;
    assert_eq!(read().await.state, ClusteringState::Running);
    let end = ClusteringEnd::Failed("no reason".to_owned());
    assert!(store.end_clustering(&again, &end, until).await.unwrap());
    let failed = read().await;
    assert_eq!(
        (failed.state, failed.error.as_deref()),
        (ClusteringState::Failed, Some("no reason"))
    );
    assert_eq!(failed.finished_at, Some(until));
    let next = request();
    assert_eq!(create(next).await, Written::Done);
    let listed = store.list_clusterings(key(&library), page(None, 9)).await;
    let listed = listed.unwrap();
    assert_eq!((listed.len(), listed[1].request.id), (2, new.id));
    let leased = lease(store, until).await.unwrap();
    let cancel = async |id| {
        let cancelled = store.cancel_clustering(key(&library), id, until, None);
        cancelled.await.unwrap().map(|clustering| clustering.state)
    };
    assert_eq!(cancel(next.id).await, Some(ClusteringState::Cancelled));
    a_lost_lease_writes_nothing(store, &leased, until).await;
    assert_eq!(cancel(new.id).await, Some(ClusteringState::Failed));
    assert_eq!(cancel(Uuid::now_v7()).await, None);
    assert_eq!(lease(store, until + Duration::DAY).await, None);
}

/// Leases the clustering that waits, for a minute.
async fn lease(store: &Store, now: OffsetDateTime) -> Option<LeasedClustering> {
    let until = now + Duration::minutes(1);
    store.lease_clustering(now, until).await.unwrap()
}

/// The server that had the lease before can neither renew it, nor write people, nor end the clustering.
async fn a_lost_lease_writes_nothing(store: &Store, lost: &LeasedClustering, now: OffsetDateTime) {
    let faces = enrolled(store, &lost.collection, 1).await;
    let progress = ClusteringProgress::default();
    let renewed = store.renew_clustering(lost, now + Duration::DAY, progress);
    assert!(!renewed.await.unwrap());
    let person = Uuid::now_v7();
    assert!(!store.add_people(lost, &[person], now).await.unwrap());
    let assignment = Assignment {
        row: faces[0].0,
        person: Some(person),
    };
    assert!(!store.assign_people(lost, &[assignment]).await.unwrap());
    assert_eq!(store.delete_empty_people(lost, 9).await.unwrap(), 0);
    let end = ClusteringEnd::Done(progress);
    assert!(!store.end_clustering(lost, &end, now).await.unwrap());
    let people = store.people(key(&lost.collection), page(None, 9)).await;
    assert_eq!(people.unwrap(), []);
}

/// Requests a clustering and leases it.
async fn clustering(store: &Store, library: &Collection) -> LeasedClustering {
    let new = request();
    let created = store.create_clustering(key(library), &new, None);
    assert_eq!(created.await.unwrap(), Written::Done);
    let leased = lease(store, noon()).await.unwrap();
    assert_eq!(leased.collection.id, library.id);
    leased
}

async fn a_clustering_changes_no_decision(store: &Store) {
    let library = library(store, "decide").await;
    let faces = enrolled(store, &library, 4).await;
    let people = [Uuid::now_v7(), Uuid::now_v7()];
    let leased = clustering(store, &library).await;
    assert!(store.add_people(&leased, &people, noon()).await.unwrap());
    let assign = async |assignments: &[(usize, Option<Uuid>)]| {
        let assignments = assignments.iter().map(|(face, person)| Assignment {
            row: faces[*face].0,
            person: *person,
        });
        let assignments: Vec<Assignment> = assignments.collect();
        assert!(store.assign_people(&leased, &assignments).await.unwrap());
    };
    let now = async || {
        let rows = store.face_rows(library.id, 0, 99).await.unwrap();
        rows.into_iter()
            .map(|face| face.membership.person_id)
            .collect::<Vec<_>>()
    };
    let (a, b) = (Some(people[0]), Some(people[1]));
    assign(&[(0, a), (1, a), (2, b), (3, b)]).await;
    assert_eq!(now().await, [a, a, b, b]);
    let decide = async |decision: Decision| {
        store
            .decide(key(&library), &decision, noon(), None)
            .await
            .unwrap()
    };
    let face = faces[0].1;
    let moved = Decision::Assign { face, person: b };
    assert_eq!(decide(moved).await, Decided::Done);
    // The rows of another library and a person who does not exist are skipped, and the pinned face stays.
    let foreign = self::library(store, "foreign").await;
    let other = enrolled(store, &foreign, 1).await;
    let unknown = Assignment {
        row: other[0].0,
        person: b,
    };
    assert!(store.assign_people(&leased, &[unknown]).await.unwrap());
    assert_eq!(
        store.face_rows(foreign.id, 0, 9).await.unwrap()[0]
            .membership
            .person_id,
        None
    );
    assign(&[(0, a), (1, Some(Uuid::now_v7())), (2, None), (3, a)]).await;
    assert_eq!(now().await, [b, a, None, a]);

    let of_b = store
        .library_faces(key(&library), FaceFilter::Of(people[1]), page(None, 9))
        .await;
    assert_eq!(of_b.unwrap().len(), 1);
    let nobody = store
        .library_faces(key(&library), FaceFilter::Unassigned, page(None, 9))
        .await;
    let nobody: Vec<Uuid> = nobody
        .unwrap()
        .iter()
        .map(|face| face.enrollment.id)
        .collect();
    assert_eq!(nobody, [faces[2].1]);
    let found = store
        .library_faces(key(&library), FaceFilter::All, page(Some(faces[1].1), 1))
        .await;
    assert_eq!(found.unwrap()[0].enrollment.id, faces[2].1);

    // A decision about a person of another tenant is refused.
    let decision = Decision::Merge {
        into: people[0],
        people: vec![people[1]],
    };
    let refused = store
        .decide(key(&foreign), &decision, noon(), None)
        .await
        .unwrap();
    assert_eq!(refused, Decided::NoPerson(people[1]));
    let wrong = Decision::Split {
        person: people[0],
        faces: vec![face],
        new: Uuid::now_v7(),
    };
    assert_eq!(decide(wrong).await, Decided::NoFace(face));
    assert_eq!(decide(decision).await, Decided::Done);
    assert_eq!(now().await, [a, a, None, a]);
    let left = store.people(key(&library), page(None, 9)).await.unwrap();
    assert_eq!((left.len(), left[0].id, left[0].faces), (1, people[0], 3));
    let everyone = Decision::Split {
        person: people[0],
        faces: vec![faces[0].1, faces[1].1, faces[3].1],
        new: Uuid::now_v7(),
    };
    assert_eq!(decide(everyone).await, Decided::NobodyLeft);
    // Only a person without faces is deleted.
    assert!(
        store
            .add_people(&leased, &[Uuid::now_v7()], noon())
            .await
            .unwrap()
    );
    assert_eq!(store.delete_empty_people(&leased, 9).await.unwrap(), 1);
    let left = store.people(key(&library), page(None, 9)).await.unwrap();
    assert_eq!((left.len(), left[0].id), (1, people[0]));
}

/// Faces of a library end with the retention, and their people with them.
async fn time_ends_faces(store: &Store) {
    let library = library(store, "ends").await;
    let faces = enrolled(store, &library, 3).await;
    let person = Uuid::now_v7();
    let leased = clustering(store, &library).await;
    assert!(store.add_people(&leased, &[person], noon()).await.unwrap());
    let assignments = faces.iter().map(|(row, _)| Assignment {
        row: *row,
        person: Some(person),
    });
    let assignments: Vec<Assignment> = assignments.collect();
    assert!(store.assign_people(&leased, &assignments).await.unwrap());
    let foreign = erase(store, "lease", ErasureTarget::Person(person)).await;
    assert_eq!(foreign, None, "another tenant");
    let left = async |days| {
        let now = noon() + Duration::days(days);
        while store.expire_library_faces(now, 2, None).await.unwrap() > 0 {}
        store
            .person(key(&library), person)
            .await
            .unwrap()
            .map(|person| person.faces)
    };
    let rows: Vec<u64> = faces.iter().map(|(row, _)| *row).collect();
    let live = async |days| {
        let now = noon() + Duration::days(days);
        let live = store.live_rows(key(&library), &rows, now).await.unwrap();
        live.iter()
            .filter(|row| row.person_id == Some(person))
            .count()
    };
    assert_eq!((live(29).await, live(30).await), (3, 0));
    assert_eq!(left(29).await, Some(3));
    assert_eq!(left(30).await, None, "a person without faces is deleted");
}
