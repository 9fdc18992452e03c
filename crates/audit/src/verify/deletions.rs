//! Whether retention has deleted what is before the start of a chain.

use facescan_store::{AuditChain, AuditDeletion, FIRST_HASH, Store, StoreError};

use super::{Evidence, Fault};

/// The deletions that are read at a time. Each has the hashes of hundreds of entries.
const PAGE: u32 = 100;

/// Returns the first entry before the start of a chain that retention has not deleted, or whose hash is not the one that was
/// noted.
pub(super) async fn fault(
    store: &Store,
    tenant: &str,
    (chain, evidence): (&AuditChain, Evidence<'_>),
) -> Result<Option<(u64, Fault)>, StoreError> {
    if chain.deleted > 0 && !evidence.expires {
        return Ok(Some((1, Fault::KeptForever)));
    }
    let (mut last, mut hash) = (0, FIRST_HASH);
    while last < chain.deleted {
        let page = store.audit_deletions(tenant, last, PAGE).await?;
        if page.is_empty() {
            return Ok(Some((last + 1, Fault::NotExpired)));
        }
        for deletion in page {
            if !is_recorded(&deletion, last + 1, evidence) {
                return Ok(Some((last + 1, Fault::NotExpired)));
            }
            for deleted in deletion.hashes {
                (last, hash) = (last + 1, deleted);
                if !evidence.agrees(last, &hash) {
                    return Ok(Some((last, Fault::NotAsNoted)));
                }
            }
        }
    }
    let is_end = (last, hash) == (chain.deleted, chain.deleted_hash);
    Ok((!is_end).then_some((chain.deleted, Fault::NotExpired)))
}

/// Returns whether a deletion continues those before it and has a valid signature.
fn is_recorded(deletion: &AuditDeletion, first: u64, evidence: Evidence<'_>) -> bool {
    let is_signed = evidence.key.is_none_or(|key| {
        let text = deletion.signed_text();
        let signature = deletion.signature;
        signature.is_some_and(|signature| key.verifies(&text, &signature))
    });
    deletion.first == first && is_signed
}
