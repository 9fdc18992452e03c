//! Deleting what is too old.

use std::time::Duration;

use facescan_store::{ExpiredResults, ExpiryTimes, NewScan, Store};
use time::OffsetDateTime;
use uuid::{NoContext, Timestamp, Uuid};

use super::fixtures::{face_at, find, new_scan, noon, with_key};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn id_at(time: OffsetDateTime) -> Uuid {
    let seconds = time.unix_timestamp().cast_unsigned();
    Uuid::new_v7(Timestamp::from_unix(NoContext, seconds, time.nanosecond()))
}

/// Returns a scan that was computed at a time.
fn scan_at(time: OffsetDateTime, image: u8) -> NewScan {
    let mut scan = new_scan("old", image);
    scan.image.id = id_at(time);
    scan.id = id_at(time);
    scan.record.created_at = time;
    scan.faces = vec![face_at(10.0)];
    scan
}

pub async fn scenario(store: &Store) {
    let (first, second) = (scan_at(noon(), 1), scan_at(noon() + 2 * DAY, 2));
    // The first image is scanned again later, with another key.
    let mut again = with_key(&scan_at(noon(), 1), 99);
    again.id = id_at(noon() + 2 * DAY);
    again.record.created_at = noon() + 2 * DAY;
    for scan in [&first, &again, &second] {
        store.save_scan(scan.clone()).await.unwrap();
    }
    let tenants = store.storing_tenants().await.unwrap();
    assert!(tenants.contains(&"old".to_owned()), "{tenants:?}");
    let expire = async |tenant, before, limit| {
        let times = ExpiryTimes {
            before,
            now: noon(),
        };
        let expired = store.expire_results(tenant, times, limit).await;
        let ExpiredResults { scans, images } = expired.unwrap();
        (scans, images)
    };
    assert_eq!(expire("old", noon(), 10).await, (0, 0));
    assert_eq!(expire("nobody", noon() + DAY, 10).await, (0, 0));
    // The image stays for its later scan.
    assert_eq!(expire("old", noon() + DAY, 10).await, (1, 0));
    let has_unpurged = store.has_unpurged_erasures(noon() + DAY);
    assert!(has_unpurged.await.unwrap());
    assert_eq!(find(store, &first).await, None);
    assert!(find(store, &again).await.is_some());
    assert_eq!(expire("old", noon() + 3 * DAY, 1).await, (1, 1));
    assert_eq!(expire("old", noon() + 3 * DAY, 10).await, (1, 1));
    assert_eq!(expire("old", noon() + 3 * DAY, 10).await, (0, 0));
    let tenants = store.storing_tenants().await.unwrap();
    assert!(!tenants.contains(&"old".to_owned()), "{tenants:?}");
}
