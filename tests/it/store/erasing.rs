//! Erasing a row also erases everything that was derived from it.

use facescan_store::{ErasedCounts, ErasureTarget, NewScan, SavedScan, Store, StoredFace};
use uuid::Uuid;

use super::fixtures::{erase, face_at, find, new_scan, read_image, with_key};
use crate::support::database::Database;

pub async fn erase_a_face(store: &Store) {
    let mut first = new_scan("erase", 1);
    // The third face overlaps the first with an IoU of 0.54 in the same scan, so it is another person.
    first.faces = vec![face_at(10.0), face_at(200.0), face_at(40.0)];
    // `second` has the same face 20 px further right (IoU 0.67). `third` has a face that is only close to it (IoU 0.43).
    let mut second = with_key(&first, 2);
    second.faces = vec![face_at(30.0), face_at(200.0)];
    let mut third = with_key(&first, 3);
    third.faces = vec![face_at(50.0)];
    for scan in [&first, &second, &third] {
        store.save_scan(scan.clone()).await.unwrap();
    }
    let erased = first.faces[0].id;
    let report = erase(store, "erase", ErasureTarget::Face(erased)).await;
    let counts = report.unwrap().counts;
    assert_eq!((counts.faces, counts.vectors), (2, 2));
    let again = erase(store, "erase", ErasureTarget::Face(erased)).await;
    assert_eq!(again, None);
    assert!(store.face("erase", erased).await.unwrap().is_none());

    let left = |faces: &[StoredFace]| faces.iter().map(|face| face.id).collect::<Vec<_>>();
    let image = read_image(store, "erase", first.image.id).await.unwrap();
    assert_eq!(
        left(&image.scans[0].faces),
        [first.faces[1].id, first.faces[2].id]
    );
    assert_eq!(left(&image.scans[1].faces), [second.faces[1].id]);
    assert_eq!(left(&image.scans[2].faces), [third.faces[0].id]);
    // Scans that lost the face no longer answer. The scan that never had it still answers.
    assert_eq!(find(store, &first).await, None);
    assert_eq!(find(store, &second).await, None);
    assert_eq!(find(store, &third).await.unwrap().id, third.id);

    // A new scan replaces the incomplete one.
    let mut anew = NewScan {
        id: Uuid::now_v7(),
        ..first.clone()
    };
    anew.faces = vec![face_at(200.0)];
    let saved = store.save_scan(anew.clone()).await.unwrap();
    assert_eq!(
        saved,
        SavedScan::Written {
            image_id: first.image.id
        }
    );
    assert_eq!(find(store, &first).await.unwrap().id, anew.id);
    assert!(
        store
            .face("erase", first.faces[1].id)
            .await
            .unwrap()
            .is_none()
    );
}

pub async fn erase_an_image(store: &Store, database: &Database) {
    let tables = ["images", "image_sources", "scans", "faces", "embeddings"];
    let counts = async || {
        let mut counts = vec![];
        for table in tables {
            counts.push(
                database
                    .count(&format!("SELECT count(*) FROM {table}"))
                    .await,
            );
        }
        counts
    };
    let before = counts().await;
    let mut scan = new_scan("gone", 1);
    scan.faces = vec![face_at(10.0), face_at(200.0)];
    store.save_scan(scan.clone()).await.unwrap();
    let added: Vec<_> = counts()
        .await
        .iter()
        .zip(&before)
        .map(|(now, then)| now - then)
        .collect();
    assert_eq!(added, [1, 1, 1, 2, 2]);
    let target = ErasureTarget::Image(scan.image.id);
    let report = erase(store, "gone", target.clone()).await.unwrap();
    let expected = ErasedCounts {
        images: 1,
        scans: 1,
        faces: 2,
        vectors: 2,
        ..ErasedCounts::default()
    };
    assert_eq!(report.counts, expected);
    assert_eq!(counts().await, before);
    assert!(read_image(store, "gone", scan.image.id).await.is_none());
    assert_eq!(erase(store, "gone", target).await, None);
}
