//! Prepares the statements of a file, and reads their plans.

use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection};

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
    /// The parameters that stand for rows, each with the types of the columns in Postgres.
    pub(crate) rows: &'static [(&'static str, &'static str)],
    /// The only database that runs it.
    pub(crate) only: &'static str,
    /// Why it may read a whole table or index.
    pub(crate) scans: &'static str,
    /// Why it may sort.
    pub(crate) sorts: &'static str,
}

/// How many values a list has: one, and as many as the store puts into one.
const LENGTHS: [usize; 2] = [1, 512];

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
    let (filled, part) = runtime.block_on(async {
        let mut connection = connection.lock().await;
        (
            in_postgres(&mut connection, listed).await,
            in_postgres_with_an_empty_table(&mut connection, listed).await,
        )
    });
    let mut wrong = Vec::new();
    for (place, statement) in listed.iter().enumerate() {
        let name = statement.name;
        let mut plan = Plan::default();
        let databases = [
            ("SQLite", &sqlite),
            ("Postgres", &empty),
            ("Postgres with rows", &filled),
            ("Postgres with rows in some tables", &part),
        ];
        for (database, found) in databases {
            match &found[place] {
                Ok(found) => {
                    wrong.extend(statement.undeclared(found, database));
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
    /// Returns how many values its lists have, one length for each plan.
    fn lengths(&self) -> &'static [usize] {
        let has_lists = self.text.contains("IN (:");
        if has_lists { &LENGTHS } else { &LENGTHS[..1] }
    }

    /// Whether the text has this word.
    fn names(&self, word: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.text.split(|c| !is_part(c)).any(|part| part == word)
    }

    fn undeclared(&self, plan: &Plan, database: &str) -> Vec<String> {
        let parts = [(&plan.scans, self.scans), (&plan.sorts, self.sorts)];
        let undeclared = parts.into_iter().filter(|(_, reason)| reason.is_empty());
        let found = undeclared.flat_map(|(found, _)| found);
        found
            .map(|found| format!("{database}, {}: {found}", self.name))
            .collect()
    }
}

type Explained = Vec<Result<Plan, sqlx::Error>>;

async fn in_sqlite(listed: &[Listed]) -> Explained {
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
            let (text, _) = numbered(statement, 1, |_| String::new());
            explain_sqlite(&mut connection, &text).await
        });
    }
    plans
}

async fn in_postgres(connection: &mut PgConnection, listed: &[Listed]) -> Explained {
    let mut plans = Vec::new();
    for statement in listed {
        plans.push(explained(connection, statement, "").await);
    }
    plans
}

/// Explains each statement as often as it has tables, each time without the rows of one of them.
async fn in_postgres_with_an_empty_table(
    connection: &mut PgConnection,
    listed: &[Listed],
) -> Explained {
    let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()";
    let tables: Vec<String> = sqlx::query_scalar(tables)
        .fetch_all(&mut *connection)
        .await
        .unwrap();
    let mut plans = Vec::new();
    for statement in listed {
        let mut plan = Ok(Plan::default());
        for table in tables.iter().filter(|table| statement.names(table)) {
            let empty = format!(
                "TRUNCATE {table}; DELETE FROM pg_statistic WHERE starelid = '{table}'::regclass"
            );
            let found = explained(connection, statement, &empty).await;
            plan = plan.and_then(|mut plan: Plan| {
                plan.extend(&found?);
                Ok(plan)
            });
        }
        plans.push(plan);
    }
    plans
}

/// Explains a statement with short and with long lists, after other ones. Undoes what those do.
async fn explained(
    connection: &mut PgConnection,
    statement: &Listed,
    before: &str,
) -> Result<Plan, sqlx::Error> {
    let mut plan = Plan::default();
    if statement.only == "sqlite" {
        return Ok(plan);
    }
    for length in statement.lengths() {
        let (text, parameters) = numbered(statement, *length, |kind| format!("::{kind}"));
        let begin = format!("SAVEPOINT before; {before}");
        run(connection, AssertSqlSafe(begin)).await;
        let found = explain_postgres(connection, &text, parameters).await;
        run(connection, "ROLLBACK TO before").await;
        plan.extend(&found?);
    }
    Ok(plan)
}

/// Numbers the parameters, and returns how many there are. A list, which is that of an `IN`, has `length` values, and rows are two.
/// `cast` returns what follows a value of a row with its type.
fn numbered(statement: &Listed, length: usize, cast: impl Fn(&str) -> String) -> (String, usize) {
    let mut names: Vec<String> = Vec::new();
    let mut place = |name: String| {
        let known = names.iter().position(|known| *known == name);
        known.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        }) + 1
    };
    let text = replace_names(statement.text, |text, name| {
        let mut value = |number: usize| format!("${}", place(format!("{name} {number}")));
        let rows = statement.rows.iter().find(|(rows, _)| *rows == name);
        let values: Vec<String> = if let Some((_, types)) = rows {
            let types: Vec<_> = types.split(", ").collect();
            let mut row = |row: usize| {
                let values = types.iter().enumerate();
                let values = values.map(|(column, kind)| {
                    format!("{}{}", value(row * types.len() + column), cast(kind))
                });
                format!("({})", values.collect::<Vec<_>>().join(", "))
            };
            vec![row(0), row(1)]
        } else {
            let length = if text.ends_with("IN (") { length } else { 1 };
            (0..length).map(value).collect()
        };
        text.push_str(&values.join(", "));
    });
    (text, names.len())
}
