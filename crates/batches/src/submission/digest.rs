//! The description of a new batch, and the digest that recognizes a repeated request.

use facescan_pipeline::{admission::Priority, core::image_file::hex, operation::BatchOperation};
use facescan_store::NewItem;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::entry::{CheckedEntry, EntryError};

/// The description of a batch, without its items.
#[derive(Clone, Debug)]
pub struct BatchHead {
    /// The operation.
    pub operation: BatchOperation,
    /// The options as sent.
    pub options: Value,
    /// The caller's name for the batch.
    pub name: Option<String>,
    /// The priority. By default that of the options, and bulk otherwise.
    pub priority: Option<Priority>,
    /// Whether the batch accepts more items later.
    pub open: bool,
    /// The key that identifies the request if it is sent again.
    pub idempotency_key: Option<String>,
    /// The address that is told when the batch ends, and the secret that signs the message.
    pub webhook: Option<(String, Option<String>)>,
}

/// Begins the digest of a request that creates a batch. Two bodies of different formats with equal content have equal
/// digests.
pub(super) fn begin_digest(head: &BatchHead, options: &Value) -> Sha256 {
    let head = json!({
        "operation": head.operation.name(),
        "options": options,
        "name": head.name,
        "priority": head.priority,
        "open": head.open,
        "webhook": head.webhook,
    });
    let mut digest = Sha256::new();
    digest.update(head.to_string());
    digest
}

/// Adds an entry to the digest.
pub(super) fn digest_entry(digest: &mut Sha256, entry: &Result<CheckedEntry, EntryError>) {
    let text = match entry {
        // Without a tree, because a body can have millions of entries that are nothing.
        Err(error) => format!(r#"{{"refused":"{}"}}"#, error.code()),
        Ok((item, _)) => {
            // Without `..`, so that the compiler requires a decision for each new field.
            let NewItem {
                id,
                payload,
                url,
                source,
                source_url,
                metadata,
            } = item;
            json!({
                "id": id,
                "payload": payload.map(|hash| hex(&hash)),
                "url": url,
                "source": source,
                "source_url": source_url,
                "metadata": metadata,
            })
            .to_string()
        }
    };
    // The length separates the entries.
    digest.update((text.len() as u64).to_le_bytes());
    digest.update(text);
}
