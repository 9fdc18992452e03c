//! The counts of an erasure.

use uuid::Uuid;

use super::records::ErasedCounts;
use crate::connection::Connection;
use crate::error::StoreError;
use crate::values::Value;

const ADD: &str = "UPDATE erasures SET images = images + $2, scans = scans + $3, faces = faces + $4, \
     vectors = vectors + $5, batches = batches + $6, items = items + $7, payloads = payloads + $8, \
     subjects = subjects + $9, enrolments = enrolments + $10 \
     WHERE id = $1";

/// Adds to the counts of an erasure.
pub(super) async fn add(
    connection: &mut Connection<'_>,
    erasure: Uuid,
    counts: ErasedCounts,
) -> Result<(), StoreError> {
    let value = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let values: [&dyn Value; 10] = [
        &erasure,
        &value(counts.images),
        &value(counts.scans),
        &value(counts.faces),
        &value(counts.vectors),
        &value(counts.batches),
        &value(counts.items),
        &value(counts.payloads),
        &value(counts.subjects),
        &value(counts.enrolments),
    ];
    connection.execute(ADD, &values).await?;
    Ok(())
}

#[cfg(test)]
crate::prepared::statements!(ADD);
