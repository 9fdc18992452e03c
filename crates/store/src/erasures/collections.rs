//! Erasing collections, subjects and enrolled faces.

use uuid::Uuid;

use super::{ErasedCounts, ErasureTarget, rows};
use crate::{StoreError, dialect::Statements, record::record, values::Value};

/// The statements of a target.
struct Selection {
    lock: &'static str,
    size: &'static str,
    delete: &'static str,
}

const COLLECTION: Selection = Selection {
    lock: "UPDATE collections SET position = position WHERE tenant = $1 AND id = $2",
    size: "SELECT \
         (SELECT count(*) FROM subjects WHERE collection_id = c.id) AS subjects, \
         (SELECT count(*) FROM enrolments WHERE collection_id = c.id) AS enrolments \
         FROM collections c WHERE c.tenant = $1 AND c.id = $2",
    delete: "DELETE FROM collections WHERE tenant = $1 AND id = $2",
};

const SUBJECT: Selection = Selection {
    lock: "UPDATE collections SET position = position WHERE tenant = $1 \
         AND id = (SELECT collection_id FROM subjects WHERE id = $2)",
    size: "SELECT CAST(1 AS bigint) AS subjects, \
         (SELECT count(*) FROM enrolments WHERE subject_id = s.id) AS enrolments \
         FROM subjects s JOIN collections c ON c.id = s.collection_id \
         WHERE c.tenant = $1 AND s.id = $2",
    delete: "DELETE FROM subjects WHERE id = $2 \
         AND collection_id IN (SELECT id FROM collections WHERE tenant = $1)",
};

const ENROLMENT: Selection = Selection {
    lock: "UPDATE collections SET position = position WHERE tenant = $1 \
         AND id = (SELECT collection_id FROM enrolments WHERE id = $2)",
    size: "SELECT CAST(0 AS bigint) AS subjects, CAST(1 AS bigint) AS enrolments \
         FROM enrolments e JOIN collections c ON c.id = e.collection_id \
         WHERE c.tenant = $1 AND e.id = $2",
    delete: "DELETE FROM enrolments WHERE id = $2 \
         AND collection_id IN (SELECT id FROM collections WHERE tenant = $1)",
};

const TENANT: Selection = Selection {
    lock: "UPDATE collections SET position = position WHERE tenant = $1",
    size: "SELECT \
         (SELECT count(*) FROM subjects WHERE collection_id = c.id) AS subjects, \
         (SELECT count(*) FROM enrolments WHERE collection_id = c.id) AS enrolments \
         FROM collections c WHERE c.tenant = $1",
    delete: "DELETE FROM collections WHERE tenant = $1",
};

record! {
    struct SizeRow {
        subjects: i64,
        enrolments: i64,
    }
}

/// Deletes rows; see [`super::ErasureStore::erase_from_collections`]. Run it in a transaction.
pub(super) async fn erase(
    connection: &mut impl Statements,
    erasure: Uuid,
    tenant: &str,
    target: &ErasureTarget,
) -> Result<(), StoreError> {
    let mut values: Vec<&dyn Value> = vec![&tenant];
    let (selection, id) = match target {
        ErasureTarget::Collection(id) => (COLLECTION, Some(id)),
        ErasureTarget::Subject(id) => (SUBJECT, Some(id)),
        ErasureTarget::Enrolment(id) => (ENROLMENT, Some(id)),
        ErasureTarget::Tenant => (TENANT, None),
        ErasureTarget::Image(_)
        | ErasureTarget::Face(_)
        | ErasureTarget::Source(_)
        | ErasureTarget::Host(_)
        | ErasureTarget::Batch(_) => return Ok(()),
    };
    values.extend(id.map(|id| id as &dyn Value));
    // An enrolment locks its collection first, so this does too.
    connection.execute(selection.lock, &values).await?;
    let sizes: Vec<SizeRow> = connection.fetch_all(selection.size, &values).await?;
    connection.execute(selection.delete, &values).await?;
    let sum = |column: fn(&SizeRow) -> i64| sizes.iter().map(column).sum::<i64>().cast_unsigned();
    let counts = ErasedCounts {
        subjects: sum(|size| size.subjects),
        enrolments: sum(|size| size.enrolments),
        ..ErasedCounts::default()
    };
    rows::add(connection, erasure, counts).await
}
