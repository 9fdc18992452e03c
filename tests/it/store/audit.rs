//! The audit trail: a chain for each tenant.

use std::time::Duration;

use facescan::audit::verify::{Fault, NotedHead, Verdict, verify};
use facescan_store::{AuditEntry, FIRST_HASH, NewAuditEntry, Stores};

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

pub async fn scenario(stores: &Stores) {
    let audit = &stores.audit;
    assert_eq!(audit.audit_chain("audit").await.unwrap(), None);
    // Entries of several tenants arrive together, and calls run at once.
    let together = [entry("audit", 0), entry("other", 0), entry("audit", 1)];
    audit.append_audit(&together).await.unwrap();
    let calls = (2..10).map(|second| {
        let audit = audit.clone();
        tokio::spawn(async move { audit.append_audit(&[entry("audit", second)]).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }

    let entries = audit.audit_entries("audit", 0, 100).await.unwrap();
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
    let page = audit.audit_entries("audit", 3, 2).await.unwrap();
    assert_eq!(page, entries[3..5]);
    verify_and_expire(stores, &entries).await;
}

async fn verify_and_expire(stores: &Stores, entries: &[AuditEntry]) {
    let audit = &stores.audit;
    let intact = |verdict| match verdict {
        Verdict::Intact { entries, chain } => (entries, chain.last),
        broken @ Verdict::Broken { .. } => panic!("{broken:?}"),
    };
    assert_eq!(
        intact(verify(&**audit, "audit", None).await.unwrap()),
        (10, 10)
    );
    let noted = |number, hash| Some(NotedHead { number, hash });
    let head = noted(7, entries[6].hash);
    assert_eq!(
        intact(verify(&**audit, "audit", head).await.unwrap()),
        (10, 10)
    );
    let broken = |number, fault| Verdict::Broken { number, fault };
    assert_eq!(
        verify(&**audit, "audit", noted(7, [1; 32])).await.unwrap(),
        broken(7, Fault::NotAsNoted)
    );
    assert_eq!(
        verify(&**audit, "audit", noted(12, [1; 32])).await.unwrap(),
        broken(11, Fault::Missing)
    );

    // Retention deletes from the start, and the rest is still a chain. The entries of concurrent calls can be out of order, so
    // the test expires those of the first call only.
    let before = noon() + Duration::from_secs(2);
    assert_eq!(audit.expire_audit("audit", before, 1).await.unwrap(), 1);
    assert_eq!(audit.expire_audit("audit", before, 100).await.unwrap(), 1);
    assert_eq!(audit.expire_audit("audit", before, 100).await.unwrap(), 0);
    assert_eq!(audit.expire_audit("unknown", before, 9).await.unwrap(), 0);
    assert_eq!(
        intact(verify(&**audit, "audit", None).await.unwrap()),
        (8, 10)
    );
    let all = noon() + Duration::from_secs(100);
    assert_eq!(audit.expire_audit("audit", all, 100).await.unwrap(), 8);
    audit.append_audit(&[entry("audit", 11)]).await.unwrap();
    assert_eq!(
        intact(verify(&**audit, "audit", None).await.unwrap()),
        (1, 11)
    );
    let tenants = audit.audited_tenants().await.unwrap();
    assert_eq!(tenants, ["audit", "other"]);
}
