//! A Postgres database with many rows in each table, for the tests of all files.

use std::sync::OnceLock;

use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

use super::tables::{create_tables, run};

/// Rows of each table. All but ten are those of one tenant.
const ROWS: u32 = 100_000;

/// The rows are in a transaction that never ends, so that none remain.
pub(super) struct Filled {
    pub(super) runtime: Runtime,
    pub(super) connection: Mutex<PgConnection>,
}

/// Returns the database. The first call fills it.
pub(super) fn filled() -> &'static Filled {
    static FILLED: OnceLock<Filled> = OnceLock::new();
    FILLED.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let connection = runtime.block_on(async {
            let mut connection = create_tables().await;
            fill(&mut connection).await;
            connection
        });
        Filled {
            runtime,
            connection: Mutex::new(connection),
        }
    })
}

async fn fill(connection: &mut PgConnection) {
    // The statistics come from 300 times as many rows, which is all of them. A part would be another one in each run.
    run(connection, "SET default_statistics_target = 400").await;
    // The values of the rows are none that the program writes.
    let constraints = "SELECT conrelid::regclass::text, conname::text FROM pg_constraint \
         WHERE connamespace = current_schema()::regnamespace AND contype IN ('c', 'f')";
    for (table, name) in pairs(connection, constraints).await {
        let drop = format!("ALTER TABLE {table} DROP CONSTRAINT {name}");
        run(connection, AssertSqlSafe(drop)).await;
    }
    let tables = "SELECT c.relname::text, string_agg(quote_ident(a.attname) || '=' || \
             format_type(a.atttypid, NULL) || '=' || a.attnotnull, ',' ORDER BY a.attnum) \
         FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
         WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attnum > 0 \
         AND NOT a.attisdropped AND a.attidentity = '' AND a.attgenerated = '' GROUP BY c.relname";
    for (table, columns) in pairs(connection, tables).await {
        let columns = columns.split(',').map(|column| {
            let parts: Vec<&str> = column.split('=').collect();
            (parts[0], value(parts[0], parts[1], parts[2] == "true"))
        });
        let (names, values): (Vec<_>, Vec<_>) = columns.unzip();
        let fill = format!(
            "ALTER TABLE {table} DISABLE TRIGGER USER; INSERT INTO {table} ({}) \
             SELECT {} FROM generate_series(1, {ROWS}) i ON CONFLICT DO NOTHING; ANALYZE {table}",
            names.join(", "),
            values.join(", ")
        );
        run(connection, AssertSqlSafe(fill)).await;
    }
}

/// Returns the SQL of a value of row `i`. A third of the values that may be null are.
fn value(column: &str, kind: &str, is_required: bool) -> String {
    let value = match (column, kind) {
        ("tenant", _) => format!("CASE WHEN i > {ROWS} - 10 THEN 'small' ELSE 'large' END"),
        (_, "text") => "'text ' || i".into(),
        (_, "uuid") => "lpad(to_hex(i), 32, '0')::uuid".into(),
        (_, "bytea") => "decode(lpad(to_hex(i), 64, '0'), 'hex')".into(),
        (_, "smallint") => "i % 8".into(),
        (_, "integer" | "bigint" | "real" | "double precision") => "i".into(),
        (_, "boolean") => "i % 2 = 0".into(),
        (_, "timestamp with time zone") => "to_timestamp(i)".into(),
        (_, "jsonb") => "'{}'::jsonb".into(),
        (_, array) if array.ends_with("[]") => format!("'{{1}}'::{array}"),
        _ => panic!("fill columns of the type {kind}, as {column} is"),
    };
    if is_required {
        value
    } else {
        format!("CASE WHEN i % 3 > 0 THEN {value} END")
    }
}

async fn pairs(connection: &mut PgConnection, query: &'static str) -> Vec<(String, String)> {
    sqlx::query_as(query).fetch_all(connection).await.unwrap()
}
