//! `facescan config`: the configuration in effect, and where each value came from.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
};

use anyhow::Context;
use serde_json::{Map, json};

use crate::config::{Config, Provenance};

/// Prints every setting with its origin: as YAML with the origin in a comment, or as JSON.
///
/// Secrets are masked. With no database configured, the YAML of `database.url` is null, as in the file.
///
/// # Errors
///
/// When the output cannot be written; a reader that has gone, as in `facescan config | head`, is no error.
pub fn run(config: &Config, provenance: &Provenance, json: bool) -> anyhow::Result<()> {
    let text = if json {
        render_json(config, provenance)?
    } else {
        render_yaml(config, provenance)?
    };
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot print the configuration"),
    }
}

/// The configuration as YAML that `--config` takes back, save for masked secrets, with the origin of
/// each value in a comment behind it.
///
/// # Errors
///
/// When the configuration cannot be serialised.
pub fn render_yaml(config: &Config, provenance: &Provenance) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    let mut section = String::new();
    for (key, value) in config.settings()? {
        let origin = provenance.of(&key).map(ToString::to_string);
        // JSON is YAML, and its quotes keep every text a text.
        let text = match key.split_once('.') {
            Some((parent, name)) => {
                if parent != section {
                    section = parent.to_owned();
                    rows.push((format!("{section}:"), None));
                }
                format!("  {name}: {value}")
            }
            None => format!("{key}: {value}"),
        };
        rows.push((text, origin));
    }
    let longest = rows.iter().map(|(text, _)| text.chars().count()).max();
    let column = longest.unwrap_or_default().min(LAST_COLUMN);
    let mut out = String::new();
    for (text, origin) in rows {
        match origin {
            Some(origin) => writeln!(out, "{text:column$}  # {origin}")?,
            None => writeln!(out, "{text}")?,
        }
    }
    Ok(out)
}

/// The configuration as one JSON object: `{"server.port": {"value": 8080, "origin": "default"}, …}`.
///
/// # Errors
///
/// When the configuration cannot be serialised.
pub fn render_json(config: &Config, provenance: &Provenance) -> anyhow::Result<String> {
    let mut out = Map::new();
    for (key, value) in config.settings()? {
        let origin = provenance.of(&key).map(ToString::to_string);
        out.insert(key, json!({ "value": value, "origin": origin }));
    }
    Ok(serde_json::to_string_pretty(&out)? + "\n")
}

/// The origins stand in one column, unless a line is longer than this.
const LAST_COLUMN: usize = 48;
