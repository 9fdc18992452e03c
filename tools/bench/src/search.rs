//! Measures searches in a collection of many faces: enrollment, loading, latency, throughput, recall and memory.

mod index;
mod photographs;
mod vectors;

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use clap::Args;
use facescan::cli::runtime::tokio_runtime;
use facescan_audit::AuditLog;
use facescan_clock::{Clock, SystemClock};
use facescan_config::{AuditLevel, Config};
use facescan_recognition::{
    calibration::Calibrations,
    collections::{
        Collections, key,
        similar::{SimilarFaces, Wanted},
    },
    index::FaceIndex,
};
use facescan_store::{
    Collection, CollectionKind, CollectionTerms, Enrolled, NewEnrollment, Observer, Store,
    StoreSettings, Subject, SubjectDetails, Written,
};
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use serde_json::{Value, json};

use crate::millis;
use index::IndexName;
use photographs::Photographs;
use vectors::Vectors;

/// The faces of one subject, and of one transaction.
const FACES_OF_SUBJECT: usize = 500;

/// The cosine from which a face is a candidate: that of a false accept rate of 0.0001 with the default embedder.
const THRESHOLD: f32 = 0.435;

/// The most similar faces that a search asks for.
const LIMIT: usize = 10;

/// The searches at the same time whose responses are compared with all faces.
const RECALL_CLIENTS: usize = 8;

/// The tenant of the faces.
const TENANT: &str = "default";

/// Arguments of `search`.
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// The number of enrolled faces
    #[arg(long, default_value_t = 1_000_000)]
    faces: usize,
    /// The length of the vectors
    #[arg(long, default_value_t = 128)]
    dim: usize,
    /// The numbers of clients that search at the same time, each measured alone
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64])]
    clients: Vec<usize>,
    /// How long each measurement lasts, in seconds
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// The searches whose best face is compared with that of 32-bit vectors
    #[arg(long, default_value_t = 200)]
    recall: usize,
    /// The index that is searched. pgvector needs --database, and its extension in that database. qdrant needs a build with that
    /// feature
    #[arg(long, value_enum, default_value_t = IndexName::Exact)]
    index: IndexName,
    /// The numbers of candidates of a search in an HNSW index, each measured alone
    #[arg(long, value_delimiter = ',', default_values_t = [100, 400, 800])]
    candidates: Vec<u32>,
    /// Measure searches that compare every face too, with an index that otherwise does not
    #[arg(long)]
    exact: bool,
    /// The links of a face in an HNSW index
    #[arg(long, default_value_t = 32)]
    links: u32,
    /// The candidates for the links of a face while an HNSW index is built
    #[arg(long, default_value_t = 200)]
    build_candidates: u32,
    /// The faces of each person, with a cosine of about 0.6 to each other
    #[arg(long, default_value_t = 1)]
    faces_of_person: usize,
    /// Search for these faces among strangers who are made of them. The file is that of `facescan embed DIR --out FILE.jsonl`,
    /// with a folder in DIR for each person
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dim", "faces_of_person"])]
    photographs: Option<PathBuf>,
    /// An empty database [default: a SQLite file in the folder of temporary files, which is deleted afterwards]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

/// Runs the command and prints JSON.
pub fn run(config: &Config, args: &SearchArgs) -> anyhow::Result<ExitCode> {
    tokio_runtime()?.block_on(measure(config, args))
}

