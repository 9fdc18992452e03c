//! The store: one scenario that runs on both databases. `outage` tests databases that are unreachable or damaged.

mod audit;
pub(crate) mod batches;
pub(crate) mod collections;
mod encrypted;
mod erasing;
mod fixtures;
mod libraries;
mod outage;
mod pages;
mod retention;
mod saving;
mod webhooks;

use std::time::Duration;

use facescan_imaging::precision::NumericPrecision;
use facescan_store::{
    ApiKey, Embedding, ImageFilter, Model, NewFace, NewImage, NewScan, SavedScan, Source, Store,
    StoreError, StoredFace,
};
use serde_json::json;
use uuid::Uuid;

use crate::support::database::{Database, on_postgres, on_sqlite};
use fixtures::{face_at, find, new_scan, noon, page, read_image, source, with_key};

#[tokio::test(flavor = "multi_thread")]
async fn the_store_scenario_on_sqlite() {
    on_sqlite(scenario).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_scenario_on_postgres() {
    on_postgres(scenario).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_batch_scenario_on_sqlite() {
    on_sqlite(batches::scenario).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_batch_scenario_on_postgres() {
    on_postgres(batches::scenario).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_scenario_on_sqlite() {
    on_sqlite(webhooks::scenario).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_scenario_on_postgres() {
    on_postgres(webhooks::scenario).await;
}

/// Runs every step. Each step has its own tenant, so each step also proves that it does not touch the rows of others.
async fn scenario(database: Database) {
    let store = database.open().await;
    // Migrate again, as the next process does.
    store.migrate().await.unwrap();
    store.ping().await.unwrap();
    register_models(&store, &database).await;
    save_and_look_up(&store).await;
    save_a_known_image(&store).await;
    save_concurrently(&store, &database).await;
    list_pages(&store).await;
    pages::end_a_page_of_scans_by_bytes(&store).await;
    pages::return_the_newest_sources(&store).await;
    erasing::erase_a_face(&store).await;
    refuse_what_cannot_be_stored(&store, &database).await;
    refuse_texts_with_nul(&store).await;
    save_many_faces(&store).await;
    erasing::erase_an_image(&store, &database).await;
    audit::scenario(&store).await;
    retention::scenario(&store).await;
    collections::scenario(&store).await;
    libraries::scenario(&store).await;
    store.close().await;
    assert!(store.ping().await.unwrap_err().is_unavailable());
}

async fn register_models(store: &Store, database: &Database) {
    let embedder = Model {
        id: "sface".into(),
        role: "embedder".into(),
        family: "sface".into(),
        sha256: [7; 32],
        vector_space: Some("c1".into()),
        dim: Some(128),
    };
    let detector = Model {
        id: "yunet".into(),
        role: "detector".into(),
        family: "yunet".into(),
        sha256: [8; 32],
        vector_space: None,
        dim: None,
    };
    let prepared_anew = Model {
        vector_space: Some("c2".into()),
        ..embedder.clone()
    };
    store
        .register_models(&[detector.clone(), embedder.clone()], noon())
        .await
        .unwrap();
    store
        .register_models(&[detector, embedder, prepared_anew], noon())
        .await
        .unwrap();
    assert_eq!(database.count("SELECT count(*) FROM models").await, 3);
    let query = "SELECT count(*) FROM models WHERE dim = 128 AND vector_space IN ('c1', 'c2')";
    assert_eq!(database.count(query).await, 2);
}

async fn save_and_look_up(store: &Store) {
    let mut scan = new_scan("save", 1);
    scan.faces = vec![face_at(10.0), face_at(200.0)];
    // A conversion to text, to a wider type or by rounding would change these values.
    let vector = vec![0.1, -0.0, f32::MIN_POSITIVE, 1e-45, f32::MAX, 1.0 / 3.0];
    let embedding = Embedding {
        vector_space: "c1".into(),
        precision: NumericPrecision::Bf16,
        norm: 11.2,
        vector: vector.clone(),
    };
    scan.faces[0].embedding = Some(embedding);
    scan.faces[0].results = Some(json!({"sharpness": 0.5, "nested": [1, null, "ü"]}));
    scan.faces[1].landmarks = None;
    let other = scan.faces[1].embedding.as_mut().unwrap();
    other.precision = NumericPrecision::F16;

    assert_eq!(find(store, &scan).await, None);
    let saved = store.save_scan(scan.clone()).await.unwrap();
    assert_eq!(
        saved,
        SavedScan::Written {
            image_id: scan.image.id
        }
    );

    let found = find(store, &scan).await.unwrap();
    assert_eq!((found.id, found.image_id), (scan.id, scan.image.id));
    assert_eq!(found.record, scan.record);
    assert_eq!(found.faces.len(), 2);
    for (position, (found, new)) in found.faces.iter().zip(&scan.faces).enumerate() {
        assert_eq!((found.id, found.position as usize), (new.id, position));
        assert_eq!((found.scan_id, found.image_id), (scan.id, scan.image.id));
        assert_eq!((found.bbox, found.score), (new.bbox, new.score));
        assert_eq!(
            (found.landmarks, &found.results),
            (new.landmarks, &new.results)
        );
        assert_eq!(found.embedding, new.embedding);
    }
    let bits = |vector: &[f32]| vector.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let stored = found.faces[0].embedding.as_ref().unwrap();
    assert_eq!(bits(&stored.vector), bits(&vector));

    let face = store.face("save", scan.faces[0].id).await.unwrap().unwrap();
    assert_eq!(face, found.faces[0]);

    let image = read_image(store, "save", scan.image.id).await.unwrap();
    let (summary, new) = (&image.summary, &scan.image);
    assert_eq!((summary.id, summary.sha256), (new.id, new.sha256));
    assert_eq!((summary.width, summary.height), (new.width, new.height));
    assert_eq!(
        (summary.byte_size, &summary.format),
        (new.byte_size, &new.format)
    );
    assert_eq!(summary.orientation, new.orientation);
    assert_eq!(summary.perceptual_hash, Some(u64::MAX - 1));
    assert_eq!(summary.created_at, noon());
    assert_eq!(image.sources, [scan.source.clone().unwrap()]);
    assert_eq!(image.scans, std::slice::from_ref(&found));

    // Saving the same scan again returns the stored scan.
    let again = NewScan {
        id: Uuid::now_v7(),
        faces: vec![face_at(10.0)],
        ..scan.clone()
    };
    assert_eq!(
        store.save_scan(again).await.unwrap(),
        SavedScan::Kept(Box::new(found.clone()))
    );
    // Other options make another scan of the same image. A scan with `answers_cache: false` is not found.
    let mut other = with_key(&scan, 99);
    other.faces = vec![];
    other.image.id = Uuid::now_v7();
    other.record.answers_cache = false;
    let saved = store.save_scan(other.clone()).await.unwrap();
    assert_eq!(saved.image_id(), scan.image.id);
    assert_eq!(find(store, &other).await, None);
    // The next scan with `answers_cache: true` replaces it.
    let mut fresh = with_key(&other, 99);
    fresh.record.answers_cache = true;
    store.save_scan(fresh.clone()).await.unwrap();
    assert_eq!(find(store, &fresh).await.unwrap().id, fresh.id);
    let image = read_image(store, "save", scan.image.id).await.unwrap();
    let ids: Vec<_> = image.scans.iter().map(|scan| scan.id).collect();
    assert_eq!(ids, [scan.id, fresh.id]);
}

async fn save_a_known_image(store: &Store) {
    let mut scan = new_scan("seen", 1);
    let first = source("cam-1", Some("https://a.example/1"), noon());
    scan.source = Some(first.clone());
    let image_id = store.save_scan(scan.clone()).await.unwrap().image_id();
    // This URL is longer than an index entry can be.
    let long = format!("https://a.example/{}", "x".repeat(10_000));
    let second = source("cam-2", Some(&long), noon() + Duration::from_secs(1));
    scan.source = Some(second.clone());
    scan.id = Uuid::now_v7();
    scan.image.id = Uuid::now_v7();
    let saved = store.save_scan(scan).await.unwrap();
    assert!(matches!(saved, SavedScan::Kept(_)) && saved.image_id() == image_id);
    // A response from the cache adds its source, too. The same source has one entry, with the latest time.
    let later = Source {
        seen_at: noon() + Duration::from_secs(2),
        ..first
    };
    assert!(store.add_source("seen", image_id, &later).await.unwrap());
    let nowhere = Source {
        id: Some(String::new()),
        url: None,
        seen_at: noon(),
    };
    assert!(store.add_source("seen", image_id, &nowhere).await.unwrap());
    let image = read_image(store, "seen", image_id).await.unwrap();
    assert_eq!(image.sources, [second, later.clone()]);
    assert!(
        !store
            .add_source("seen", Uuid::now_v7(), &later)
            .await
            .unwrap()
    );
    assert!(
        !store
            .add_source("not-mine", image_id, &later)
            .await
            .unwrap()
    );
}

/// Several tasks save a scan of one image with one key. One task writes, and the others get its scan.
async fn save_concurrently(store: &Store, database: &Database) {
    let writers: Vec<_> = (0..12)
        .map(|_| {
            let mut scan = new_scan("at-once", 1);
            scan.faces = vec![face_at(10.0), face_at(200.0)];
            let store = store.clone();
            tokio::spawn(async move { (store.save_scan(scan.clone()).await.unwrap(), scan) })
        })
        .collect();
    let (mut written, mut kept) = (vec![], vec![]);
    for writer in writers {
        match writer.await.unwrap() {
            (SavedScan::Written { image_id }, scan) => written.push((image_id, scan)),
            (SavedScan::Kept(scan), _) => kept.push(scan),
        }
    }
    let [(image_id, scan)] = &written[..] else {
        panic!("{} writers wrote", written.len());
    };
    assert_eq!((*image_id, kept.len()), (scan.image.id, 11));
    let stored = find(store, scan).await.unwrap();
    assert!(kept.iter().all(|kept| **kept == stored));
    assert_eq!(stored.id, scan.id);
    let query = "SELECT count(*) FROM images WHERE tenant = 'at-once'";
    assert_eq!(database.count(query).await, 1);
}

async fn list_pages(store: &Store) {
    let mut ids = vec![];
    for number in 0..5 {
        let mut scan = new_scan("list", number);
        let name = if number % 2 == 0 { "even" } else { "odd" };
        scan.source = Some(source(name, None, noon()));
        store.save_scan(scan.clone()).await.unwrap();
        // A second URL of the same source does not list the image twice.
        let elsewhere = source(name, Some("https://a.example/2"), noon());
        store
            .add_source("list", scan.image.id, &elsewhere)
            .await
            .unwrap();
        ids.insert(0, scan.image.id);
    }
    let listed = async |source: Option<&str>, after, limit| {
        let filter = ImageFilter {
            source: source.map(Into::into),
        };
        let images = store.list_images("list", &filter, page(after, limit)).await;
        let images = images.unwrap().into_iter();
        images.map(|image| image.id).collect::<Vec<_>>()
    };
    for (after, expected) in [
        (None, &ids[..2]),
        (Some(ids[1]), &ids[2..4]),
        (Some(ids[3]), &ids[4..]),
        (Some(ids[4]), &[]),
    ] {
        assert_eq!(listed(None, after, 2).await, expected);
    }
    assert_eq!(listed(Some("even"), None, 2).await, [ids[0], ids[2]]);
    assert_eq!(listed(Some("even"), Some(ids[2]), 2).await, [ids[4]]);
    assert!(listed(Some("nowhere"), None, 2).await.is_empty());
}

/// Returns scans that cannot be stored, each with the field that the error names.
fn invalid_scans() -> Vec<(NewScan, &'static str)> {
    let with_face = |change: fn(&mut NewFace)| {
        let mut scan = new_scan("refuse", 1);
        scan.faces = vec![face_at(10.0), face_at(200.0)];
        change(&mut scan.faces[1]);
        scan
    };
    let with_image = |change: fn(&mut NewImage)| {
        let mut scan = new_scan("refuse", 1);
        change(&mut scan.image);
        scan
    };
    let with_source = |id: &str| {
        let mut scan = new_scan("refuse", 1);
        scan.source = Some(source(id, None, noon()));
        scan
    };
    let bbox = with_face(|face| face.bbox.x1 = f32::NAN);
    let score = with_face(|face| face.score = Some(f32::INFINITY));
    let landmarks = with_face(|face| face.landmarks = Some([[f32::NAN; 2]; 5]));
    let embedding = with_face(|face| face.embedding.as_mut().unwrap().vector[1] = f32::NAN);
    vec![
        (bbox, "the bbox of face 1"),
        (score, "the score of face 1"),
        (landmarks, "the landmarks of face 1"),
        (embedding, "the embedding of face 1"),
        (
            with_image(|image| image.byte_size = u64::MAX),
            "the byte_size",
        ),
        (with_image(|image| image.width = u32::MAX), "the width"),
        (with_image(|image| image.height = u32::MAX), "the height"),
        (with_source("a\0b"), "the source id"),
        (with_source(&"x".repeat(1025)), "the source id"),
    ]
}

async fn refuse_what_cannot_be_stored(store: &Store, database: &Database) {
    for (scan, named) in invalid_scans() {
        let error = store.save_scan(scan).await.unwrap_err();
        assert!(matches!(error, StoreError::Invalid(_)), "{error}");
        assert!(error.to_string().contains(named), "{named}: {error}");
    }
    // One invalid row rolls back the whole transaction.
    let mut twice = new_scan("refuse", 1);
    let face = face_at(10.0);
    twice.faces = vec![face.clone(), face];
    let error = store.save_scan(twice).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{error}");
    let query = "SELECT count(*) FROM images WHERE tenant = 'refuse'";
    assert_eq!(database.count(query).await, 0);
}

/// Postgres cannot store such texts, so neither database gets one, as a value to store or to look for.
async fn refuse_texts_with_nul(store: &Store) {
    let key = ApiKey {
        id: "nul".to_owned(),
        tenant: "nul".to_owned(),
        name: "a\0b".to_owned(),
        scopes: vec!["infer".to_owned()],
        digest: [1; 32],
        created_at: noon(),
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
    };
    let refused = [
        store.add_key(&key, None).await.err(),
        store.key("\0").await.err(),
        store.revoke_key("nul", "\0", noon(), None).await.err(),
        store.list_keys("a\0b").await.err(),
    ];
    for error in refused {
        assert!(matches!(error, Some(StoreError::NulInText)), "{error:?}");
    }
    assert_eq!(store.list_keys("nul").await.unwrap(), []);
}

/// Saves more faces than the parameters of one statement allow.
async fn save_many_faces(store: &Store) {
    let mut scan = new_scan("crowd", 1);
    scan.faces = (0..200).map(|x| face_at(x as f32)).collect();
    store.save_scan(scan.clone()).await.unwrap();
    let found = find(store, &scan).await.unwrap();
    let ids = |faces: &[StoredFace]| faces.iter().map(|face| face.id).collect::<Vec<_>>();
    assert_eq!(
        ids(&found.faces),
        scan.faces.iter().map(|face| face.id).collect::<Vec<_>>()
    );
}
