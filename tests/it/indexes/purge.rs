//! What the files of Postgres still have of erased faces.

use std::path::PathBuf;

use sqlx::{AssertSqlSafe, Row};
use walkdir::WalkDir;

use super::{
    MIN_FACES, pgvector,
    under_test::{DIM, Gallery},
};
use crate::support::database::{Database, execute, on_postgres};

/// Returns the folder of the data of the Postgres server. Without it, prints that the test is skipped.
fn data_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("TEST_DATABASE_DATA").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: TEST_DATABASE_DATA is not set; run `make test`");
    }
    folder
}

/// Returns whether a file of a database has these bytes. The write-ahead log does not count: Postgres recycles it.
async fn is_in_files(database: &Database, bytes: &[u8]) -> bool {
    database.execute("CHECKPOINT").await;
    let id =
        database.count("SELECT oid::bigint FROM pg_database WHERE datname = current_database()");
    let folder = data_folder().unwrap().join(format!("base/{}", id.await));
    let files = WalkDir::new(folder).into_iter().filter_map(Result::ok);
    let mut files = files.filter(|entry| entry.file_type().is_file());
    // A file can be removed while the folder is read.
    let has_bytes = |content: &Vec<u8>| content.windows(bytes.len()).any(|window| window == bytes);
    files.any(|file| std::fs::read(file.path()).is_ok_and(|content| has_bytes(&content)))
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

#[tokio::test(flavor = "multi_thread")]
async fn erased_vectors_leave_the_files() {
    if data_folder().is_none() {
        return;
    }
    on_postgres(|database: Database| async move {
        let (under_test, index) = pgvector(&database, MIN_FACES).await;
        let mut gallery = Gallery::create(&under_test, "gallery", 1).await;
        gallery.enrol(80).await;
        index.maintain().await.unwrap();
        let erased = gallery.faces[200].clone();
        let kept = gallery.faces[300].clone();
        let floats = |vector: &[f32]| -> Vec<u8> {
            vector
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect()
        };
        let halves = half_bytes(&database, &erased.vector).await;
        let kept_halves = half_bytes(&database, &kept.vector).await;
        assert!(is_in_files(&database, &floats(&erased.vector)).await);
        assert!(is_in_files(&database, &halves).await);

        gallery.erase(erased.subject).await;
        let now = under_test.collections.clock.now();
        assert!(under_test.stores.erasures.purge_erased(now).await.unwrap());
        assert!(!is_in_files(&database, &halves).await, "the index");
        assert!(is_in_files(&database, &kept_halves).await);
        // VACUUM frees the place of a row without writing to it. Only later rows, or a new file, remove the bytes.
        database.execute("VACUUM FULL enrolments").await;
        assert!(
            !is_in_files(&database, &floats(&erased.vector)).await,
            "the table"
        );
        assert!(is_in_files(&database, &floats(&kept.vector)).await);
    })
    .await;
}

/// While an index is built, VACUUM cannot have the table.
#[tokio::test(flavor = "multi_thread")]
async fn a_purge_does_not_wait_for_the_building_of_an_index() {
    on_postgres(|database: Database| async move {
        let stores = database.open_all().await;
        let erasures = &stores.erasures;
        let now = time::OffsetDateTime::now_utc();
        let mut builder = database.connect().await;
        execute(&mut builder, "BEGIN").await;
        execute(
            &mut builder,
            "LOCK TABLE enrolments IN SHARE UPDATE EXCLUSIVE MODE",
        )
        .await;
        assert!(!erasures.purge_erased(now).await.unwrap());
        execute(&mut builder, "COMMIT").await;
        assert!(erasures.purge_erased(now).await.unwrap());
    })
    .await;
}
