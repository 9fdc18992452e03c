//! The statements that store what users decide about people.
//!
//! A decision pins faces: no clustering changes them afterwards. Merging pins all faces of the people, and splitting pins the
//! faces of both, because the user has looked at them.

use sqlx::AssertSqlSafe;
use time::OffsetDateTime;
use uuid::Uuid;

use super::records::{Decided, Decision};
use crate::audit::{NewAuditEntry, append};
use crate::call::change;
use crate::collections::{CollectionKey, lock};
use crate::connection::{Connection, placeholders};
use crate::error::StoreError;
use crate::record::record;
use crate::rows::IdRow;
use crate::store::Store;
use crate::times::micros;
use crate::values::Value;

const PERSON: &str = "SELECT id FROM people WHERE collection_id = $1 AND id = $2";

const FACE: &str = "SELECT e.row_id, m.person_id FROM enrolments e \
     LEFT JOIN memberships m ON m.row_id = e.row_id \
     WHERE e.collection_id = $1 AND e.id = $2 AND e.subject_id IS NULL";

const RENAME: &str = "UPDATE people SET name = $2 WHERE id = $1";

const ADD: &str = "INSERT INTO people (id, collection_id, created_at) VALUES ($1, $2, $3)";

const MOVE_ALL: &str = "UPDATE memberships SET person_id = $1, is_pinned = $3 WHERE person_id = $2";

const PUT: &str = "INSERT INTO memberships (row_id, person_id, is_pinned) VALUES ($1, $2, $3) \
     ON CONFLICT (row_id) DO UPDATE SET person_id = excluded.person_id, is_pinned = excluded.is_pinned";

const UNPIN: &str =
    "UPDATE memberships SET is_pinned = $2 WHERE row_id = $1 AND person_id IS NOT NULL";

const FORGET: &str = "DELETE FROM memberships WHERE row_id = $1 AND person_id IS NULL";

/// Deletes a person who has no faces any more.
const DELETE_EMPTY: &str = "DELETE FROM people WHERE id = $1 \
     AND NOT EXISTS (SELECT 1 FROM memberships m WHERE m.person_id = $1)";

record! {
    struct FoundFace {
        row_id: i64,
        person_id: Option<Uuid>,
    }
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
                    let split = Split {
                        collection: key.id,
                        person: *person,
                        new: *new,
                    };
                    split.run(connection, faces, now).await?
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
    let values: [&dyn Value; 2] = [&collection, &person];
    let found: Option<IdRow> = connection.fetch_optional(PERSON, &values).await?;
    Ok(found.is_some())
}

async fn find_face(
    connection: &mut Connection<'_>,
    collection: Uuid,
    face: Uuid,
) -> Result<Option<FoundFace>, StoreError> {
    Ok(connection
        .fetch_optional(FACE, &[&collection, &face])
        .await?)
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
        .execute(RENAME, &[&person, &name.map(str::to_owned)])
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
        let values: [&dyn Value; 3] = [&into, person, &true];
        connection.execute(MOVE_ALL, &values).await?;
        connection.execute(DELETE_EMPTY, &[person]).await?;
    }
    Ok(Decided::Done)
}

/// Some faces of a person become a new one.
struct Split {
    collection: Uuid,
    person: Uuid,
    new: Uuid,
}

impl Split {
    async fn run(
        &self,
        connection: &mut Connection<'_>,
        faces: &[Uuid],
        now: OffsetDateTime,
    ) -> Result<Decided, StoreError> {
        if !has_person(connection, self.collection, self.person).await? {
            return Ok(Decided::NoPerson(self.person));
        }
        let mut rows = Vec::with_capacity(faces.len());
        for face in faces {
            match find_face(connection, self.collection, *face).await? {
                Some(found) if found.person_id == Some(self.person) => rows.push(found.row_id),
                _ => return Ok(Decided::NoFace(*face)),
            }
        }
        let mut values: Vec<&dyn Value> = vec![&self.person];
        values.extend(rows.iter().map(|row| row as &dyn Value));
        let others = format!(
            "SELECT row_id, person_id FROM memberships WHERE person_id = $1 AND row_id NOT IN {} LIMIT 1",
            placeholders(2, 1, rows.len())
        );
        let others: Vec<FoundFace> = connection.fetch_all(AssertSqlSafe(others), &values).await?;
        if others.is_empty() {
            return Ok(Decided::NobodyLeft);
        }
        let values: [&dyn Value; 3] = [&self.new, &self.collection, &micros(now)];
        connection.execute(ADD, &values).await?;
        let values: [&dyn Value; 3] = [&self.person, &self.person, &true];
        connection.execute(MOVE_ALL, &values).await?;
        let mut values: Vec<&dyn Value> = vec![&self.new];
        values.extend(rows.iter().map(|row| row as &dyn Value));
        let list = placeholders(2, 1, rows.len());
        let update = format!("UPDATE memberships SET person_id = $1 WHERE row_id IN {list}");
        connection.execute(AssertSqlSafe(update), &values).await?;
        Ok(Decided::Done)
    }
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
    let Some(found) = find_face(connection, collection, face).await? else {
        return Ok(Decided::NoFace(face));
    };
    let values: [&dyn Value; 3] = [&found.row_id, &person, &true];
    connection.execute(PUT, &values).await?;
    if let Some(before) = found.person_id {
        connection.execute(DELETE_EMPTY, &[&before]).await?;
    }
    Ok(Decided::Done)
}

async fn unpin(
    connection: &mut Connection<'_>,
    (collection, face): (Uuid, Uuid),
) -> Result<Decided, StoreError> {
    let Some(found) = find_face(connection, collection, face).await? else {
        return Ok(Decided::NoFace(face));
    };
    connection.execute(UNPIN, &[&found.row_id, &false]).await?;
    connection.execute(FORGET, &[&found.row_id]).await?;
    Ok(Decided::Done)
}

#[cfg(test)]
crate::prepared::statements!(
    PERSON,
    FACE,
    RENAME,
    ADD,
    MOVE_ALL,
    PUT,
    UNPIN,
    FORGET,
    DELETE_EMPTY
);
