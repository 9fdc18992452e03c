//! The points of one Qdrant collection: rows, and positions.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use facescan_index::Proposal;
use facescan_store::{IndexPosition, IndexRow};
use qdrant_client::{
    Qdrant, QdrantError,
    qdrant::{
        FacetHit, PointId, PointsOperationResponse, RetrievedPoint, UpdateStatus, facet_value,
        point_id::PointIdOptions,
    },
};
use tonic::{Code, Status};
use uuid::Uuid;

use super::{
    super::IndexQuery,
    requests::{self, POSITION, POSITIONS},
};

/// The points that are listed at a time.
const PAGE: u32 = 1000;

/// The most collections whose rows one Qdrant collection can have.
const MAX_COLLECTIONS: u64 = 1_000_000;

/// The Qdrant collections of one prefix.
pub(super) struct PointCollections {
    client: Qdrant,
    prefix: String,
    known: Mutex<HashMap<String, Arc<PointCollection>>>,
}

impl PointCollections {
    pub(crate) fn new(client: Qdrant, prefix: String) -> Self {
        Self {
            client,
            prefix,
            known: Mutex::default(),
        }
    }

    /// Returns the Qdrant collection with the rows of a collection.
    pub(crate) fn of(&self, collection: &IndexPosition) -> Arc<PointCollection> {
        let IndexPosition {
            vector_space, dim, ..
        } = collection;
        self.named(&format!("{}_{vector_space}_{dim}", self.prefix))
    }

    /// Returns the Qdrant collections that the server has.
    pub(crate) async fn list(&self) -> Result<Vec<Arc<PointCollection>>, QdrantError> {
        let listed = self.client.list_collections().await?;
        let names = listed.collections.into_iter().map(|one| one.name);
        let ours = names.filter(|name| self.dim_of(name).is_some());
        Ok(ours.map(|name| self.named(&name)).collect())
    }

    fn named(&self, name: &str) -> Arc<PointCollection> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let points = known.entry(name.to_owned()).or_insert_with(|| {
            Arc::new(PointCollection {
                client: self.client.clone(),
                name: name.to_owned(),
                dim: self.dim_of(name).unwrap_or_default(),
                exists: tokio::sync::Mutex::default(),
            })
        });
        Arc::clone(points)
    }

    /// Returns the dimension in a name. `None` if another prefix has it.
    fn dim_of(&self, name: &str) -> Option<u64> {
        let rest = name.strip_prefix(&self.prefix)?.strip_prefix('_')?;
        let (vector_space, dim) = rest.split_once('_')?;
        (!vector_space.is_empty()).then_some(())?;
        dim.parse().ok()
    }
}

/// A Qdrant collection.
pub(super) struct PointCollection {
    client: Qdrant,
    name: String,
    dim: u64,
    /// Whether the server is known to have the collection.
    exists: tokio::sync::Mutex<bool>,
}

/// The rows that are most similar to each vector, and the position of the collection.
pub(super) type Found = (Vec<Vec<Proposal>>, u64);

impl PointCollection {
    /// Creates the collection with its payload index, if the server does not have them.
    pub(crate) async fn create(&self) -> Result<(), QdrantError> {
        let mut exists = self.exists.lock().await;
        if *exists {
            return Ok(());
        }
        if !self.client.collection_exists(&self.name).await? {
            let request = requests::create(&self.name, self.dim);
            let created = self.client.create_collection(request).await;
            // Another process may have created it meanwhile.
            if created.is_err() && !self.client.collection_exists(&self.name).await? {
                created?;
            }
        }
        let index = requests::index_collections(&self.name);
        completed(self.client.create_field_index(index).await?)?;
        *exists = true;
        Ok(())
    }

    /// Clears the cached existence of the collection.
    pub(crate) async fn forget(&self) {
        *self.exists.lock().await = false;
    }

    pub(crate) async fn upsert(&self, id: Uuid, rows: Vec<IndexRow>) -> Result<(), QdrantError> {
        if rows.is_empty() {
            return Ok(());
        }
        let points = rows.into_iter().map(|row| requests::point(id, row));
        let request = requests::upsert(&self.name, points.collect());
        completed(self.client.upsert_points(request).await?)
    }

    pub(crate) async fn delete(&self, rows: &[u64]) -> Result<(), QdrantError> {
        if rows.is_empty() {
            return Ok(());
        }
        let request = requests::delete(&self.name, rows);
        completed(self.client.delete_points(request).await?)
    }

    /// Deletes the rows and the position of a collection.
    pub(crate) async fn drop_rows(&self, id: Uuid) -> Result<(), QdrantError> {
        let position = requests::delete_position(&self.name, id);
        // The position last: a collection that has one is dropped again.
        for request in [requests::delete_rows(&self.name, id), position] {
            match self.client.delete_points(request).await {
                Err(error) if is_missing(&error) => {}
                deleted => completed(deleted?)?,
            }
        }
        Ok(())
    }

    /// Deletes the Qdrant collection with its files.
    pub(crate) async fn delete_all(&self) -> Result<(), QdrantError> {
        self.client.delete_collection(&self.name).await?;
        self.forget().await;
        Ok(())
    }

    /// Returns the position of a collection, and the number of its rows.
    pub(crate) async fn contents(&self, id: Uuid) -> Result<(Option<u64>, u64), QdrantError> {
        match self.position(id).await {
            Err(error) if is_missing(&error) => Ok((None, 0)),
            position => Ok((position?, self.count(id).await?)),
        }
    }

