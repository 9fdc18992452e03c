//! An index, and galleries of random faces in it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use facescan_audit::AuditLog;
use facescan_clock::{Clock, SystemClock};
use facescan_config::AuditLevel;
use facescan_recognition::{
    calibration::Calibrations,
    collections::{
        Collections,
        similar::{SimilarFaces, Wanted},
    },
    index::{FaceIndex, IndexContents, IndexError, IndexKind, IndexQuery, IndexState, Proposals},
};
use facescan_store::{
    Collection, CollectionKey, Enrolled, ErasureTarget, IndexPosition, NewEnrollment, NewErasure,
    Store, Subject, SubjectDetails, Written,
};
use futures::future::BoxFuture;
use uuid::Uuid;

use crate::store::collections::{collection, created};

/// The length of the vectors of most tests.
pub const DIM: usize = 32;

/// The faces of each subject.
pub const FACES_OF_SUBJECT: usize = 5;

/// Whose a gallery is, and which vectors it has.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    pub tenant: &'static str,
    pub vector_space: &'static str,
    pub dim: usize,
}

const OWNER: Owner = Owner {
    tenant: "indexes",
    vector_space: "c1",
    dim: DIM,
};

/// An implementation of an index, over one database.
pub struct UnderTest {
    pub store: Store,
    pub collections: Collections,
    /// The number of rows that the index has proposed so far.
    pub proposed: Arc<AtomicUsize>,
    /// Returns when searches use everything that the implementation builds in the background.
    pub settle: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
    /// The number of faces of a collection from which the index may leave out similar ones.
    pub exact_below: u64,
    /// How a search uses the index of a large collection.
    pub state: IndexState,
}

impl UnderTest {
    /// Combines an index that compares all faces and builds nothing in the background with its database.
    pub fn new(store: Store, index: Arc<dyn FaceIndex>) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let audit = store.clone();
        let proposed = Arc::new(AtomicUsize::new(0));
        let counted = CountedIndex {
            index,
            proposed: Arc::clone(&proposed),
        };
        let collections = Collections {
            store: store.clone(),
            index: Arc::new(counted),
            calibrations: Arc::new(Calibrations::load(&[]).unwrap()),
            max_search_far: 1.0,
            max_searches_per_day: 0,
            audit: AuditLog::start(AuditLevel::Off, audit, Arc::clone(&clock)),
            purposes: Arc::new([]),
            clock,
        };
        Self {
            store,
            collections,
            proposed,
            settle: Box::new(|| Box::pin(async {})),
            exact_below: u64::MAX,
            state: IndexState::Memory,
        }
    }
}

/// Counts the rows that an index proposes.
struct CountedIndex {
    index: Arc<dyn FaceIndex>,
    proposed: Arc<AtomicUsize>,
}

#[async_trait]
impl FaceIndex for CountedIndex {
    fn kind(&self) -> IndexKind {
        self.index.kind()
    }

    async fn propose(&self, query: IndexQuery<'_>) -> Result<Proposals, IndexError> {
        let proposals = self.index.propose(query).await?;
        let rows = proposals.rows.iter().map(Vec::len).sum();
        self.proposed.fetch_add(rows, Ordering::Relaxed);
        Ok(proposals)
    }

    async fn load(&self) -> Result<(), IndexError> {
        self.index.load().await
    }

    async fn refresh(&self) -> Result<(), IndexError> {
        self.index.refresh().await
    }

    async fn contents(&self, collection: &IndexPosition) -> Result<IndexContents, IndexError> {
        self.index.contents(collection).await
    }

    async fn rebuild(&self, collection: &IndexPosition) -> Result<(), IndexError> {
        self.index.rebuild(collection).await
    }

    async fn purge(&self) -> Result<(), IndexError> {
        self.index.purge().await
    }
}

/// A face of a gallery.
#[derive(Clone)]
pub struct Face {
    pub subject: Uuid,
    pub vector: Vec<f32>,
}

/// A collection of random faces, and what the test knows about it.
pub struct Gallery<'a> {
    pub under_test: &'a UnderTest,
    pub id: Uuid,
    pub faces: Vec<Face>,
    /// The number of rows that were added and removed.
    pub changes: u64,
    pub owner: Owner,
    random: fastrand::Rng,
}

impl<'a> Gallery<'a> {
    /// Creates a collection. Galleries with the same seed have the same vectors.
    pub async fn create(under_test: &'a UnderTest, name: &str, seed: u64) -> Self {
        Self::create_of(OWNER, under_test, name, seed).await
    }

