//! Keeps the secrets of the settings out of logs and error messages, whoever writes them.
//!
//! Libraries log URLs and headers at their own levels, and errors quote them. So the text itself is searched, as the last step.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    io::{self, Write},
    sync::OnceLock,
};

/// A secret with fewer bytes is part of ordinary words, so it is not searched for.
const MIN_BYTES: usize = 4;

/// What a secret is replaced by.
const MASK: &str = "***";

/// The secrets of the process, with the longest first.
static SECRETS: OnceLock<Vec<String>> = OnceLock::new();

/// Hides these secrets from now on, in each form in which a library can write them. Only the first call counts.
pub fn hide(secrets: impl IntoIterator<Item = String>) {
    SECRETS.get_or_init(|| spellings(secrets));
}

/// Returns a text without secrets.
pub fn redact(text: &str) -> Cow<'_, str> {
    replace(text, SECRETS.get().map_or(&[], Vec::as_slice))
}

/// A writer of lines without secrets.
pub struct Redacted<W>(pub W);

impl<W: Write> Write for Redacted<W> {
    /// Writes a whole event, which is what the log passes on at once.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.write_all(redact(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn replace<'a>(text: &'a str, secrets: &[String]) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(text);
    for secret in secrets {
        if text.contains(secret.as_str()) {
            text = Cow::Owned(text.replace(secret.as_str(), MASK));
        }
    }
    text
}

/// Returns the secrets as they are, and escaped as in JSON and in Rust's debug format, which is what log lines have.
fn spellings(secrets: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut all = BTreeSet::new();
    for secret in secrets {
        let debug = format!("{secret:?}");
        let in_json = serde_json::Value::from(debug.as_str()).to_string();
        for text in [&debug, &in_json] {
            all.insert(text.trim_matches(['"', '\\']).to_owned());
        }
        all.insert(secret);
    }
    let mut all: Vec<_> = all
        .into_iter()
        .filter(|text| text.len() >= MIN_BYTES)
        .collect();
    all.sort_by_key(|text| std::cmp::Reverse(text.len()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_plain_and_escaped() {
        let secrets = spellings(["pa\"ss\\word".to_owned(), "token-1".to_owned()]);
        let lines = [
            r#"url=nats://u:pa"ss\word@host token-1"#.to_owned(),
            format!("{:?}", r#"u:pa"ss\word"#),
            serde_json::json!({ "url": r#"u:pa"ss\word"# }).to_string(),
            serde_json::json!({ "url": format!("{:?}", r#"u:pa"ss\word"#) }).to_string(),
        ];
        for line in lines {
            let shown = replace(&line, &secrets);
            assert!(!shown.contains("ss\\"), "{shown}");
            assert!(!shown.contains("token-1"), "{shown}");
            assert!(shown.contains(MASK), "{shown}");
        }
    }

    #[test]
    fn short_texts_and_other_words_stay() {
        let secrets = spellings(["pw".to_owned(), String::new()]);
        assert!(secrets.is_empty());
        assert_eq!(replace("a pwd", &secrets), "a pwd");
    }
}
