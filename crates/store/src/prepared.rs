//! Tests that both databases know every statement: its tables, its columns and the types of its parameters.
//!
//! Each file with statements ends with [`statements!`], which lists them. The lists are complete, or the tests fail.

#[cfg(test)]
mod check;

#[cfg(test)]
pub(crate) use check::{Listed, check};

/// Tests the statements of the file. The names after `postgres:` are of statements that only Postgres runs, and those after
/// `parts:` of parts of statements, which no database knows.
macro_rules! statements {
    ($($name:ident),* $(,)? $(; postgres: $($own:ident),+)? $(; parts: $($part:ident),+)?) => {
        #[cfg(test)]
        mod prepared {
            #[test]
            fn both_databases_know_every_statement() {
                $crate::prepared::check(&$crate::prepared::Listed {
                    file: file!(),
                    statements: &[$((stringify!($name), super::$name)),*],
                    of_postgres: &[$($((stringify!($own), super::$own)),+)?],
                    parts: &[$($(stringify!($part)),+)?],
                });
            }
        }
    };
}

pub(crate) use statements;
