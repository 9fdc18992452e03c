//! Prepares the statements that the files list.

use std::path::Path;

use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, SqlSafeStr, SqlStr};

use crate::migrations;
use crate::parameters::replace_names;

/// Files whose statements are for one of the databases.
const OF_ONE_DATABASE: [&str; 4] = [
    "notifications.rs",
    "postgres.rs",
    "sqlite.rs",
    "vector_indexes/pgvector.rs",
];

/// The constants with SQL of one file.
pub(crate) struct Listed {
    /// The path of the file in the repository.
    pub(crate) file: &'static str,
    /// The statements by name.
    pub(crate) statements: &'static [(&'static str, &'static str)],
    /// The statements that only Postgres runs.
    pub(crate) of_postgres: &'static [(&'static str, &'static str)],
    /// The names of parts of statements, which the program completes when it runs them.
    pub(crate) parts: &'static [&'static str],
}

/// Prepares the statements of a file in both databases.
pub(crate) fn check(listed: &Listed) {
    let mut missing = constants(&source(listed.file));
    missing.retain(|name| {
        let mut statements = listed.statements.iter().chain(listed.of_postgres);
        let is_statement = statements.any(|(known, _)| known == name);
        !is_statement && !listed.parts.contains(&name.as_str())
    });
    assert!(missing.is_empty(), "`statements!` misses {missing:?}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut refused = runtime.block_on(refused_by_sqlite(listed));
    refused.extend(runtime.block_on(refused_by_postgres(listed)));
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

async fn refused_by_sqlite(listed: &Listed) -> Vec<String> {
    let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let migrator = &migrations::SQLITE;
    migrator
        .run_direct(None, &mut connection, false)
        .await
        .unwrap();
    let mut refused = Vec::new();
    for &(name, statement) in listed.statements {
        if let Err(error) = connection.prepare(numbered(statement)).await {
            refused.push(format!("SQLite, {name}: {error}"));
        }
    }
    refused
}

/// Uses a schema that exists only in the transaction of the test.
async fn refused_by_postgres(listed: &Listed) -> Vec<String> {
    let url = std::env::var("TEST_DATABASE_URL").expect(
        "there is no Postgres server for the test: run `make test`, or set TEST_DATABASE_URL",
    );
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let schema = format!("prepared_{}", uuid::Uuid::now_v7().simple());
    let begin = format!("BEGIN; CREATE SCHEMA {schema}; SET LOCAL search_path TO {schema}");
    run(&mut connection, AssertSqlSafe(begin)).await;
    for migration in migrations::POSTGRES.iter() {
        run(
            &mut connection,
            AssertSqlSafe(migration.sql.as_str().to_owned()),
        )
        .await;
    }
    let mut refused = Vec::new();
    for &(name, statement) in listed.statements.iter().chain(listed.of_postgres) {
        run(&mut connection, "SAVEPOINT before").await;
        if let Err(error) = connection.prepare(numbered(statement)).await {
            refused.push(format!("Postgres, {name}: {error}"));
        }
        run(&mut connection, "ROLLBACK TO before").await;
    }
    refused
}

/// Numbers the parameters. A list has one value, which suffices for its type.
fn numbered(statement: &str) -> SqlStr {
    let mut names: Vec<String> = Vec::new();
    let text = replace_names(statement, |text, name| {
        let known = names.iter().position(|known| known == name);
        let place = known.unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        text.push_str(&format!("${}", place + 1));
    });
    AssertSqlSafe(text).into_sql_str()
}

async fn run(connection: &mut PgConnection, sql: impl sqlx::SqlSafeStr) {
    sqlx::raw_sql(sql).execute(connection).await.unwrap();
}

fn source(file: &str) -> String {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(repository.join(file)).unwrap()
}

/// Returns the names of the constants of a file that are texts.
fn constants(source: &str) -> Vec<String> {
    let name = |line: &str| {
        let (before, after) = line.split_once("const ")?;
        let (name, kind) = after.split_once(": ")?;
        let is_text = kind.starts_with("&str") && (before.is_empty() || before.starts_with("pub("));
        is_text.then(|| name.to_owned())
    };
    source.lines().filter_map(name).collect()
}

/// Returns the Rust files below a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

#[test]
fn every_file_with_statements_lists_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in files(&folder) {
        let name = file.strip_prefix(&folder).unwrap().to_str().unwrap();
        if OF_ONE_DATABASE.contains(&name) || name == "schema.rs" {
            continue;
        }
        let source = std::fs::read_to_string(&file).unwrap();
        assert!(
            constants(&source).is_empty() || source.contains("statements!("),
            "{name} has statements and no `statements!`"
        );
    }
}
