//! The index on a Qdrant server: an approximate search by a graph for each collection.
//!
//! A Qdrant collection has the rows of all collections with one vector space and one dimension; a payload field tells them apart.
//! Each collection also has a point with the position of the last change that the server has. The point is written after
//! the rows and beside them, so a position is never ahead of its rows, and a server that was emptied has no position.
//!
//! Several processes write to the server at the same time. A write that arrives late can only bring back rows that were
//! removed meanwhile, so each process compares the rows that it has written with the database.

mod follow;
mod points;
mod requests;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use facescan_config::QdrantServer;
use facescan_store::{IndexPosition, Store};
use qdrant_client::{Qdrant, QdrantError};
use secrecy::{ExposeSecret, SecretString};
use uuid::Uuid;

use super::{FaceIndex, IndexContents, IndexError, IndexKind, IndexQuery, IndexState, Proposals};
use follow::FollowedCollection;
use points::{PointCollection, PointCollections};

/// How often a search is tried whose rows are lost meanwhile, because the server is emptied.
const ATTEMPTS: usize = 3;

/// The index on a Qdrant server.
pub struct QdrantIndex {
    store: Store,
    points: PointCollections,
    collections: Mutex<HashMap<Uuid, Arc<FollowedCollection>>>,
    /// Whether points without a position were looked for.
    is_swept: AtomicBool,
}

impl QdrantIndex {
    /// Creates an index that reads from `store`. The server is connected to when it is first needed.
    ///
    /// # Errors
    /// Returns an error if the settings have no URL.
    pub fn new(store: Store, settings: &QdrantServer) -> anyhow::Result<Self> {
        let Some(url) = &settings.url else {
            anyhow::bail!(
                "recognition.index is qdrant, which needs qdrant.url; set it to the gRPC address of the server"
            );
        };
        let key = settings.api_key.as_ref().map(SecretString::expose_secret);
        let client = Qdrant::from_url(url.as_str())
            .api_key(key)
            .timeout(settings.timeout_ms.duration())
            .connect_timeout(settings.timeout_ms.duration())
            // The check waits for the server and prints to the standard output.
            .skip_compatibility_check()
            .build()?;
        Ok(Self {
            store,
            points: PointCollections::new(client, settings.prefix.clone()),
            collections: Mutex::default(),
            is_swept: AtomicBool::new(false),
        })
    }

    fn collections(&self) -> MutexGuard<'_, HashMap<Uuid, Arc<FollowedCollection>>> {
        self.collections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn collection(&self, position: &IndexPosition) -> Arc<FollowedCollection> {
        let mut collections = self.collections();
        let collection = collections
            .entry(position.collection_id)
            .or_insert_with(|| {
                let points = self.points.of(position);
                Arc::new(FollowedCollection::new(
                    position.collection_id,
                    points,
                    self.store.clone(),
                ))
            });
        Arc::clone(collection)
    }

    /// Removes the points of collections that are no longer in the database.
    ///
    /// `stored` has the collections that the server had before `live` was read from the database. So a collection that is not
    /// in `live` was erased.
    async fn drop_erased(
        &self,
        stored: &[StoredCollection],
        live: &HashSet<Uuid>,
    ) -> Result<(), IndexError> {
        for one in stored.iter().filter(|one| !live.contains(&one.id)) {
            one.points.drop_rows(one.id).await?;
            tracing::info!(collection = %one.id, "removed an erased collection from the index");
        }
        Ok(())
    }

    /// Returns the collections that the server has a position of. The first call also finds those that it has only rows of,
    /// because a process stopped between two writes.
    async fn stored(&self) -> Result<Vec<StoredCollection>, IndexError> {
        let mut stored = Vec::new();
        for points in self.points.list().await? {
            let positions = points.positions().await?;
            let of = |id, position| StoredCollection {
                id,
                position,
                points: Arc::clone(&points),
            };
            if !self.is_swept.load(Ordering::Relaxed) {
                let ids = points.collections_with_rows().await?;
                let lost = ids.into_iter().filter(|id| !positions.contains_key(id));
                stored.extend(lost.map(|id| of(id, None)));
            }
            let positions = positions.into_iter();
            stored.extend(positions.map(|(id, position)| of(id, Some(position))));
        }
        Ok(stored)
    }
}

/// A collection that the server has points of.
struct StoredCollection {
    id: Uuid,
    position: Option<u64>,
    points: Arc<PointCollection>,
}

#[async_trait]
impl FaceIndex for QdrantIndex {
    fn kind(&self) -> IndexKind {
        IndexKind::Qdrant
    }

    async fn propose(&self, query: IndexQuery<'_>) -> Result<Proposals, IndexError> {
        let wanted = &query.collection;
        let collection = self.collection(wanted);
        for _ in 0..ATTEMPTS {
            if collection.catch_up(wanted).await?.is_none() {
                // It was erased, so no row may be in a response.
                return Ok(Proposals {
                    rows: vec![Vec::new(); query.vectors.len()],
                    ..Proposals::default()
                });
            }
            let found = collection.points.search(&query).await?;
            if let Some((rows, position)) = found
                && position >= wanted.position
            {
                return Ok(Proposals {
                    rows,
                    searched: wanted.enrolled,
                    position,
                    is_exact: query.must_be_exact,
                });
            }
            collection.forget().await;
        }
        let lost = "the server lost the rows of a collection several times during a search";
        Err(IndexError::Unavailable(lost.into()))
    }

    async fn load(&self) -> Result<(), IndexError> {
        self.refresh().await
    }

    async fn refresh(&self) -> Result<(), IndexError> {
        // The server first: what it has was in the database before.
        let stored = self.stored().await?;
        let positions = self.store.index_positions().await?;
        let live: HashSet<Uuid> = positions.iter().map(|it| it.collection_id).collect();
        self.collections().retain(|id, _| live.contains(id));
        let mut result = self.drop_erased(&stored, &live).await;
        let known: HashMap<Uuid, Option<u64>> =
            stored.iter().map(|one| (one.id, one.position)).collect();
        for position in &positions {
            let stored = known.get(&position.collection_id).copied().flatten();
            // A collection that cannot be followed does not hold up the others.
            let followed = self.collection(position).refresh(stored, position).await;
            result = followed.and(result);
        }
        if result.is_ok() {
            self.is_swept.store(true, Ordering::Relaxed);
        }
        result
    }

    async fn contents(&self, collection: &IndexPosition) -> Result<IndexContents, IndexError> {
        let points = self.points.of(collection);
        let (position, rows) = points.contents(collection.collection_id).await?;
        let is_whole = position == Some(collection.position) && rows == collection.enrolled;
        Ok(IndexContents {
            state: match is_whole {
                true => IndexState::Built,
                false => IndexState::Behind,
            },
            rows: Some(rows),
            position,
            bytes: None,
        })
    }

    async fn rebuild(&self, collection: &IndexPosition) -> Result<(), IndexError> {
        self.collection(collection).rebuild().await
    }

    /// Deletes the Qdrant collections and writes the rows again. Qdrant keeps deleted points in its segments and in its log for
    /// a time that nobody states.
    async fn purge(&self) -> Result<(), IndexError> {
        for points in self.points.list().await? {
            points.delete_all().await?;
        }
        for position in self.store.index_positions().await? {
            self.rebuild(&position).await?;
        }
        Ok(())
    }
}

impl From<QdrantError> for IndexError {
    fn from(error: QdrantError) -> Self {
        Self::Unavailable(Box::new(error))
    }
}
