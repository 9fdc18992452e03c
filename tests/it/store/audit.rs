//! The audit trail: a chain for each tenant.

use std::time::Duration;

use facescan_audit::verify::{Evidence, Fault, NotedHead, Verdict, verify};
use facescan_store::{AuditEntry, ExpiryTimes, FIRST_HASH, NewAuditEntry, Store};

use super::fixtures::noon;

fn entry(tenant: &str, seconds: u64) -> NewAuditEntry {
    NewAuditEntry {
        tenant: tenant.into(),
        at: noon() + Duration::from_secs(seconds),
        request_id: format!("request-{seconds}"),
        key_id: seconds.is_multiple_of(2).then(|| "5f0c2a9be1d34c77".into()),
        action: "erase".into(),
        target: Some("ä \"quoted\" target".into()),
        details: r#"{"b":1,"a":[2.50]}"#.into(),
    }
}

pub async fn scenario(store: &Store) {
    assert_eq!(store.audit_chain("audit").await.unwrap(), None);
    // Entries of several tenants arrive together, and calls run at once.
    let together = [entry("audit", 0), entry("other", 0), entry("audit", 1)];
    store.append_audit(&together).await.unwrap();
    let calls = (2..10).map(|second| {
        let store = store.clone();
        tokio::spawn(async move { store.append_audit(&[entry("audit", second)]).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }

    let entries = store.audit_entries("audit", 0, 100).await.unwrap();
    let numbers: Vec<u64> = entries.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, (1..=10).collect::<Vec<_>>());
    assert_eq!(entries[0].entry, together[0]);
    assert_eq!(entries[0].previous_hash, FIRST_HASH);
    for pair in entries.windows(2) {
        assert_eq!(pair[1].previous_hash, pair[0].hash);
    }
    // The hash that docs/security.md describes, computed by Python.
    let first = "24ead1f6a9cfe84a";
    let hex: String = entries[0].hash[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(hex, first);
    let page = store.audit_entries("audit", 3, 2).await.unwrap();
    assert_eq!(page, entries[3..5]);
    verify_and_expire(store, &entries).await;
}

async fn verify_and_expire(store: &Store, entries: &[AuditEntry]) {
    let intact = |verdict| match verdict {
        Verdict::Intact { entries, chain } => (entries, chain.last),
        broken @ Verdict::Broken { .. } => panic!("{broken:?}"),
    };
    let check = async |heads: &[NotedHead], expires| {
        let evidence = Evidence {
            heads,
            expires,
            ..Evidence::default()
        };
        verify(store, "audit", evidence).await.unwrap()
    };
    assert_eq!(intact(check(&[], false).await), (10, 10));
    let noted = |number, hash| NotedHead { number, hash };
    let heads = [noted(7, entries[6].hash), noted(2, entries[1].hash)];
    assert_eq!(intact(check(&heads, false).await), (10, 10));
    let broken = |number, fault| Verdict::Broken { number, fault };
    for number in [7, 2] {
        // Each head counts, not only the newest one.
        let heads = [heads[0], noted(number, [1; 32]), heads[1]];
        let found = check(&heads, false).await;
        assert_eq!(found, broken(number, Fault::NotAsNoted));
    }
    assert_eq!(
        check(&[noted(12, [1; 32])], false).await,
        broken(11, Fault::Missing)
    );

    // Retention deletes from the start, and the rest is still a chain. The entries of concurrent calls can be out of order, so
    // the test expires those of the first call only.
    let before = noon() + Duration::from_secs(2);
    let expire = async |tenant: &str, before, limit| {
        let now = noon() + Duration::from_secs(1000);
        let times = ExpiryTimes { before, now };
        let expired = store.expire_audit(tenant, times, limit, &|_| None);
        expired.await.unwrap()
    };
    assert_eq!(expire("audit", before, 1).await, 1);
    assert_eq!(expire("audit", before, 100).await, 1);
    assert_eq!(expire("audit", before, 100).await, 0);
    assert_eq!(expire("unknown", before, 9).await, 0);
    assert_eq!(intact(check(&heads, true).await), (8, 10));
    assert_eq!(
        check(&[noted(2, [1; 32])], true).await,
        broken(2, Fault::NotAsNoted)
    );
    assert_eq!(check(&[], false).await, broken(1, Fault::KeptForever));
    let all = noon() + Duration::from_secs(100);
    assert_eq!(expire("audit", all, 100).await, 8);
    store.append_audit(&[entry("audit", 11)]).await.unwrap();
    assert_eq!(intact(check(&heads, true).await), (1, 11));
    let deletions = store.audit_deletions("audit", 0, 10).await.unwrap();
    let ranges: Vec<_> = deletions.iter().map(|it| (it.first, it.last())).collect();
    assert_eq!(ranges, [(1, 1), (2, 2), (3, 10)]);
    assert_eq!(deletions[2].hash(7), Some(entries[6].hash));
    let tenants = store.audited_tenants().await.unwrap();
    assert_eq!(tenants, ["audit", "other"]);
}
