//! `facescan config`: the effective configuration and the origin of each value.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::Context;
use facescan_config::{Config, Provenance};
use serde_json::{Map, json};

/// Prints every setting with its origin, as YAML with the origin in a comment, or as JSON.
///
/// Secrets are masked. If no database is configured, `database.url` is null, as in the file.
///
/// # Errors
///
/// Returns an error if the output cannot be written.
pub fn run(config: &Config, provenance: &Provenance, json: bool) -> anyhow::Result<ExitCode> {
    let text = if json {
        render_json(config, provenance)?
    } else {
        render_yaml(config, provenance)?
    };
    let written = io::stdout().lock().write_all(text.as_bytes());
    written.context("cannot print the configuration")?;
    Ok(ExitCode::SUCCESS)
}

/// Renders the configuration as YAML, with the origin of each value in a comment after it. `--config` accepts the
/// result, except for masked secrets.
///
/// # Errors
///
/// Returns an error if the configuration cannot be serialized.
pub fn render_yaml(config: &Config, provenance: &Provenance) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    let mut section = String::new();
    for (key, value) in config.settings()? {
        let origin = provenance.get(&key).map(ToString::to_string);
        // JSON is valid YAML, and its quotes keep strings as strings.
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

/// Renders the configuration as one JSON object: `{"server.port": {"value": 8080, "origin": "default"}, …}`.
///
/// # Errors
///
/// Returns an error if the configuration cannot be serialized.
pub fn render_json(config: &Config, provenance: &Provenance) -> anyhow::Result<String> {
    let mut out = Map::new();
    for (key, value) in config.settings()? {
        let origin = provenance.get(&key).map(ToString::to_string);
        out.insert(key, json!({ "value": value, "origin": origin }));
    }
    Ok(serde_json::to_string_pretty(&out)? + "\n")
}

/// The origins are aligned at this column or before it. A longer line moves only its own origin.
const LAST_COLUMN: usize = 48;
