//! Prepares the statements of a file.

use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, SqlSafeStr, SqlStr};

use crate::migrations;
use crate::parameters::replace_names;

/// The name and the text of a statement, and the only database that runs it, or an empty text.
type Listed = (&'static str, &'static str, &'static str);

/// Prepares the statements of a file in the databases that run them.
pub(crate) fn check(listed: &[Listed]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut refused = runtime.block_on(refused_by_sqlite(listed));
    refused.extend(runtime.block_on(refused_by_postgres(listed)));
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

async fn refused_by_sqlite(listed: &[Listed]) -> Vec<String> {
    let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let migrator = &migrations::SQLITE;
    migrator
        .run_direct(None, &mut connection, false)
        .await
        .unwrap();
    let mut refused = Vec::new();
    for &(name, statement, only) in listed {
        if only == "postgres" {
            continue;
        }
        if let Err(error) = connection.prepare(numbered(statement)).await {
            refused.push(format!("SQLite, {name}: {error}"));
        }
    }
    refused
}

/// Uses a schema that exists only in the transaction of the test.
async fn refused_by_postgres(listed: &[Listed]) -> Vec<String> {
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
    for &(name, statement, _) in listed {
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
