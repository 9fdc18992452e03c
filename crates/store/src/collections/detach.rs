//! Enrolled faces whose stored faces are deleted.

use uuid::Uuid;

use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::values::Many;

crate::prepared::statements! {
    /// A face that is enrolled meanwhile would be deleted with its scan.
    const LOCK_FACES = "UPDATE faces SET position = position WHERE scan_id IN (:scans)";

    const DETACH = "UPDATE enrollments SET face_id = NULL \
         WHERE face_id IN (SELECT id FROM faces WHERE scan_id IN (:scans))";
}

/// Keeps the enrollments of faces whose scans are about to be deleted for another reason than an erasure.
pub(crate) async fn detach_scans(
    connection: &mut Connection<'_>,
    scans: &[Uuid],
) -> Result<(), StoreError> {
    if scans.is_empty() {
        return Ok(());
    }
    let scans = params!(scans = Many(scans));
    connection.execute(LOCK_FACES, scans).await?;
    connection.execute(DETACH, scans).await?;
    Ok(())
}
