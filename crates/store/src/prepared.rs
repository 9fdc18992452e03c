//! The texts of statements, and tests that both databases know each of them: its tables, its columns and the types of its parameters.
//!
//! A file declares its statements with [`statements!`], which also tests them. A connection runs no other text, except one
//! that is made for the call.

#[cfg(test)]
mod check;

#[cfg(test)]
pub(crate) use check::check;

/// A statement, which names its parameters, as `:name`.
#[derive(Clone, Copy)]
pub(crate) struct Statement(&'static str);

impl Statement {
    /// Returns a statement without a test: its parameters are rows, or its table is not one of the migrations.
    pub(crate) const fn untested(text: &'static str) -> Self {
        Self(text)
    }

    pub(crate) fn text(self) -> &'static str {
        self.0
    }
}

/// Declares the statements of a file, and tests them. `, only postgres` follows the text of one that SQLite does not run.
macro_rules! statements {
    ($(
        $(#[$meta:meta])*
        $vis:vis const $name:ident = $text:expr $(, only $database:ident)?;
    )+) => {
        $(
            $(#[$meta])*
            $vis const $name: $crate::prepared::Statement =
                $crate::prepared::Statement::untested($text);
        )+

        #[cfg(test)]
        mod prepared {
            #[test]
            fn both_databases_know_every_statement() {
                $crate::prepared::check(&[
                    $((stringify!($name), super::$name.text(), concat!("" $(, stringify!($database))?)),)+
                ]);
            }
        }
    };
}

pub(crate) use statements;
