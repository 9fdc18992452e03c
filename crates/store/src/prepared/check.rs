//! Prepares the statements of a file, and reads their plans.

use sqlx::Connection;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;

use super::plan::{Plan, explain_postgres, explain_sqlite};
use super::rows::{Filled, filled};
use super::tables::{create_tables, run};
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
    let empty = runtime.block_on(async {
        let mut connection = create_tables().await;
        in_postgres(&mut connection, listed).await
    });
    let Filled {
        runtime,
        connection,
    } = filled();
    let filled =
        runtime.block_on(async { in_postgres(&mut *connection.lock().await, listed).await });
    let mut wrong = Vec::new();
    for (((statement, sqlite), empty), filled) in listed.iter().zip(sqlite).zip(empty).zip(filled) {
        let name = statement.name;
        let mut plan = Plan::default();
        let databases = [
            ("SQLite", sqlite),
            ("Postgres", empty),
            ("Postgres with rows", filled),
        ];
        for (database, found) in databases {
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

async fn in_postgres(
    connection: &mut PgConnection,
    listed: &[Listed],
) -> Vec<Result<Plan, sqlx::Error>> {
    let mut plans = Vec::new();
    for statement in listed {
        run(connection, "SAVEPOINT before").await;
        let (text, parameters) = numbered(statement.text);
        plans.push(explain_postgres(connection, &text, parameters).await);
        run(connection, "ROLLBACK TO before").await;
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
