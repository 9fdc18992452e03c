//! Enrolled faces whose stored faces are deleted.

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::connection::{Connection, placeholders};
use crate::error::StoreError;
use crate::values::Value;

/// Keeps the enrolments of faces whose scans are about to be deleted for another reason than an erasure.
pub(crate) async fn detach_scans(
    connection: &mut Connection<'_>,
    scans: &[Uuid],
) -> Result<(), StoreError> {
    if scans.is_empty() {
        return Ok(());
    }
    let list = placeholders(1, 1, scans.len());
    let values: Vec<&dyn Value> = scans.iter().map(|scan| scan as &dyn Value).collect();
    // A face that is enrolled meanwhile would be deleted with its scan.
    let lock = format!("UPDATE faces SET position = position WHERE scan_id IN {list}");
    connection.execute(AssertSqlSafe(lock), &values).await?;
    let detach = format!(
        "UPDATE enrolments SET face_id = NULL \
         WHERE face_id IN (SELECT id FROM faces WHERE scan_id IN {list})"
    );
    connection.execute(AssertSqlSafe(detach), &values).await?;
    Ok(())
}
