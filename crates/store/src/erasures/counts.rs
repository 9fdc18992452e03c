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
    let values = params!(
        erasure,
        images = counts.images,
        scans = counts.scans,
        faces = counts.faces,
        vectors = counts.vectors,
        batches = counts.batches,
        items = counts.items,
        payloads = counts.payloads,
        subjects = counts.subjects,
        enrollments = counts.enrollments
    );
    connection.execute(ADD, values).await?;
    Ok(())
}