async fn measure(config: &Config, args: &SearchArgs) -> anyhow::Result<ExitCode> {
    let folder = tempfile::tempdir()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let url = args.database.clone().unwrap_or_else(|| {
        let file = folder.path().join("search.db");
        format!("sqlite://{}?mode=rwc", file.display())
    });
    let store = open(&url, &clock).await?;
    let vectors = Arc::new(match &args.photographs {
        Some(file) => Vectors::among_strangers(Photographs::read(file)?, args.faces),
        None => Vectors::random(args.faces, args.dim, args.faces_of_person),
    });
    let collection = collection(&clock, vectors.dim());
    let written = store.create_collection(&collection, None);
    ensure!(
        written.await? == Written::Done,
        "the database has this collection already; use an empty one"
    );

    let started = Instant::now();
    enroll(&store, &clock, &collection, &vectors).await?;
    let enrolled_per_second = args.faces as f64 / started.elapsed().as_secs_f64();

    let ready = index::open(config, args, &store).await?;
    let collection = store.collection(key(&collection)).await?;
    let collection = collection.context("the collection is gone")?;
    let mut runs = Vec::new();
    for variant in ready.variants {
        let run = SearchRun {
            collections: collections(&store, variant.index, Arc::clone(&clock))?,
            collection: collection.clone(),
            vectors: Arc::clone(&vectors),
            must_be_exact: variant.must_be_exact,
        };
        runs.push(run.measure(args, variant.candidates).await?);
    }
    let report = json!({
        "faces": args.faces,
        "faces_of_person": args.faces_of_person,
        "photographs": args.photographs.is_some(),
        "dim": vectors.dim(),
        "enrolled_per_second": enrolled_per_second.round(),
        "index": ready.report,
        "runs": runs,
    });
    println!("{report:#}");
    Ok(ExitCode::SUCCESS)
}

