//! The texts of statements, and tests that both databases know each of them: its tables, its columns and the types of its parameters.
//! The tests also read the plan of each statement, with short and with long lists, on empty tables, on large ones, and on large ones of
//! which one is empty: it finds its rows by the keys of an index and sorts none.
//!
//! A file declares its statements with [`statements!`], which also tests them. A connection runs no other text, except one
//! that is made for the call.

#[cfg(test)]
mod check;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod rows;
#[cfg(test)]
mod tables;

#[cfg(test)]
pub(crate) use check::{Listed, check};

/// A statement, which names its parameters, as `:name`.
#[derive(Clone, Copy)]
pub(crate) struct Statement(&'static str);

impl Statement {
    /// Returns a statement without a test: its table is not one of the migrations.
    pub(crate) const fn untested(text: &'static str) -> Self {
        Self(text)
    }

    pub(crate) fn text(self) -> &'static str {
        self.0
    }
}

/// Declares the statements of a file, and tests them.
///
/// `, rows "types"` follows the text of one with a parameter `:rows`, with the types of its columns in Postgres.
/// `, only postgres` follows the text of one that SQLite does not run. `, scans "why"` follows one that reads a whole table or index,
/// and `, sorts "why"` one that sorts rows, with the reason why their number does not grow with the tables or why the statement may
/// take as long.
macro_rules! statements {
    ($(
        $(#[$meta:meta])*
        $vis:vis const $name:ident = $text:expr
            $(, rows $rows:literal)? $(, only $database:ident)? $(, scans $scans:literal)? $(, sorts $sorts:literal)?;
    )+) => {
        $(
            $(#[$meta])*
            $vis const $name: $crate::prepared::Statement =
                $crate::prepared::Statement::untested($text);
        )+

        #[cfg(test)]
        mod prepared {
            use $crate::prepared::Listed;

            #[test]
            fn both_databases_find_the_rows_of_every_statement() {
                $crate::prepared::check(&[
                    $(Listed {
                        name: stringify!($name),
                        text: super::$name.text(),
                        rows: &[$(("rows", $rows))?],
                        only: concat!("" $(, stringify!($database))?),
                        scans: concat!("" $(, $scans)?),
                        sorts: concat!("" $(, $sorts)?),
                    },)+
                ]);
            }
        }
    };
}

/// The text of a query of a `WITH RECURSIVE`, which steps from one tenant of a table to the next through the index, because there
/// are many rows and few tenants. Its last row is null.
macro_rules! tenants_of {
    ($table:literal as $name:literal) => {
        concat!(
            $name,
            "(tenant) AS (SELECT min(tenant) FROM ",
            $table,
            " UNION ALL SELECT (SELECT min(t.tenant) FROM ",
            $table,
            " t WHERE t.tenant > ",
            $name,
            ".tenant) FROM ",
            $name,
            " WHERE ",
            $name,
            ".tenant IS NOT NULL)"
        )
    };
}

pub(crate) use {statements, tenants_of};
