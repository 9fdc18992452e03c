//! Prepares the statements of a file, and reads their plans.

use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection, SqlSafeStr};

use super::plan::{Plan, explain_postgres, explain_sqlite};
use crate::dialect::PLANS;
use crate::migrations;
use crate::parameters::replace_names;

/// A statement of a file. A part that it does not have is empty.
#[derive(Clone, Copy)]
pub(crate) struct Listed {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// The only database that runs it.
    pub(crate) only: &'static str,
    /// Why it may read a whole table or index.
    pub(crate) scans: &'static str,
    /// Why it may sort.
    pub(crate) sorts: &'static str,
}

/// Checks the statements of a file in the databases that run them.
pub(crate) fn check(listed: &[Listed]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let sqlite = runtime.block_on(in_sqlite(listed));
    let postgres = runtime.block_on(in_postgres(listed));
    let mut wrong = Vec::new();
    for ((statement, sqlite), postgres) in listed.iter().zip(sqlite).zip(postgres) {
        let name = statement.name;
        let mut plan = Plan::default();
        for (database, found) in [("SQLite", sqlite), ("Postgres", postgres)] {
            match found {
                Ok(found) => {
                    wrong.extend(statement.undeclared(&found, database));
                    plan.extend(found);
                }
                Err(error) => wrong.push(format!("{database}, {name}: {error}")),
            }
        }
        if plan.scans.is_empty() && !statement.scans.is_empty() {
            wrong.push(format!("{name} reads no whole table; remove `scans`"));
        }
        if plan.sorts.is_empty() && !statement.sorts.is_empty() {
            wrong.push(format!("{name} does not sort; remove `sorts`"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

impl Listed {
    fn undeclared(&self, plan: &Plan, database: &str) -> Vec<String> {
        let parts = [(&plan.scans, self.scans), (&plan.sorts, self.sorts)];
        let undeclared = parts.into_iter().filter(|(_, reason)| reason.is_empty());
        let found = undeclared.flat_map(|(found, _)| found);
        found
            .map(|found| format!("{database}, {}: {found}", self.name))
            .collect()
    }
}

async fn in_sqlite(listed: &[Listed]) -> Vec<Result<Plan, sqlx::Error>> {
    let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let migrator = &migrations::SQLITE;
    migrator
        .run_direct(None, &mut connection, false)
        .await
        .unwrap();
    let mut plans = Vec::new();
    for statement in listed {
        plans.push(if statement.only == "postgres" {
            Ok(Plan::default())
        } else {
            explain_sqlite(&mut connection, &numbered(statement.text).0).await
        });
    }
    plans
}

/// Uses a schema that exists only in the transaction of the test.
async fn in_postgres(listed: &[Listed]) -> Vec<Result<Plan, sqlx::Error>> {
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
    let mut plans = Vec::new();
    for statement in listed {
        run(&mut connection, "SAVEPOINT before").await;
        let (text, parameters) = numbered(statement.text);
        plans.push(explain_postgres(&mut connection, &text, parameters).await);
        run(&mut connection, "ROLLBACK TO before").await;
    }
    plans
}

/// Numbers the parameters, and returns how many there are. A list has one value, which suffices for its type.
fn numbered(statement: &str) -> (String, usize) {
    let mut names: Vec<String> = Vec::new();
    let text = replace_names(statement, |text, name| {
        let known = names.iter().position(|known| known == name);
        let place = known.unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        text.push_str(&format!("${}", place + 1));
    });
    (text, names.len())
}

async fn run(connection: &mut PgConnection, sql: impl SqlSafeStr) {
    sqlx::raw_sql(sql).execute(connection).await.unwrap();
}
