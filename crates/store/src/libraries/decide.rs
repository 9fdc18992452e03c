//! The statements that store what users decide about people.
//!
//! A decision pins faces: no clustering changes them afterwards. Merging pins all faces of the people, and splitting pins the
//! faces of both, because the user has looked at them.

use time::OffsetDateTime;
use uuid::Uuid;

use super::records::{Decided, Decision};
use crate::audit::{NewAuditEntry, append};
use crate::call::change;
use crate::collections::{CollectionKey, lock};
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;
use crate::times::micros;
use crate::values::Many;

crate::prepared::statements! {
    const PERSON = "SELECT id FROM people WHERE collection_id = :collection AND id = :person";

    const FACE = "SELECT e.row_id, m.person_id FROM enrollments e \
         LEFT JOIN memberships m ON m.row_id = e.row_id \
         WHERE e.collection_id = :collection AND e.id = :face AND e.subject_id IS NULL";

    const RENAME = "UPDATE people SET name = :name WHERE id = :person";

    const ADD =
        "INSERT INTO people (id, collection_id, created_at) VALUES (:id, :collection_id, :created_at)";

    const OTHERS = "SELECT row_id, person_id FROM memberships \
         WHERE person_id = :person AND row_id NOT IN (:rows) LIMIT 1";

    const MOVE = "UPDATE memberships SET person_id = :person WHERE row_id IN (:rows)";

    const MOVE_ALL =
        "UPDATE memberships SET person_id = :into, is_pinned = :is_pinned WHERE person_id = :person";

    const PUT = "INSERT INTO memberships (row_id, person_id, is_pinned) VALUES (:row_id, :person_id, :is_pinned) \
         ON CONFLICT (row_id) DO UPDATE SET person_id = excluded.person_id, is_pinned = excluded.is_pinned";

    const UNPIN = "UPDATE memberships SET is_pinned = :is_pinned WHERE row_id = :row_id AND person_id IS NOT NULL";

    const FORGET = "DELETE FROM memberships WHERE row_id = :row_id AND person_id IS NULL";

    /// Deletes a person who has no faces any more.
    const DELETE_EMPTY = "DELETE FROM people WHERE id = :person \
         AND NOT EXISTS (SELECT 1 FROM memberships m WHERE m.person_id = :person)";
}

impl Store {
    /// Stores what a user decides about people.
    pub async fn decide(
        &self,
        key: CollectionKey<'_>,
        decision: &Decision,
        now: OffsetDateTime,
        audit: Option<NewAuditEntry>,
    ) -> Result<Decided, StoreError> {
        change!(self, "decide", |connection| {
            if !lock(connection, key).await? {
                return Ok(Decided::NoCollection);
            }
            let decided = match decision {
                Decision::Rename { person, name } => {
                    rename(connection, (key.id, *person), name.as_deref()).await?
                }
                Decision::Merge { into, people } => {
                    merge(connection, (key.id, *into), people).await?
                }
                Decision::Split { person, faces, new } => {
                    split(connection, (key.id, *person), faces, (*new, now)).await?
                }
                Decision::Assign { face, person } => {
                    assign(connection, (key.id, *face), *person).await?
                }
                Decision::Unpin { face } => unpin(connection, (key.id, *face)).await?,
            };
            if decided == Decided::Done {
                append(connection, audit.as_slice()).await?;
            }
            Ok(decided)
        })
    }
}

async fn has_person(
    connection: &mut Connection<'_>,
    collection: Uuid,
    person: Uuid,
) -> Result<bool, StoreError> {
    let values = params!(collection, person);
    Ok(connection.exists(PERSON, values).await?)
}

/// Returns the row of a face, and the person that it shows.
async fn find_face(
    connection: &mut Connection<'_>,
    collection: Uuid,
    face: Uuid,
) -> Result<Option<(i64, Option<Uuid>)>, StoreError> {
    let values = params!(collection, face);
    Ok(connection.fetch_optional(FACE, values).await?)
}

async fn rename(
    connection: &mut Connection<'_>,
    (collection, person): (Uuid, Uuid),
    name: Option<&str>,
) -> Result<Decided, StoreError> {
    if !has_person(connection, collection, person).await? {
        return Ok(Decided::NoPerson(person));
    }
    connection
        .execute(RENAME, params!(person, name = name.map(str::to_owned)))
        .await?;
    Ok(Decided::Done)
}

async fn merge(
    connection: &mut Connection<'_>,
    (collection, into): (Uuid, Uuid),
    people: &[Uuid],
) -> Result<Decided, StoreError> {
    for person in people.iter().chain([&into]) {
        if !has_person(connection, collection, *person).await? {
            return Ok(Decided::NoPerson(*person));
        }
    }
    for person in people.iter().chain([&into]) {
        let values = params!(into, person = *person, is_pinned = true);
        connection.execute(MOVE_ALL, values).await?;
        connection
            .execute(DELETE_EMPTY, params!(person = *person))
            .await?;
    }
    Ok(Decided::Done)
}

/// Makes some faces of a person those of a new one.
async fn split(
    connection: &mut Connection<'_>,
    (collection, person): (Uuid, Uuid),
    faces: &[Uuid],
    (new, now): (Uuid, OffsetDateTime),
) -> Result<Decided, StoreError> {
    if !has_person(connection, collection, person).await? {
        return Ok(Decided::NoPerson(person));
    }
    let mut rows = Vec::with_capacity(faces.len());
    for face in faces {
        match find_face(connection, collection, *face).await? {
            Some((row, Some(shown))) if shown == person => rows.push(row),
            _ => return Ok(Decided::NoFace(*face)),
        }
    }
    let values = params!(person, rows = Many(&rows));
    if !connection.exists(OTHERS, values).await? {
        return Ok(Decided::NobodyLeft);
    }
    let values = params!(
        id = new,
        collection_id = collection,
        created_at = micros(now)
    );
    connection.execute(ADD, values).await?;
    let values = params!(into = person, person, is_pinned = true);
    connection.execute(MOVE_ALL, values).await?;
    let values = params!(person = new, rows = Many(&rows));
    connection.execute(MOVE, values).await?;
    Ok(Decided::Done)
}

async fn assign(
    connection: &mut Connection<'_>,
    (collection, face): (Uuid, Uuid),
    person: Option<Uuid>,
) -> Result<Decided, StoreError> {
    if let Some(person) = person
        && !has_person(connection, collection, person).await?
    {
        return Ok(Decided::NoPerson(person));
    }
    let Some((row_id, before)) = find_face(connection, collection, face).await? else {
        return Ok(Decided::NoFace(face));
    };
    let values = params!(row_id, person_id = person, is_pinned = true);
    connection.execute(PUT, values).await?;
    if let Some(before) = before {
        connection
            .execute(DELETE_EMPTY, params!(person = before))
            .await?;
    }
    Ok(Decided::Done)
}

async fn unpin(
    connection: &mut Connection<'_>,
    (collection, face): (Uuid, Uuid),
) -> Result<Decided, StoreError> {
    let Some((row_id, _)) = find_face(connection, collection, face).await? else {
        return Ok(Decided::NoFace(face));
    };
    connection
        .execute(UNPIN, params!(row_id, is_pinned = false))
        .await?;
    connection.execute(FORGET, params!(row_id)).await?;
    Ok(Decided::Done)
}
