//! What the files of the databases and of Qdrant still have of erased faces.

use std::path::{Path, PathBuf};

use sqlx::{AssertSqlSafe, Row};
use walkdir::WalkDir;

#[cfg(feature = "qdrant")]
use super::qdrant;
use super::{
    MIN_FACES, exact, pgvector,
    under_test::{DIM, Face, Gallery, UnderTest},
};
use crate::support::database::{Database, execute, on_postgres, on_sqlite};
#[cfg(feature = "qdrant")]
use crate::support::qdrant::on_qdrant;

/// Returns the folder in a variable of the environment.
fn folder_of(variable: &str) -> PathBuf {
    let folder = std::env::var_os(variable);
    folder
        .unwrap_or_else(|| panic!("{variable} names no folder; run `make test`"))
        .into()
}

/// Returns whether a file below a folder has these bytes.
fn is_below(folder: &Path, bytes: &[u8]) -> bool {
    let files = WalkDir::new(folder).into_iter().filter_map(Result::ok);
    let mut files = files.filter(|entry| entry.file_type().is_file());
    // A file can be removed while the folder is read.
    files.any(|file| {
        let content = std::fs::read(file.path()).unwrap_or_default();
        content.windows(bytes.len()).any(|window| window == bytes)
    })
}

/// Returns whether a file of a database in Postgres has these bytes. The write-ahead log does not count: Postgres recycles
/// it.
async fn is_in_files(database: &Database, folder: &Path, bytes: &[u8]) -> bool {
    database.execute("CHECKPOINT").await;
    let id =
        database.count("SELECT oid::bigint FROM pg_database WHERE datname = current_database()");
    is_below(&folder.join(format!("base/{}", id.await)), bytes)
}

/// Returns the bytes of a vector as the databases and Qdrant have them.
fn float_bytes(vector: &[f32]) -> Vec<u8> {
    let values = vector.iter();
    values.flat_map(|value| value.to_le_bytes()).collect()
}

/// Returns the bytes of a vector as the index has them: 16-bit values, the low byte first.
async fn half_bytes(database: &Database, vector: &[f32]) -> Vec<u8> {
    let mut connection = database.connect().await;
    let query = format!("SELECT halfvec_send($1::halfvec({DIM}))");
    let row = sqlx::query(AssertSqlSafe(query)).bind(vector.to_vec());
    let sent: Vec<u8> = row.fetch_one(&mut connection).await.unwrap().get(0);
    let (values, _) = sent[4..].as_chunks::<2>();
    values
        .iter()
        .flat_map(|[high, low]| [*low, *high])
        .collect()
}

/// Enrolls faces, and returns the gallery with the face to erase and one to keep.
async fn enrolled(under_test: &UnderTest) -> (Gallery<'_>, Face, Face) {
    let mut gallery = Gallery::create(under_test, "gallery", 1).await;
    gallery.enroll(80).await;
    let (erased, kept) = (gallery.faces[200].clone(), gallery.faces[300].clone());
    (gallery, erased, kept)
}

/// Erases the face, and makes the files give up its bytes, as `facescan index purge` does.
async fn erase_and_purge(gallery: &mut Gallery<'_>, erased: &Face) {
    gallery.erase(erased.subject).await;
    let under_test = gallery.under_test;
    let now = under_test.collections.clock.now();
    let erasures = &under_test.store;
    assert!(erasures.rewrite_erased(now).await.unwrap());
    under_test.collections.index.purge().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_vectors_leave_the_files_of_postgres() {
    let folder = folder_of("TEST_DATABASE_DATA");
    on_postgres(|database: Database| async move {
        let (under_test, index) = pgvector(&database, MIN_FACES).await;
        let (mut gallery, erased, kept) = enrolled(&under_test).await;
        index.maintain().await.unwrap();
        let halves = half_bytes(&database, &erased.vector).await;
        let kept_halves = half_bytes(&database, &kept.vector).await;
        for bytes in [float_bytes(&erased.vector), halves.clone()] {
            assert!(is_in_files(&database, &folder, &bytes).await);
        }
        // The purge after each erasure frees the row in the table, and rewrites what is left of the index.
        gallery.erase(erased.subject).await;
        let now = under_test.collections.clock.now();
        assert!(under_test.store.purge_erased(now).await.unwrap());
        assert!(!is_in_files(&database, &folder, &halves).await, "the index");
        assert!(is_in_files(&database, &folder, &kept_halves).await);

        let other = gallery.faces[100].clone();
        erase_and_purge(&mut gallery, &other).await;
        for gone in [&erased, &other] {
            let bytes = float_bytes(&gone.vector);
            assert!(!is_in_files(&database, &folder, &bytes).await, "the table");
            let halves = half_bytes(&database, &gone.vector).await;
            assert!(!is_in_files(&database, &folder, &halves).await, "the index");
        }
        assert!(is_in_files(&database, &folder, &float_bytes(&kept.vector)).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_vectors_leave_the_files_of_sqlite() {
    on_sqlite(|database: Database| async move {
        let under_test = exact(&database).await;
        let (mut gallery, erased, kept) = enrolled(&under_test).await;
        let url = database.url();
        let file = url.trim_start_matches("sqlite://").split('?').next();
        let folder = Path::new(file.unwrap()).parent().unwrap();
        assert!(is_below(folder, &float_bytes(&erased.vector)));
        erase_and_purge(&mut gallery, &erased).await;
        assert!(!is_below(folder, &float_bytes(&erased.vector)));
        assert!(is_below(folder, &float_bytes(&kept.vector)));
    })
    .await;
}

/// Needs a real server: QDRANT_URL, and its folder in QDRANT_STORAGE.
#[cfg(feature = "qdrant")]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Qdrant server, QDRANT_URL, and its folder, QDRANT_STORAGE"]
async fn erased_vectors_leave_the_files_of_qdrant() {
    let folder = folder_of("QDRANT_STORAGE");
    on_sqlite(|database: Database| async move {
        on_qdrant(|server| async move {
            let under_test = qdrant(&database, &server).await;
            let (mut gallery, erased, kept) = enrolled(&under_test).await;
            gallery.search(&kept.vector, 1).await;
            assert!(is_below(&folder, &float_bytes(&erased.vector)));
            erase_and_purge(&mut gallery, &erased).await;
            assert!(!is_below(&folder, &float_bytes(&erased.vector)));
            assert!(is_below(&folder, &float_bytes(&kept.vector)));
        })
        .await;
    })
    .await;
}

/// While an index is built, VACUUM cannot have the table.
#[tokio::test(flavor = "multi_thread")]
async fn a_purge_does_not_wait_for_the_building_of_an_index() {
    on_postgres(|database: Database| async move {
        let store = database.open().await;
        let erasures = &store;
        let now = time::OffsetDateTime::now_utc();
        let mut builder = database.connect().await;
        execute(&mut builder, "BEGIN").await;
        execute(
            &mut builder,
            "LOCK TABLE enrollments IN SHARE UPDATE EXCLUSIVE MODE",
        )
        .await;
        assert!(!erasures.purge_erased(now).await.unwrap());
        execute(&mut builder, "COMMIT").await;
        assert!(erasures.purge_erased(now).await.unwrap());
    })
    .await;
}
