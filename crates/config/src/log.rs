//! The level and the format of the log.

use garde::Validate;
use serde::{Deserialize, Deserializer, Serialize};
use tracing_subscriber::filter::Targets;

use super::checks::must;

/// Section `log`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Log {
    /// A level or the directives of [`Targets`], with level names in lower case as in `tracing`.
    #[garde(custom(must(is_filter)))]
    #[serde(deserialize_with = "directives")]
    pub level: String,
    /// The format of a log line.
    #[garde(skip)]
    pub format: LogFormat,
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// [`LogFormat::Pretty`] on a terminal, [`LogFormat::Json`] otherwise.
    Auto,
    /// One JSON object per line.
    Json,
    /// Text for people, one line per event.
    Pretty,
}

/// Returns whether each directive is a level or contains a level. `Targets` reads an unknown bare word as the name of
/// a target. For example, `verbose` would turn off all other log lines.
fn is_filter(text: &str) -> bool {
    text.split(',')
        .all(|directive| directive.contains('=') || level_name(directive) == Some(directive))
        && text.parse::<Targets>().is_ok()
}

fn directives<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let normal: Vec<String> = text.split(',').map(directive).collect();
    Ok(normal.join(","))
}

/// Writes the level of one directive as `tracing` does. It leaves other words unchanged.
fn directive(text: &str) -> String {
    let text = text.trim();
    match text.rsplit_once('=') {
        Some((target, level)) => format!("{target}={}", level_name(level).unwrap_or(level)),
        None => level_name(text).unwrap_or(text).to_owned(),
    }
}

/// Returns `tracing`'s name for a level. It accepts any case and the names that other logging systems use.
fn level_name(text: &str) -> Option<&'static str> {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    let level = match text.to_ascii_lowercase().as_str() {
        "critical" | "fatal" => "error",
        "warning" => "warn",
        level => return levels.into_iter().find(|known| *known == level),
    };
    Some(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_names_are_accepted_in_any_case() {
        assert_eq!(directive("WARNING"), "warn");
        assert_eq!(directive(" Critical "), "error");
        assert_eq!(directive("sqlx=WARNING"), "sqlx=warn");
        assert_eq!(directive("verbose"), "verbose");
    }
}
