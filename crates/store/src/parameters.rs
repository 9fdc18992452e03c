//! The parameters of statements, by name.
//!
//! A statement names its parameters: `WHERE tenant = :tenant AND id IN (:ids)`. [`params!`] gives their values, in any order.

use std::fmt::Write as _;

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Postgres, Sqlite};

use crate::values::{List, Value};

/// The values of parameters by name. The statement may leave some out.
pub(crate) type Params<'a> = [(&'static str, &'a dyn Value)];

/// The values of parameters: `params!(tenant, id = key.id)` for `:tenant` and `:id`.
macro_rules! params {
    (@value $name:ident) => {
        (stringify!($name), &$name as &dyn $crate::values::Value)
    };
    (@value $name:ident $value:expr) => {
        (stringify!($name), &$value as &dyn $crate::values::Value)
    };
    ($($name:ident $(= $value:expr)?),* $(,)?) => {
        &[$($crate::parameters::params!(@value $name $($value)?)),*]
    };
}

pub(crate) use params;

/// A statement as the databases take it, with its values in order.
pub(crate) struct Numbered<'a> {
    /// The text, with `$1`, `$2` … in place of the names.
    pub(crate) text: String,
    /// The values of the numbers.
    pub(crate) values: Vec<&'a dyn Value>,
    /// Whether the plan of the statement is kept for the next call.
    pub(crate) is_kept: bool,
}

impl<'a> Numbered<'a> {
    /// Replaces the names of a statement.
    ///
    /// # Errors
    ///
    /// Returns an error if a name has no value.
    pub(crate) fn new(statement: &str, params: &'a Params<'a>) -> Result<Self, sqlx::Error> {
        let mut values: Vec<&'a dyn Value> = Vec::with_capacity(params.len());
        let mut first_numbers = vec![None; params.len()];
        let mut unknown = None;
        let text = replace_names(statement, |text, name| {
            let Some(place) = params.iter().position(|(known, _)| *known == name) else {
                unknown = Some(name.to_owned());
                return;
            };
            let (_, value) = params[place];
            let list = value.list();
            let first = *first_numbers[place].get_or_insert_with(|| {
                let first = values.len() + 1;
                match &list {
                    None => values.push(value),
                    Some(list) => values.extend(&list.values),
                }
                first
            });
            match list {
                None => text.push_str(&format!("${first}")),
                Some(list) => text.push_str(&placeholders(&list, first)),
            }
        });
        match unknown {
            None => Ok(Self {
                text,
                values,
                is_kept: true,
            }),
            Some(name) => Err(sqlx::Error::Encode(
                format!("the parameter :{name} has no value").into(),
            )),
        }
    }

    /// Binds the values for Postgres.
    pub(crate) fn for_postgres(self) -> Result<Query<'static, Postgres, PgArguments>, sqlx::Error> {
        let mut arguments = PgArguments::default();
        for value in &self.values {
            let bound = value.bind_postgres(&mut arguments);
            bound.map_err(sqlx::Error::Encode)?;
        }
        Ok(sqlx::query_with(AssertSqlSafe(self.text), arguments).persistent(self.is_kept))
    }

    /// Binds the values for SQLite.
    pub(crate) fn for_sqlite(self) -> Result<Query<'static, Sqlite, SqliteArguments>, sqlx::Error> {
        let mut arguments = SqliteArguments::default();
        for value in &self.values {
            let bound = value.bind_sqlite(&mut arguments);
            bound.map_err(sqlx::Error::Encode)?;
        }
        Ok(sqlx::query_with(AssertSqlSafe(self.text), arguments).persistent(self.is_kept))
    }
}

/// Calls `write` to write something in place of each name of a statement. A cast, which begins with `::`, is no name.
pub(crate) fn replace_names(statement: &str, mut write: impl FnMut(&mut String, &str)) -> String {
    let mut text = String::with_capacity(statement.len());
    let mut rest = statement;
    while let Some((before, behind)) = rest.split_once(':') {
        text.push_str(before);
        if let Some(cast) = behind.strip_prefix(':') {
            text.push_str("::");
            rest = cast;
            continue;
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = behind.find(|c| !is_part(c)).unwrap_or(behind.len());
        let (name, after) = behind.split_at(end);
        write(&mut text, name);
        rest = after;
    }
    text.push_str(rest);
    text
}

/// Writes the numbers of a list from `first`: `$1, $2` for two values, and `($1, $2), ($3, $4)` for two rows of two.
fn placeholders(list: &List<'_>, first: usize) -> String {
    let mut text = String::with_capacity(8 * list.values.len());
    for place in 0..list.values.len() {
        let column = list.columns.map(|columns| place % columns);
        let separator = if place == 0 { "" } else { ", " };
        let open = if column == Some(0) { "(" } else { "" };
        let is_last = list
            .columns
            .is_some_and(|columns| column == Some(columns - 1));
        let close = if is_last { ")" } else { "" };
        let number = first + place;
        // Writing to a text cannot fail.
        write!(text, "{separator}{open}${number}{close}").ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{Many, Rows};

    fn numbered(statement: &str, params: &Params<'_>) -> (String, usize) {
        let numbered = Numbered::new(statement, params).unwrap();
        (numbered.text, numbered.values.len())
    }

    #[test]
    fn names_become_numbers_in_the_order_of_the_statement() {
        let statement = "SELECT :b::text WHERE a = :a AND (b > :b OR :b IS NULL)";
        let expected = "SELECT $1::text WHERE a = $2 AND (b > $1 OR $1 IS NULL)";
        let params = params!(a = 1_i64, b = "b", unused = true);
        assert_eq!(numbered(statement, params), (expected.to_owned(), 2));
    }

    #[test]
    fn lists_and_rows_become_numbers() {
        let ids = [1_i64, 2, 3];
        let statement = "DELETE FROM a WHERE b = :b AND id IN (:ids)";
        let expected = "DELETE FROM a WHERE b = $1 AND id IN ($2, $3, $4, $5)";
        let params = params!(ids = Many(&ids), b = false);
        assert_eq!(numbered(statement, params), (expected.to_owned(), 5));

        let rows: [[&dyn Value; 2]; 2] = [[&ids[0], &ids[1]], [&ids[1], &ids[2]]];
        let statement = "INSERT INTO a (b, c) VALUES :rows";
        let expected = "INSERT INTO a (b, c) VALUES ($1, $2), ($3, $4)";
        let params = params!(rows = Rows(&rows));
        assert_eq!(numbered(statement, params), (expected.to_owned(), 4));
    }

    #[test]
    fn a_name_without_a_value_is_an_error() {
        assert!(Numbered::new("SELECT :a", params!(b = 1_i64)).is_err());
    }
}
