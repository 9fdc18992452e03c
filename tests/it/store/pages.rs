//! Pages of what an image has.

use std::time::Duration;

use facescan_store::{ScanPage, Store, StoredImage};

use super::fixtures::{face_at, new_scan, noon, read_image, source, with_key};

/// A page of scans ends by its number or its bytes, and the next one continues after it.
pub async fn end_a_page_of_scans_by_bytes(store: &Store) {
    let first = new_scan("scan pages", 1);
    let mut ids = Vec::new();
    for number in 0..5 {
        // About 3.3 KB: 512 bytes for the scan, its two trees, and for each face 512 bytes and its vector.
        let mut scan = with_key(&first, number);
        scan.faces = [1.0, 201.0, 401.0, 601.0].map(face_at).to_vec();
        ids.push(scan.id);
        store.save_scan(scan).await.unwrap();
    }
    for (limit, max_bytes, expected) in [
        (100, u64::MAX, &[5][..]),
        (5, u64::MAX, &[5]),
        (2, u64::MAX, &[2, 2, 1]),
        (100, 7_000, &[2, 2, 1]),
        (1, 7_000, &[1, 1, 1, 1, 1]),
        // A page has at least one scan.
        (100, 0, &[1, 1, 1, 1, 1]),
    ] {
        let (mut found, mut sizes, mut after) = (Vec::new(), Vec::new(), None);
        loop {
            let page = ScanPage {
                after,
                limit,
                max_bytes,
            };
            let image = store.image("scan pages", first.image.id, page).await;
            let image = image.unwrap().unwrap();
            sizes.push(image.scans.len());
            assert!(image.scans.iter().all(|scan| scan.faces.len() == 4));
            found.extend(image.scans.iter().map(|scan| scan.id));
            after = image.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(
            (&found, &sizes[..]),
            (&ids, expected),
            "{limit} {max_bytes}"
        );
    }
}

/// An image has its newest sources only, because anybody can add one with each request.
pub async fn return_the_newest_sources(store: &Store) {
    let scan = new_scan("sources", 1);
    store.save_scan(scan.clone()).await.unwrap();
    for number in 1..=StoredImage::MAX_SOURCES as u64 {
        let seen_at = noon() + Duration::from_secs(number);
        let source = source(&format!("cam {number}"), None, seen_at);
        let image = scan.image.id;
        assert!(store.add_source("sources", image, &source).await.unwrap());
    }
    let image = read_image(store, "sources", scan.image.id).await.unwrap();
    assert_eq!(image.sources.len(), StoredImage::MAX_SOURCES);
    assert_eq!(image.sources[0].id.as_deref(), Some("cam 1"));
    assert_eq!(
        image.sources.last().unwrap().id.as_deref(),
        Some("cam 1000")
    );
}
