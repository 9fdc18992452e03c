//! The statements that store what a clustering found.

use std::collections::HashSet;

use time::OffsetDateTime;
use uuid::Uuid;

use super::clusterings;
use super::records::{Assignment, LeasedClustering};
use crate::call::change;
use crate::connection::{Connection, insert_rows, pieces};
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;
use crate::times::micros;
use crate::values::{Many, Rows, Value};

/// The rows of one statement.
const PAGE: usize = 300;

crate::prepared::statements! {
    const FACES =
        "SELECT row_id FROM enrollments WHERE collection_id = :collection AND row_id IN (:rows)";

    const PEOPLE = "SELECT id FROM people WHERE collection_id = :collection AND id IN (:people)";

    const FORGET = "DELETE FROM memberships WHERE NOT is_pinned AND row_id IN (:rows)";

    const DELETE_EMPTY = "DELETE FROM people WHERE id IN \
         (SELECT p.id FROM people p WHERE p.collection_id = :id \
         AND NOT EXISTS (SELECT 1 FROM memberships m WHERE m.person_id = p.id) LIMIT :limit)";

    const PUT = "INSERT INTO memberships (row_id, person_id, is_pinned) VALUES :rows \
         ON CONFLICT (row_id) DO UPDATE SET person_id = excluded.person_id \
         WHERE NOT memberships.is_pinned",
        rows "bigint, uuid, boolean";
}

impl Store {
    /// Adds people who have no faces yet. Returns false, and adds nobody, if the lease is lost.
    pub async fn add_people(
        &self,
        leased: &LeasedClustering,
        people: &[Uuid],
        now: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        change!(self, "add_people", |connection| {
            if !clusterings::hold(connection, leased).await? {
                return Ok(false);
            }
            let (library, now) = (leased.collection.id, micros(now));
            let rows = people.iter();
            let rows: Vec<[&dyn Value; 3]> = rows
                .map(|id| -> [&dyn Value; 3] { [id, &library, &now] })
                .collect();
            insert_rows(connection, "people (id, collection_id, created_at)", &rows).await?;
            Ok(true)
        })
    }

    /// Assigns faces to people, except faces that a user has pinned. Skips faces and people that do not exist any more.
    /// Returns false, and assigns nothing, if the lease is lost.
    pub async fn assign_people(
        &self,
        leased: &LeasedClustering,
        assignments: &[Assignment],
    ) -> Result<bool, StoreError> {
        change!(self, "assign_people", |connection| {
            // Users and erasures wait for this lock, so what is found below does not change until the commit.
            if !clusterings::hold(connection, leased).await? {
                return Ok(false);
            }
            let library = leased.collection.id;
            for page in assignments.chunks(PAGE) {
                let faces = existing_faces(connection, library, page).await?;
                let people = existing_people(connection, library, page).await?;
                let page = page
                    .iter()
                    .filter(|it| faces.contains(&it.row.cast_signed()));
                let (mut members, mut nobody) = (Vec::new(), Vec::new());
                for assignment in page {
                    let row = assignment.row.cast_signed();
                    match assignment.person {
                        Some(person) if people.contains(&person) => members.push((row, person)),
                        // A user has merged the person into another one meanwhile.
                        Some(_) => {}
                        None => nobody.push(row),
                    }
                }
                put(connection, &members).await?;
                forget(connection, &nobody).await?;
            }
            Ok(true)
        })
    }

    /// Deletes at most `limit` people of the library who have no faces. Returns their number, which is 0 if the lease is lost.
    pub async fn delete_empty_people(
        &self,
        leased: &LeasedClustering,
        limit: u32,
    ) -> Result<u64, StoreError> {
        change!(self, "delete_empty_people", |connection| {
            if !clusterings::hold(connection, leased).await? {
                return Ok(0);
            }
            let values = params!(id = leased.collection.id, limit);
            Ok(connection.execute(DELETE_EMPTY, values).await?)
        })
    }
}

async fn existing_faces(
    connection: &mut Connection<'_>,
    collection: Uuid,
    page: &[Assignment],
) -> Result<HashSet<i64>, StoreError> {
    let rows: Vec<i64> = page.iter().map(|it| it.row.cast_signed()).collect();
    let values = params!(collection, rows = Many(&rows));
    let found = connection.fetch_all(FACES, values).await?;
    Ok(found.into_iter().collect())
}

async fn existing_people(
    connection: &mut Connection<'_>,
    collection: Uuid,
    page: &[Assignment],
) -> Result<HashSet<Uuid>, StoreError> {
    let wanted: HashSet<Uuid> = page.iter().filter_map(|it| it.person).collect();
    if wanted.is_empty() {
        return Ok(wanted);
    }
    let people: Vec<Uuid> = wanted.into_iter().collect();
    let values = params!(collection, people = Many(&people));
    let found = connection.fetch_all(PEOPLE, values).await?;
    Ok(found.into_iter().collect())
}

/// Assigns faces, except those that a user has pinned.
async fn put(connection: &mut Connection<'_>, members: &[(i64, Uuid)]) -> Result<(), StoreError> {
    let rows: Vec<[&dyn Value; 3]> = members
        .iter()
        .map(|(row, person)| -> [&dyn Value; 3] { [row, person, &false] })
        .collect();
    for rows in pieces(&rows) {
        connection.execute(PUT, params!(rows = Rows(rows))).await?;
    }
    Ok(())
}

/// Removes faces from their people, except those that a user has pinned.
async fn forget(connection: &mut Connection<'_>, rows: &[i64]) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    connection
        .execute(FORGET, params!(rows = Many(rows)))
        .await?;
    Ok(())
}
