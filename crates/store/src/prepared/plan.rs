//! What a database reads for a statement.

use std::collections::HashMap;

use serde_json::Value;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Executor as _, Row as _, SqlSafeStr as _};

/// The steps of a plan that take longer the more rows there are.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Tables, indexes and rows of a tenant that are read from their begin to their end. An index of a part of the rows is as long as
    /// that part.
    pub(super) scans: Vec<String>,
    pub(super) sorts: Vec<String>,
}

impl Plan {
    pub(super) fn extend(&mut self, other: &Self) {
        self.scans.extend_from_slice(&other.scans);
        self.sorts.extend_from_slice(&other.sorts);
    }
}

/// Explains the plan that holds for all values.
pub(super) async fn explain_postgres(
    connection: &mut PgConnection,
    statement: &str,
    parameters: usize,
) -> Result<Plan, sqlx::Error> {
    connection
        .prepare(AssertSqlSafe(statement.to_owned()).into_sql_str())
        .await?;
    let explain = |text: String| sqlx::raw_sql(AssertSqlSafe(text));
    explain(format!("PREPARE checked AS {statement}"))
        .execute(&mut *connection)
        .await?;
    let values = match parameters {
        0 => String::new(),
        _ => format!("({})", vec!["NULL"; parameters].join(", ")),
    };
    let explained = explain(format!("EXPLAIN (FORMAT JSON) EXECUTE checked{values}"))
        .fetch_one(&mut *connection)
        .await?;
    let whole: Vec<(String, String)> = sqlx::query_as(WHOLE_INDEXES)
        .fetch_all(&mut *connection)
        .await?;
    let one_a_tenant: Vec<String> = sqlx::query_scalar(ONE_ROW_A_TENANT)
        .fetch_all(&mut *connection)
        .await?;
    explain("DEALLOCATE checked".into())
        .execute(connection)
        .await?;
    let mut plan = Plan::default();
    let indexes = Indexes {
        whole: whole.into_iter().collect(),
        one_a_tenant,
    };
    plan.add_node(
        &explained.try_get::<Value, _>(0)?[0]["Plan"],
        &indexes,
        false,
    );
    Ok(plan)
}

const WHOLE_INDEXES: &str = "SELECT c.relname::text, a.attname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
     JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] WHERE i.indpred IS NULL";

const ONE_ROW_A_TENANT: &str = "SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
     JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] \
     WHERE i.indisunique AND i.indnkeyatts = 1 AND a.attname = 'tenant'";

struct Indexes {
    /// The indexes of all rows of their table, each with its first column.
    whole: HashMap<String, String>,
    one_a_tenant: Vec<String>,
}

impl Plan {
    fn add_node(&mut self, node: &Value, indexes: &Indexes, is_limited: bool) {
        let text = |name: &str| node[name].as_str().unwrap_or_default().to_owned();
        // A limit of joined rows does not limit the rows that are joined.
        let is_limited = match text("Node Type").as_str() {
            "Limit" => true,
            "Nested Loop" => false,
            _ => is_limited,
        };
        match text("Node Type").as_str() {
            "Seq Scan" => self
                .scans
                .push(format!("reads all of {}", text("Relation Name"))),
            "Index Scan" | "Index Only Scan" => {
                let (index, condition) = (text("Index Name"), text("Index Cond"));
                let is_narrow = |column: &String| condition.contains(column.as_str());
                if indexes
                    .whole
                    .get(&index)
                    .is_some_and(|column| !is_narrow(column))
                {
                    self.scans
                        .push(format!("reads all of {index}: {condition}"));
                }
                let has_one = indexes.one_a_tenant.contains(&index);
                if !is_limited && !has_one && condition.split(" AND ").all(is_of_tenant) {
                    self.scans
                        .push(format!("reads all of a tenant in {index}: {condition}"));
                }
            }
            "Sort" | "Incremental Sort" => {
                self.sorts.push(format!("sorts by {}", node["Sort Key"]))
            }
            _ => {}
        }
        for node in node["Plans"].as_array().into_iter().flatten() {
            self.add_node(node, indexes, is_limited);
        }
    }
}

/// Whether a part of the condition of an index is that of the tenant.
fn is_of_tenant(condition: &str) -> bool {
    condition
        .trim_start_matches('(')
        .split(' ')
        .next()
        .is_some_and(|column| column == "tenant")
}

/// Explains a statement. SQLite has no statistics unless somebody runs ANALYZE.
pub(super) async fn explain_sqlite(
    connection: &mut SqliteConnection,
    statement: &str,
) -> Result<Plan, sqlx::Error> {
    let partial = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '% WHERE %'";
    let partial = sqlx::query_scalar(partial).fetch_all(&mut *connection);
    let partial: Vec<String> = partial.await?;
    let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
    let steps = sqlx::query(explain).fetch_all(connection).await?;
    let steps: Result<Vec<String>, _> = steps.iter().map(|step| step.try_get("detail")).collect();
    let steps = steps?;
    let inner = ["CO-ROUTINE ", "MATERIALIZE "];
    let inner: Vec<&str> = steps
        .iter()
        .filter_map(|step| inner.iter().find_map(|inner| step.strip_prefix(inner)))
        .collect();
    let mut plan = Plan::default();
    for step in &steps {
        let scanned = step.strip_prefix("SCAN ");
        // The rows of a query within the statement, whose steps are listed too, and those of the statement itself.
        let is_of_a_table = scanned.is_some_and(|scanned| {
            !inner.contains(&scanned)
                && !scanned.contains('(')
                && !scanned.contains("CONSTANT ROW")
                && !scanned.contains("VALUES CLAUSE")
        });
        let is_partial = partial.iter().any(|index| step.ends_with(index.as_str()));
        if is_of_a_table && !is_partial {
            plan.scans.push(step.clone());
        } else if step.contains("TEMP B-TREE") {
            plan.sorts.push(step.clone());
        }
    }
    Ok(plan)
}