    /// Creates a collection of an owner.
    pub async fn create_of(owner: Owner, under_test: &'a UnderTest, name: &str, seed: u64) -> Self {
        let collection = Collection {
            vector_space: owner.vector_space.to_owned(),
            dim: u32::try_from(owner.dim).unwrap(),
            created_at: under_test.collections.clock.now(),
            ..collection(owner.tenant, name)
        };
        created(&under_test.store, &collection).await;
        Self {
            under_test,
            id: collection.id,
            faces: Vec::new(),
            changes: 0,
            owner,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    fn key(&self) -> CollectionKey<'static> {
        CollectionKey {
            tenant: self.owner.tenant,
            id: self.id,
        }
    }

    /// Reads the collection from the database.
    pub async fn collection(&self) -> Collection {
        let store = &self.under_test.store;
        store.collection(self.key()).await.unwrap().unwrap()
    }

    /// Enrolls faces of new subjects.
    pub async fn enroll(&mut self, subjects: usize) {
        for _ in 0..subjects {
            let vectors =
                (0..FACES_OF_SUBJECT).map(|_| direction(&mut self.random, self.owner.dim));
            let vectors = vectors.collect();
            self.enroll_subject(vectors).await;
        }
    }

    /// Enrolls faces of a new subject.
    pub async fn enroll_subject(&mut self, vectors: Vec<Vec<f32>>) {
        let now = self.under_test.collections.clock.now();
        let subject = Subject {
            id: Uuid::now_v7(),
            collection_id: self.id,
            created_at: now,
            last_seen_at: now,
            details: SubjectDetails::default(),
        };
        let store = &self.under_test.store;
        let written = store
            .create_subject(self.owner.tenant, &subject, None)
            .await
            .unwrap();
        assert_eq!(written, Written::Done);
        let faces: Vec<NewEnrollment> = vectors
            .into_iter()
            .map(|vector| NewEnrollment {
                id: Uuid::now_v7(),
                face_id: None,
                image_id: None,
                is_acceptable: true,
                vector,
            })
            .collect();
        let enrolled = store.enroll((self.key(), Some(subject.id)), &faces, now, None);
        assert_eq!(enrolled.await.unwrap(), Enrolled::Done);
        self.changes += faces.len() as u64;
        self.faces.extend(faces.into_iter().map(|face| Face {
            subject: subject.id,
            vector: face.vector,
        }));
    }

    /// Erases a subject with its faces.
    pub async fn erase(&mut self, subject: Uuid) {
        self.erase_target(ErasureTarget::Subject(subject)).await;
        let before = self.faces.len();
        self.faces.retain(|face| face.subject != subject);
        self.changes += (before - self.faces.len()) as u64;
    }

    /// Erases the collection, and leaves the list of its faces as it is.
    pub async fn erase_all(&self) {
        self.erase_target(ErasureTarget::Collection(self.id)).await;
    }

    async fn erase_target(&self, target: ErasureTarget) {
        assert!(erase(self.under_test, self.owner.tenant, target).await);
    }

    /// Returns a vector at a cosine of about 0.8 to a random face.
    pub fn mate(&mut self) -> Vec<f32> {
        let face = self.random.usize(..self.faces.len());
        let other = direction(&mut self.random, self.owner.dim);
        let own = self.faces[face].vector.iter();
        unit(own.zip(other).map(|(a, b)| 0.8 * a + 0.6 * b).collect())
    }

    /// Returns the faces that are most similar to a vector, by a comparison with each.
    pub fn nearest(&self, query: &[f32], count: usize) -> Vec<(f32, &Face)> {
        let faces = self.faces.iter();
        let mut all: Vec<_> = faces.map(|face| (dot(&face.vector, query), face)).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.truncate(count);
        all
    }

    /// Searches for a vector, without limits to the similarity.
    pub async fn search(&self, query: &[f32], limit: usize) -> SimilarFaces {
        self.search_wanted(query, wanted(limit)).await
    }

    /// Searches for faces that are wanted.
    pub async fn search_wanted(&self, query: &[f32], wanted: Wanted) -> SimilarFaces {
        let collection = self.collection().await;
        let collections = &self.under_test.collections;
        let found = collections.similar(&collection, query, wanted).await;
        found.unwrap()
    }
}

/// Wants the most similar faces, without limits to the similarity.
pub fn wanted(limit: usize) -> Wanted {
    Wanted {
        threshold: -1.0,
        limit,
        by_subject: false,
        must_be_exact: false,
    }
}

/// Erases something from the collections of a tenant. Returns false if the tenant has no such thing.
pub async fn erase(under_test: &UnderTest, tenant: &str, target: ErasureTarget) -> bool {
    let erasures = &under_test.store;
    let new = NewErasure {
        id: Uuid::now_v7(),
        tenant: tenant.to_owned(),
        target: target.clone(),
        requested_at: under_test.collections.clock.now(),
        audit: None,
    };
    if !erasures.begin_erasure(&new).await.unwrap() {
        return false;
    }
    let erase = || erasures.erase_from_collections(new.id, tenant, &target);
    while !erase().await.unwrap() {}
    let now = under_test.collections.clock.now();
    erasures.end_erasure(new.id, now).await.unwrap();
    true
}

/// Returns a random vector of length 1.
pub fn direction(random: &mut fastrand::Rng, dim: usize) -> Vec<f32> {
    let mut value = || (0..4).map(|_| random.f32() - 0.5).sum();
    unit((0..dim).map(|_| value()).collect())
}

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let norm = dot(&vector, &vector).sqrt();
    vector.iter_mut().for_each(|value| *value /= norm);
    vector
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
    products.sum::<f64>() as f32
}
