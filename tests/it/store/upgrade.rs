//! A database that an older version of the program created.

use std::borrow::Cow;
use std::str::FromStr;

use facescan_imaging::precision::NumericPrecision;
use facescan_store::Embedding;
use serde_json::json;
use sqlx::migrate::{Migrate, Migration, MigrationType, Migrator};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Executor, SqlStr, SqliteConnection,
    sqlite::SqliteConnectOptions,
};
use uuid::Uuid;

use super::fixtures::{face_at, find, new_scan, read_image};
use crate::support::database::{Database, on_postgres, on_sqlite};

#[tokio::test(flavor = "multi_thread")]
async fn faces_of_the_first_version_are_read_from_sqlite() {
    on_sqlite(read_faces_of_the_first_version).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faces_of_the_first_version_are_read_from_postgres() {
    on_postgres(read_faces_of_the_first_version).await;
}

/// The ids of the rows below.
const IMAGE: Uuid = Uuid::from_u128(0x0197_0000_0000_7000_8000_0000_0000_0001);
const FACE: Uuid = Uuid::from_u128(0x0197_0000_0000_7000_8000_0000_0000_0003);

/// An image with one face that has a quality and the vector `[0.5, -2]`, as the first version wrote it.
const POSTGRES_ROWS: &str = r#"
    INSERT INTO images VALUES ('01970000-0000-7000-8000-000000000001', 'old',
        decode(repeat('2a', 32), 'hex'), 10, 640, 480, 'jpeg', 1, NULL, '2025-06-01T10:00:00Z');
    INSERT INTO scans VALUES ('01970000-0000-7000-8000-000000000002',
        '01970000-0000-7000-8000-000000000001', decode(repeat('2b', 32), 'hex'), 'embed',
        NULL, NULL, 'sface', 'c1', NULL, true, '2025-06-01T10:00:00Z');
    INSERT INTO faces VALUES ('01970000-0000-7000-8000-000000000003',
        '01970000-0000-7000-8000-000000000002', '01970000-0000-7000-8000-000000000001',
        0, 1, 2, 3, 4, 0.5, NULL, '{"overall": 0.5}');
    INSERT INTO embeddings VALUES ('01970000-0000-7000-8000-000000000003', 'c1', 2, 9.5,
        '{0.5, -2}');
"#;

/// The same rows in the types of SQLite.
const SQLITE_ROWS: &str = r#"
    INSERT INTO images VALUES (x'01970000000070008000000000000001', 'old',
        x'2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a',
        10, 640, 480, 'jpeg', 1, NULL, '2025-06-01T10:00:00Z');
    INSERT INTO scans VALUES (x'01970000000070008000000000000002',
        x'01970000000070008000000000000001',
        x'2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b',
        'embed', NULL, NULL, 'sface', 'c1', NULL, 1, '2025-06-01T10:00:00Z');
    INSERT INTO faces VALUES (x'01970000000070008000000000000003',
        x'01970000000070008000000000000002', x'01970000000070008000000000000001',
        0, 1, 2, 3, 4, 0.5, NULL, '{"overall": 0.5}');
    INSERT INTO embeddings VALUES (x'01970000000070008000000000000003', 'c1', 2, 9.5,
        x'0000003f000000c0');
"#;

async fn read_faces_of_the_first_version(database: Database) {
    make_the_first_version(&database).await;
    let store = database.open().await;

    let image = read_image(&store, "old", IMAGE).await.unwrap();
    let face = store.face("old", FACE).await.unwrap().unwrap();
    assert_eq!(image.scans[0].faces, std::slice::from_ref(&face));
    let expected = Embedding {
        contract: "c1".into(),
        precision: NumericPrecision::F32,
        norm: 9.5,
        vector: vec![0.5, -2.0],
    };
    assert_eq!(face.embedding, Some(expected));
    let results = json!({"quality": {"overall": 0.5}});
    assert_eq!(face.results, Some(results));

    // A later scan of the same image is stored next to the old scan.
    let mut scan = new_scan("old", 0x2a);
    scan.faces = vec![face_at(10.0)];
    let embedding = scan.faces[0].embedding.as_mut().unwrap();
    embedding.precision = NumericPrecision::Bf16;
    let saved = store.save_scan(scan.clone()).await.unwrap();
    assert_eq!(saved.image_id(), IMAGE);
    let found = find(&store, &scan).await.unwrap();
    assert_eq!(found.faces[0].embedding, scan.faces[0].embedding);
    store.close().await;
}

/// Creates the tables of the first migration and inserts the rows.
async fn make_the_first_version(database: &Database) {
    match database {
        Database::Sqlite { url } => {
            let options = SqliteConnectOptions::from_str(url).unwrap();
            let directory = options.get_filename().parent().unwrap();
            std::fs::create_dir_all(directory).unwrap();
            let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
            let sql = include_str!("../../../migrations/sqlite/0001_initial.sql");
            apply_first(sql, &mut connection).await;
            connection
                .execute(AssertSqlSafe(SQLITE_ROWS))
                .await
                .unwrap();
            connection.close().await.unwrap();
        }
        Database::Postgres { options } => {
            let mut connection = options.connect().await.unwrap();
            let sql = include_str!("../../../migrations/postgres/0001_initial.sql");
            apply_first(sql, &mut connection).await;
            connection
                .execute(AssertSqlSafe(POSTGRES_ROWS))
                .await
                .unwrap();
        }
    }
}

/// Runs the first migration and records it, as the store of that version did.
async fn apply_first(sql: &'static str, connection: &mut impl Migrate) {
    let migration = Migration::new(
        1,
        Cow::Borrowed("initial"),
        MigrationType::Simple,
        SqlStr::from_static(sql),
        false,
    );
    let migrator = Migrator::with_migrations(vec![migration]);
    migrator.run_direct(None, connection, false).await.unwrap();
}