    /// Returns the position of a collection. `None` if the server does not have it.
    pub(crate) async fn position(&self, id: Uuid) -> Result<Option<u64>, QdrantError> {
        let request = requests::get_position(&self.name, id);
        let found = self.client.get_points(request).await?;
        Ok(found.result.first().and_then(position_of))
    }

    /// Creates the position of a collection.
    pub(crate) async fn create_position(&self, id: Uuid, position: u64) -> Result<(), QdrantError> {
        let point = requests::position(id, (position, self.dim));
        let request = requests::upsert(&self.name, vec![point]);
        completed(self.client.upsert_points(request).await?)
    }

    /// Changes the position of a collection. Does nothing if the server does not have it.
    pub(crate) async fn move_position(&self, id: Uuid, position: u64) -> Result<(), QdrantError> {
        let request = requests::move_position(&self.name, id, position);
        completed(self.client.set_payload(request).await?)
    }

    /// Returns the positions of all collections.
    pub(crate) async fn positions(&self) -> Result<HashMap<Uuid, u64>, QdrantError> {
        let mut positions = HashMap::new();
        let mut offset = None;
        loop {
            let request = requests::scroll(&self.name, POSITIONS, (offset, PAGE));
            let page = match self.client.scroll(request).await {
                Err(error) if is_missing(&error) => return Ok(positions),
                page => page?,
            };
            let found = page.result.iter();
            positions.extend(found.filter_map(|point| Some((uuid(point)?, position_of(point)?))));
            offset = page.next_page_offset;
            if offset.is_none() {
                return Ok(positions);
            }
        }
    }

    /// Returns the collections that have rows.
    pub(crate) async fn collections_with_rows(&self) -> Result<Vec<Uuid>, QdrantError> {
        let request = requests::facet(&self.name, MAX_COLLECTIONS);
        let ids = match self.client.facet(request).await {
            Err(error) if is_missing(&error) => return Ok(Vec::new()),
            facet => facet?.hits,
        };
        Ok(ids.into_iter().filter_map(faceted).collect())
    }

    /// Returns rows of a collection from the row `first`, in order, and whether there are more.
    pub(crate) async fn rows(&self, id: Uuid, first: u64) -> Result<(Vec<u64>, bool), QdrantError> {
        let offset = Some(PointId::from(first));
        let request = requests::scroll(&self.name, &id.to_string(), (offset, PAGE));
        let page = self.client.scroll(request).await?;
        let rows = page
            .result
            .iter()
            .filter_map(|point| row(point.id.as_ref()));
        Ok((rows.collect(), page.next_page_offset.is_some()))
    }

    /// Returns the number of rows of a collection.
    pub(crate) async fn count(&self, id: Uuid) -> Result<u64, QdrantError> {
        let counted = self.client.count(requests::count(&self.name, id)).await?;
        Ok(counted.result.map_or(0, |result| result.count))
    }

    /// Returns the rows that are most similar to each vector. `None` if the server has no position of the collection.
    pub(crate) async fn search(
        &self,
        query: &IndexQuery<'_>,
    ) -> Result<Option<Found>, QdrantError> {
        let request = requests::search(&self.name, query);
        let mut answers = match self.client.query_batch(request).await {
            Err(error) if is_missing(&error) => return Ok(None),
            answer => answer?.result,
        };
        // The last query asks for the position.
        let position = answers.pop().and_then(|answer| {
            let point = answer.result.first()?;
            unsigned(point.payload.get(POSITION)?)
        });
        let rows = answers.into_iter().map(|answer| {
            let found = answer.result.into_iter();
            let proposals = found.filter_map(|point| {
                Some(Proposal {
                    row: row(point.id.as_ref())?,
                    similarity: point.score,
                })
            });
            proposals.collect()
        });
        let rows = rows.collect();
        Ok(position.map(|position| (rows, position)))
    }
}

/// Checks that a change is applied, and not only received.
fn completed(answer: PointsOperationResponse) -> Result<(), QdrantError> {
    match answer.result.map(|result| result.status()) {
        Some(UpdateStatus::Completed) => Ok(()),
        _ => {
            let status = Status::aborted("the server has not completed a change");
            Err(QdrantError::from(status))
        }
    }
}

/// Returns whether the server says that it does not have the collection.
pub(super) fn is_missing(error: &QdrantError) -> bool {
    matches!(error, QdrantError::ResponseError { status } if status.code() == Code::NotFound)
}

fn row(id: Option<&PointId>) -> Option<u64> {
    match id?.point_id_options.as_ref()? {
        PointIdOptions::Num(row) => Some(*row),
        PointIdOptions::Uuid(_) => None,
    }
}

fn uuid(point: &RetrievedPoint) -> Option<Uuid> {
    match point.id.as_ref()?.point_id_options.as_ref()? {
        PointIdOptions::Uuid(id) => id.parse().ok(),
        PointIdOptions::Num(_) => None,
    }
}

fn position_of(point: &RetrievedPoint) -> Option<u64> {
    unsigned(point.payload.get(POSITION)?)
}

fn unsigned(value: &qdrant_client::qdrant::Value) -> Option<u64> {
    value.as_integer().and_then(|value| value.try_into().ok())
}

/// Returns the collection that a value of the payload field names. `None` for [`POSITIONS`].
fn faceted(hit: FacetHit) -> Option<Uuid> {
    match hit.value?.variant? {
        facet_value::Variant::StringValue(value) => value.parse().ok(),
        _ => None,
    }
}
