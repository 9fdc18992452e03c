//! Scans that the store tests save.

use facescan_imaging::{geometry::BBox, precision::NumericPrecision};
use facescan_store::{
    Embedder, Embedding, Erasure, ErasureTarget, ModelFile, NewErasure, NewFace, NewImage, NewScan,
    PageRequest, ScanPage, ScanRecord, Source, Store, StoredImage, StoredScan,
};
use serde_json::json;
use time::OffsetDateTime;
use uuid::Uuid;

/// Returns a time that uses every digit that the databases keep.
pub fn noon() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp_nanos(1_748_779_200_123_456_000).unwrap()
}

/// Returns a request for a page of a list.
pub fn page(after: Option<Uuid>, limit: u32) -> PageRequest {
    PageRequest { after, limit }
}

/// Returns the stored scan that answers for `scan`.
pub async fn find(store: &Store, scan: &NewScan) -> Option<StoredScan> {
    let found = store
        .find_scan(&scan.tenant, &scan.image.sha256, &scan.record.scan_key)
        .await
        .unwrap()?;
    assert_eq!(found.image.id, found.scan.image_id);
    assert_eq!(found.image.sha256, scan.image.sha256);
    Some(found.scan)
}

/// Returns an image with its scans.
pub async fn read_image(store: &Store, tenant: &str, id: Uuid) -> Option<StoredImage> {
    let page = ScanPage {
        after: None,
        limit: 100,
        max_bytes: u64::MAX,
    };
    store.image(tenant, id, page).await.unwrap()
}

pub fn source(id: &str, url: Option<&str>, seen_at: OffsetDateTime) -> Source {
    Source {
        id: Some(id.into()),
        url: url.map(Into::into),
        seen_at,
    }
}

/// Returns a scan without faces, of image `number` of the tenant.
pub fn new_scan(tenant: &str, number: u8) -> NewScan {
    NewScan {
        id: Uuid::now_v7(),
        tenant: tenant.into(),
        image: NewImage {
            id: Uuid::now_v7(),
            sha256: [number; 32],
            byte_size: 5_000_000_000,
            width: 1280,
            height: 886,
            format: "jpeg".into(),
            orientation: 6,
            perceptual_hash: Some(u64::MAX - 1),
        },
        source: Some(source("cam", None, noon())),
        record: ScanRecord {
            scan_key: [number.wrapping_add(100); 32],
            operation: "embed".into(),
            detector: Some(ModelFile {
                id: "yunet".into(),
                sha256: [8; 32],
            }),
            embedder: Some(Embedder {
                id: "sface".into(),
                vector_space: "c1".into(),
            }),
            picture_quality: Some(json!({"brightness": 0.25})),
            devices: Some(json!({"face_detection": {"requested": "cpu", "active": "cpu"}})),
            answers_cache: true,
            created_at: noon(),
            image_embedding: None,
        },
        faces: vec![],
    }
}

/// Returns a scan of the same image with other options.
pub fn with_key(scan: &NewScan, key: u8) -> NewScan {
    let record = ScanRecord {
        scan_key: [key; 32],
        ..scan.record.clone()
    };
    NewScan {
        id: Uuid::now_v7(),
        record,
        ..scan.clone()
    }
}

/// Returns a face of 100 × 100 px at `x`.
pub fn face_at(x: f32) -> NewFace {
    NewFace {
        id: Uuid::now_v7(),
        bbox: BBox {
            x1: x,
            y1: 20.25,
            x2: x + 100.0,
            y2: 120.25,
        },
        score: Some(0.93),
        landmarks: Some([[x, 0.1], [1.5, 2.5], [3.25, 4.125], [5.0, 6.0], [7.0, 1e-7]]),
        results: None,
        embedding: Some(Embedding {
            vector_space: "c1".into(),
            precision: NumericPrecision::F32,
            norm: 9.5,
            vector: vec![0.6, 0.8],
        }),
    }
}

/// Erases an image, a face, what a collection has, or everything. Returns `None` if the tenant has no such thing.
pub async fn erase(store: &Store, tenant: &str, target: ErasureTarget) -> Option<Erasure> {
    let id = Uuid::now_v7();
    let new = NewErasure {
        id,
        tenant: tenant.into(),
        target: target.clone(),
        requested_at: noon(),
        audit: None,
    };
    if !store.begin_erasure(&new).await.unwrap() {
        return None;
    }
    match &target {
        ErasureTarget::Image(image) => store.erase_images(id, tenant, &[*image]).await.unwrap(),
        ErasureTarget::Face(face) => store.erase_face(id, tenant, *face).await.unwrap(),
        ErasureTarget::Tenant => {
            let images = store.images_to_erase(tenant, &target, Uuid::nil(), 100);
            let images: Vec<Uuid> = images.await.unwrap().iter().map(|image| image.id).collect();
            store.erase_images(id, tenant, &images).await.unwrap();
        }
        _ => {}
    }
    loop {
        let erased = store.erase_from_collections(id, tenant, &target);
        if erased.await.unwrap() {
            return store.end_erasure(id, noon()).await.unwrap();
        }
    }
}
