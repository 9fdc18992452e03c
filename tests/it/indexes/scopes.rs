//! Random collections of several tenants and vector spaces, which share vectors: no response has a face of another collection.

use std::collections::HashSet;

use facescan_store::{CollectionKey, ErasureTarget};
use proptest::{
    prelude::*,
    sample::Index,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use uuid::Uuid;

#[cfg(feature = "qdrant")]
use super::qdrant;
use super::{
    exact, pgvector,
    under_test::{Gallery, Owner, UnderTest, direction, erase},
};
use crate::support::database::{Database, on_postgres, on_sqlite};
#[cfg(feature = "qdrant")]
use crate::support::qdrant::on_qdrant;

/// The number of random histories.
const HISTORIES: usize = 6;

/// The number of faces from which a collection of these tests has an HNSW index.
const MIN_FACES: u64 = 12;

const TENANTS: [&str; 3] = ["a", "b", "c"];

/// The vector spaces. Two of them have vectors of one length.
const VECTOR_SPACES: [(&str, usize); 3] = [("c1", 32), ("c2", 32), ("c3", 16)];

/// The vectors of a length that all collections share.
const VECTORS: usize = 12;

/// A step of a history. An [`Index`] chooses a collection, or a face of it.
#[derive(Clone, Debug)]
enum Step {
    Create {
        tenant: usize,
        vector_space: usize,
    },
    Enroll {
        collection: Index,
        vectors: Vec<usize>,
    },
    Erase {
        collection: Index,
        face: Index,
    },
    /// Another tenant erases the subject.
    EraseForeign {
        collection: Index,
        face: Index,
    },
    EraseCollection {
        collection: Index,
    },
    EraseTenant {
        tenant: usize,
    },
    Settle,
    Search {
        collection: Index,
        vector: usize,
        limit: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let collection = any::<Index>;
    let create = (0..TENANTS.len(), 0..VECTOR_SPACES.len());
    let enroll = (collection(), prop::collection::vec(0..VECTORS, 1..9));
    let of_face = || (collection(), any::<Index>());
    let search = (collection(), 0..VECTORS, 1..40usize);
    prop_oneof![
        3 => create.prop_map(|(tenant, vector_space)| Step::Create { tenant, vector_space }),
        8 => enroll.prop_map(|(collection, vectors)| Step::Enroll { collection, vectors }),
        3 => of_face().prop_map(|(collection, face)| Step::Erase { collection, face }),
        1 => of_face().prop_map(|(collection, face)| Step::EraseForeign { collection, face }),
        1 => collection().prop_map(|collection| Step::EraseCollection { collection }),
        1 => (0..TENANTS.len()).prop_map(|tenant| Step::EraseTenant { tenant }),
        2 => Just(Step::Settle),
        12 => search.prop_map(|(collection, vector, limit)| Step::Search { collection, vector, limit }),
    ]
}

/// The collections that exist, and the vectors that they share.
struct World<'a> {
    under_test: &'a UnderTest,
    galleries: Vec<Gallery<'a>>,
}

impl<'a> World<'a> {
    async fn take(&mut self, step: &Step) {
        match step {
            Step::Create {
                tenant,
                vector_space,
            } => self.create(*tenant, *vector_space).await,
            Step::Settle => (self.under_test.settle)().await,
            Step::EraseTenant { tenant } => self.erase_tenant(TENANTS[*tenant]).await,
            _ if self.galleries.is_empty() => {}
            Step::Enroll {
                collection,
                vectors,
            } => {
                let gallery = collection.get_mut(&mut self.galleries);
                let dim = gallery.owner.dim;
                let vectors = vectors.iter().map(|vector| shared(*vector, dim));
                gallery.enroll_subject(vectors.collect()).await;
            }
            Step::Erase { collection, face } => {
                let gallery = collection.get_mut(&mut self.galleries);
                if let Some(subject) = subject(gallery, face) {
                    gallery.erase(subject).await;
                }
            }
            Step::EraseForeign { collection, face } => {
                let gallery = collection.get(&self.galleries);
                if let Some(subject) = subject(gallery, face) {
                    let target = ErasureTarget::Subject(subject);
                    assert!(!erase(self.under_test, "foreign", target).await);
                }
            }
            Step::EraseCollection { collection } => {
                let position = collection.index(self.galleries.len());
                let gallery = self.galleries.swap_remove(position);
                gallery.erase_all().await;
                is_gone(&gallery).await;
            }
            Step::Search {
                collection,
                vector,
                limit,
            } => {
                let gallery = collection.get(&self.galleries);
                search(gallery, *vector, *limit).await;
            }
        }
    }

    async fn create(&mut self, tenant: usize, vector_space: usize) {
        let (vector_space, dim) = VECTOR_SPACES[vector_space];
        let owner = Owner {
            tenant: TENANTS[tenant],
            vector_space,
            dim,
        };
        let name = Uuid::now_v7().to_string();
        let gallery = Gallery::create_of(owner, self.under_test, &name, 1).await;
        self.galleries.push(gallery);
    }

    async fn erase_tenant(&mut self, tenant: &'static str) {
        assert!(erase(self.under_test, tenant, ErasureTarget::Tenant).await);
        let is_kept = |gallery: &mut Gallery<'a>| gallery.owner.tenant != tenant;
        for gallery in self.galleries.extract_if(.., |it| !is_kept(it)) {
            is_gone(&gallery).await;
        }
    }
}

fn subject(gallery: &Gallery<'_>, face: &Index) -> Option<Uuid> {
    let faces = &gallery.faces;
    (!faces.is_empty()).then(|| face.get(faces).subject)
}

fn shared(vector: usize, dim: usize) -> Vec<f32> {
    direction(&mut fastrand::Rng::with_seed(vector as u64), dim)
}

async fn is_gone(gallery: &Gallery<'_>) {
    let key = CollectionKey {
        tenant: gallery.owner.tenant,
        id: gallery.id,
    };
    let store = &gallery.under_test.store;
    assert!(store.collection(key).await.unwrap().is_none());
}

/// Compares an answer with the faces that the collection must have.
async fn search(gallery: &Gallery<'_>, vector: usize, limit: usize) {
    let query = shared(vector, gallery.owner.dim);
    let found = gallery.search(&query, limit).await;
    let expected = gallery.nearest(&query, limit);
    assert_eq!(found.searched, gallery.faces.len() as u64);
    assert_eq!(found.faces.len(), expected.len());
    let own: HashSet<Uuid> = gallery.faces.iter().map(|face| face.subject).collect();
    for (face, (cosine, _)) in found.faces.iter().zip(expected) {
        assert!(own.contains(&face.row.enrollment.subject_id.unwrap()));
        assert!((face.similarity - cosine).abs() < 1e-6, "{cosine}");
    }
}

async fn run(under_test: &UnderTest) {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let history = prop::collection::vec(step(), 60..120);
    for number in 0..HISTORIES {
        let steps = history.new_tree(&mut runner).unwrap().current();
        let mut world = World {
            under_test,
            galleries: Vec::new(),
        };
        for (position, step) in steps.iter().enumerate() {
            println!("history {number}, step {position}: {step:?}");
            world.take(step).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_in_memory_keep_tenants_apart_over_sqlite() {
    on_sqlite(|database: Database| async move {
        run(&exact(&database).await).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_in_memory_keep_tenants_apart_over_postgres() {
    on_postgres(|database: Database| async move {
        run(&exact(&database).await).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_in_postgres_keep_tenants_apart() {
    on_postgres(|database: Database| async move {
        run(&pgvector(&database, u64::MAX).await.0).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_in_postgres_with_hnsw_keep_tenants_apart() {
    on_postgres(|database: Database| async move {
        run(&pgvector(&database, MIN_FACES).await.0).await;
    })
    .await;
}

#[cfg(feature = "qdrant")]
#[tokio::test(flavor = "multi_thread")]
async fn indexes_on_qdrant_keep_tenants_apart() {
    on_sqlite(|database: Database| async move {
        on_qdrant(|server| async move {
            run(&qdrant(&database, &server).await).await;
        })
        .await;
    })
    .await;
}
