//! The tables of Postgres for a test.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _, SqlSafeStr};

use crate::dialect::PLANS;
use crate::migrations;

/// Creates the tables in a schema that exists only in the transaction of the connection.
pub(super) async fn create_tables() -> PgConnection {
    let url = std::env::var("TEST_DATABASE_URL").expect(
        "there is no Postgres server for the test: run `make test`, or set TEST_DATABASE_URL",
    );
    let mut connection = PgConnection::connect(&url).await.unwrap();
    run(&mut connection, PLANS).await;
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
    connection
}

pub(super) async fn run(connection: &mut PgConnection, sql: impl SqlSafeStr) {
    sqlx::raw_sql(sql).execute(connection).await.unwrap();
}