fn collections(
    store: &Store,
    index: Arc<dyn FaceIndex>,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Collections> {
    Ok(Collections {
        store: store.clone(),
        index,
        calibrations: Arc::new(Calibrations::load(&[])?),
        audit: AuditLog::start(AuditLevel::Off, store.clone(), Arc::clone(&clock)),
        purposes: Arc::new([]),
        max_search_far: 1.0,
        max_searches_per_day: 0,
        clock,
    })
}

async fn open(url: &str, clock: &Arc<dyn Clock>) -> anyhow::Result<Store> {
    let settings = StoreSettings {
        url: url.into(),
        max_connections: 16,
        acquire_timeout: Duration::from_secs(60),
        call_timeout: Duration::from_secs(60),
    };
    let observer = Observer::new(Arc::clone(clock), Arc::new(()));
    let store = facescan_store::Store::open(&settings, observer).await?;
    store.migrate().await?;
    Ok(store)
}

fn collection(clock: &Arc<dyn Clock>, dim: usize) -> Collection {
    Collection {
        id: clock.new_id(),
        tenant: TENANT.to_owned(),
        kind: CollectionKind::Gallery,
        vector_space: "synthetic".to_owned(),
        dim: u32::try_from(dim).unwrap_or(u32::MAX),
        created_at: clock.now(),
        position: 0,
        enrolled: 0,
        terms: CollectionTerms {
            name: "synthetic faces".to_owned(),
            purpose: "benchmark".to_owned(),
            legal_basis: "no person".to_owned(),
            consent_required: false,
            retention_days: 1,
            far: 0.0001,
        },
    }
}

async fn enroll(
    store: &Store,
    clock: &Arc<dyn Clock>,
    collection: &Collection,
    vectors: &Vectors,
) -> anyhow::Result<()> {
    for start in (0..vectors.len()).step_by(FACES_OF_SUBJECT) {
        let subject = Subject {
            id: clock.new_id(),
            collection_id: collection.id,
            created_at: clock.now(),
            last_seen_at: clock.now(),
            details: SubjectDetails::default(),
        };
        store.create_subject(TENANT, &subject, None).await?;
        let end = (start + FACES_OF_SUBJECT).min(vectors.len());
        let faces: Vec<NewEnrollment> = (start..end)
            .map(|face| NewEnrollment {
                id: clock.new_id(),
                face_id: None,
                image_id: None,
                is_acceptable: true,
                vector: vectors.of(face).to_vec(),
            })
            .collect();
        let of = (key(collection), Some(subject.id));
        let enrolled = store.enroll(of, &faces, clock.now(), None).await?;
        ensure!(enrolled == Enrolled::Done, "{enrolled:?}");
    }
    Ok(())
}

/// A collection that is searched.
struct SearchRun {
    collections: Collections,
    collection: Collection,
    vectors: Arc<Vectors>,
    /// Whether searches compare every face.
    must_be_exact: bool,
}

impl SearchRun {
    async fn measure(&self, args: &SearchArgs, candidates: Option<u32>) -> anyhow::Result<Value> {
        let mut searches = Vec::new();
        for &clients in &args.clients {
            searches.push(self.load(clients, args.seconds).await?);
        }
        Ok(json!({
            "candidates": candidates,
            "searches": searches,
            "recall": self.recall(args.recall).await?,
        }))
    }

    async fn search(&self, query: &[f32]) -> anyhow::Result<SimilarFaces> {
        let wanted = Wanted {
            threshold: THRESHOLD,
            limit: LIMIT,
            by_subject: false,
            must_be_exact: self.must_be_exact,
        };
        let similar = self.collections.similar(&self.collection, query, wanted);
        Ok(similar.await?)
    }

    /// Measures searches of some clients at the same time.
    async fn load(&self, clients: usize, seconds: f64) -> anyhow::Result<Value> {
        let started = Instant::now();
        let end = started + Duration::from_secs_f64(seconds);
        let searches = (0..clients).map(|client| self.search_until(end, client));
        let mut latencies = try_join_all(searches).await?.concat();
        latencies.sort_unstable();
        Ok(json!({
            "clients": clients,
            "searches_per_second": latencies.len() as f64 / started.elapsed().as_secs_f64(),
            "p50_ms": millis(&latencies, 0.5),
            "p99_ms": millis(&latencies, 0.99),
        }))
    }

    async fn search_until(&self, end: Instant, client: usize) -> anyhow::Result<Vec<Duration>> {
        let mut random = fastrand::Rng::with_seed(client as u64);
        let mut latencies = Vec::new();
        while Instant::now() < end {
            let query = self.vectors.query(&mut random);
            let started = Instant::now();
            self.search(&query).await?;
            latencies.push(started.elapsed());
        }
        Ok(latencies)
    }

    /// Compares the answers with the most similar faces that reach the threshold. Searches that no face matches do not count.
    async fn recall(&self, searches: usize) -> anyhow::Result<Value> {
        let mut random = fastrand::Rng::with_seed(11);
        let queries: Vec<Vec<f32>> = match self.vectors.all_queries() {
            Some(all) => all.iter().take(searches).cloned().collect(),
            None => (0..searches)
                .map(|_| self.vectors.query(&mut random))
                .collect(),
        };
        let answers = stream::iter(&queries).map(|query| self.search(query));
        let answers: Vec<SimilarFaces> = answers.buffered(RECALL_CLIENTS).try_collect().await?;
        let strangers = self.vectors.strangers();
        let compared = (queries.len() * strangers.len()) as f64;
        let mut strangers_matched = 0;
        let (mut searches, mut best_found) = (0, 0);
        let (mut matches, mut matches_found) = (0, 0);
        for (query, answer) in queries.iter().zip(answers) {
            let mut expected = self.vectors.matches(query, THRESHOLD);
            strangers_matched += expected
                .iter()
                .filter(|face| strangers.contains(face))
                .count();
            expected.truncate(LIMIT);
            let Some(&best) = expected.first() else {
                continue;
            };
            let found = |face: &&usize| {
                let vector = self.vectors.of(**face);
                answer.faces.iter().any(|it| it.row.vector == vector)
            };
            let first = answer.faces.first();
            let is_best = first.is_some_and(|face| face.row.vector == self.vectors.of(best));
            searches += 1;
            best_found += usize::from(is_best);
            matches += expected.len();
            matches_found += expected.iter().filter(found).count();
        }
        Ok(json!({
            "searches": searches,
            "best_face_found": best_found,
            "matches": matches,
            "matches_found": matches_found,
            "far_of_strangers": (compared > 0.0).then(|| strangers_matched as f64 / compared),
        }))
    }
}
