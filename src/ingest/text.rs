//! Texts that callers send.

use serde::{Deserialize, Deserializer, de::Error};

/// The error of a text with a NUL character.
pub const NUL: &str =
    "a text has a NUL character, which the database cannot store; leave the character out";

/// Reads an optional text without NUL characters. Postgres cannot store them, so no database gets any.
///
/// # Errors
/// The error [`NUL`], or that of a value that is no text.
pub fn optional_text<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    match text {
        Some(text) if text.contains('\0') => Err(D::Error::custom(NUL)),
        text => Ok(text),
    }
}
