//! Texts that callers send.

/// The error of a text with a NUL character.
pub const NUL: &str =
    "a text has a NUL character, which the database cannot store; leave the character out";
