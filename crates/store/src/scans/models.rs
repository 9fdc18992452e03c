//! The models that make results.

use time::OffsetDateTime;

use super::records::Model;
use crate::call::change;
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;
use crate::times::to_the_microsecond;

crate::prepared::statements! {
    const INSERT_MODEL = "INSERT INTO models \
         (id, role, family, sha256, vector_space, dim, first_seen) VALUES (:id, :role, :family, :sha256, :vector_space, :dim, :first_seen) \
         ON CONFLICT DO NOTHING";
}

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
            let first_seen = to_the_microsecond(first_seen);
            for model in models {
                let values = params!(
                    id = model.id,
                    role = model.role,
                    family = model.family,
                    sha256 = model.sha256,
                    vector_space = model.vector_space,
                    dim = model.dim.map(u64::from),
                    first_seen
                );
                connection.execute(INSERT_MODEL, values).await?;
            }
            Ok(())
        })
    }
}
