//! The models that make results.

use time::OffsetDateTime;

use super::records::Model;
use crate::call::change;
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;
use crate::times::to_the_microsecond;

crate::prepared::statements! {
    const INSERT_MODEL = "INSERT INTO models \
         (id, role, family, sha256, vector_space, dim, first_seen) VALUES (:id, :role, :family, :sha256, :vector_space, :dim, :first_seen) \
         ON CONFLICT DO NOTHING";

    const DELETE_MODEL = "DELETE FROM models WHERE id = :id";
}

/// The id of a model that exists only inside a transaction.
const TRIED: &str = "a write that is tried";

impl Store {
    /// Records the models whose results are stored from now on.
    ///
    /// A model that is recorded already keeps its row and its `first_seen`.
    pub async fn register_models(
        &self,
        models: &[Model],
        first_seen: OffsetDateTime,
    ) -> Result<(), StoreError> {
        change!(self, "register_models", |connection| {
            for model in models {
                insert(connection, model, first_seen).await?;
            }
            Ok(())
        })
    }

    /// Writes something, and takes it back in the same transaction.
    pub async fn try_write(&self) -> Result<(), StoreError> {
        let tried = Model {
            id: TRIED.to_owned(),
            role: String::new(),
            family: String::new(),
            sha256: [0; 32],
            vector_space: None,
            dim: None,
        };
        change!(self, "try_write", |connection| {
            insert(connection, &tried, OffsetDateTime::UNIX_EPOCH).await?;
            connection
                .execute(DELETE_MODEL, params!(id = tried.id))
                .await?;
            Ok(())
        })
    }
}

async fn insert(
    connection: &mut Connection<'_>,
    model: &Model,
    first_seen: OffsetDateTime,
) -> Result<(), sqlx::Error> {
    let values = params!(
        id = model.id,
        role = model.role,
        family = model.family,
        sha256 = model.sha256,
        vector_space = model.vector_space,
        dim = model.dim.map(u64::from),
        first_seen = to_the_microsecond(first_seen)
    );
    connection.execute(INSERT_MODEL, values).await?;
    Ok(())
}
