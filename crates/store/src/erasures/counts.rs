//! The counts of an erasure.

use uuid::Uuid;

use super::records::ErasedCounts;
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;

crate::prepared::statements! {
    const ADD = "UPDATE erasures SET images = images + :images, scans = scans + :scans, faces = faces + :faces, \
         vectors = vectors + :vectors, batches = batches + :batches, items = items + :items, payloads = payloads + :payloads, \
         subjects = subjects + :subjects, enrollments = enrollments + :enrollments \
         WHERE id = :erasure";
}

/// Adds to the counts of an erasure.
pub(super) async fn add(
    connection: &mut Connection<'_>,
    erasure: Uuid,
    counts: ErasedCounts,
) -> Result<(), StoreError> {
    let value = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let values = params!(
        erasure,
        images = value(counts.images),
        scans = value(counts.scans),
        faces = value(counts.faces),
        vectors = value(counts.vectors),
        batches = value(counts.batches),
        items = value(counts.items),
        payloads = value(counts.payloads),
        subjects = value(counts.subjects),
        enrollments = value(counts.enrollments)
    );
    connection.execute(ADD, values).await?;
    Ok(())
}
