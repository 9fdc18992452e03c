//! Formats errors with their causes for logs.

use std::error::Error;

/// Formats the message of an error and the messages of its sources: `message: source: its source`.
///
/// Skips a source if the message already ends with its text. Several libraries repeat the text of their source.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.ends_with(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use facescan_store::StoreError;

    use super::*;

    #[test]
    fn causes_follow_the_message() {
        let error = StoreError::Directory {
            directory: "data".into(),
            source: io::Error::other("permission denied"),
        };
        assert_eq!(
            with_causes(&error),
            "cannot create the directory data for the database; check the permissions of its parent: permission denied"
        );
    }

    #[test]
    fn a_repeated_cause_is_written_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("reading failed: {0}")]
        struct Repeats(#[source] io::Error);

        let error = Repeats(io::Error::other("permission denied"));
        assert_eq!(with_causes(&error), "reading failed: permission denied");
    }
}
