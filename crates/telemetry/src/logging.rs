//! Log lines on standard error: JSON for programs, text for people, timestamps in UTC.

use std::{env, iter};

use anyhow::Context;
use facescan_config::LogFormat;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer, Registry,
    filter::Targets,
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use super::redaction::Redacted;

/// A layer that receives spans and events.
pub type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// The start of the targets of this program's own crates. Libraries have many details that rarely matter and that can contain
/// secrets, so they log at `warn` unless a directive names them.
const OWN: &str = "facescan";

/// Starts logging for the whole process.
///
/// `filter` is `log.level`: a level or the directives of [`Targets`], such as `info,facescan=debug`. `is_terminal` says whether standard error is a
/// terminal. It decides the meaning of [`LogFormat::Auto`] and whether lines have colors. Colors are off if the
/// variable `NO_COLOR` is set. `traces` receives the same spans and events.
///
/// # Errors
///
/// Returns an error if `filter` cannot be parsed, or if logging has already started.
pub fn init(
    filter: &str,
    format: LogFormat,
    is_terminal: bool,
    traces: Option<BoxedLayer>,
) -> anyhow::Result<()> {
    let colors = is_terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let shape = Shape::new(format, is_terminal, colors);
    let lines = layer(shape, || Redacted(std::io::stderr())).with_filter(targets(filter)?);
    let layers: Vec<BoxedLayer> = iter::once(lines.boxed()).chain(traces).collect();
    tracing_subscriber::registry()
        .with(layers)
        .try_init()
        .context("starting the log a second time")
}

/// The resolved format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Json,
    Text { colors: bool },
}

impl Shape {
    fn new(format: LogFormat, is_terminal: bool, colors: bool) -> Self {
        match format {
            LogFormat::Json => Self::Json,
            LogFormat::Auto if !is_terminal => Self::Json,
            LogFormat::Auto | LogFormat::Pretty => Self::Text { colors },
        }
    }
}

/// Creates the layer that writes lines. JSON lines have the fields of the event at the top. The fields of the innermost
/// span, such as the request id, are under `span`.
fn layer<W>(shape: Shape, writer: W) -> BoxedLayer
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let layer = fmt::layer().with_writer(writer);
    match shape {
        Shape::Json => layer
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .boxed(),
        Shape::Text { colors } => layer.compact().with_ansi(colors).boxed(),
    }
}

/// Parses the filter of a setting. A level without a target holds for this program, and for libraries at most up to `warn`.
fn targets(text: &str) -> anyhow::Result<Targets> {
    let directives: Vec<_> = text
        .split(',')
        .map(|directive| match directive.trim().parse::<LevelFilter>() {
            Ok(level) if level > LevelFilter::WARN => format!("warn,{OWN}={level}"),
            _ => directive.to_owned(),
        })
        .collect();
    // Spans of the target `otlp` are for traces only.
    format!("otlp=off,{}", directives.join(","))
        .parse::<Targets>()
        .with_context(|| format!("log.level {text:?} is neither a level nor a list of directives"))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Read},
        sync::Arc,
    };

    use serde_json::Value;

    use super::*;

    /// Returns what `log` writes with a filter and a shape.
    fn lines(filter: &str, shape: Shape, log: impl FnOnce()) -> String {
        let (mut reader, writer) = io::pipe().unwrap();
        let layer = layer(shape, Arc::new(writer));
        let subscriber =
            tracing_subscriber::registry().with(layer.with_filter(targets(filter).unwrap()));
        tracing::subscriber::with_default(subscriber, log);
        // The writer is dropped with the subscriber, which ends the text.
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_json_line_has_the_fields_at_the_top_and_a_utc_time() {
        let text = lines("info", Shape::Json, || {
            let _request = tracing::info_span!("request", request_id = "r-1").entered();
            tracing::info!(faces = 6, "found");
        });
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["message"], "found");
        assert_eq!(line["faces"], 6);
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["span"]["request_id"], "r-1");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn text_has_colors_only_on_request() {
        let log = || tracing::info!("found");
        let plain = lines("info", Shape::Text { colors: false }, log);
        assert!(plain.contains("INFO") && plain.contains("found"));
        assert!(!plain.contains('\u{1b}'));
        let colored = lines("info", Shape::Text { colors: true }, log);
        assert!(colored.contains('\u{1b}'));
    }

    #[test]
    fn libraries_are_quiet_unless_named() {
        let log = || {
            tracing::info!(target: "sqlx::query", "query");
            tracing::debug!(target: "async_nats::connector", "connecting");
            tracing::warn!(target: "sqlx::query", "slow");
            tracing::info!(target: "facescan::http", "served");
        };
        let messages = |filter: &str| {
            let text = lines(filter, Shape::Json, log);
            let message = |line: &str| {
                let line: Value = serde_json::from_str(line).unwrap();
                line["message"].as_str().unwrap().to_owned()
            };
            text.lines().map(message).collect::<Vec<_>>()
        };
        assert_eq!(messages("info"), ["slow", "served"]);
        assert_eq!(messages("info,sqlx=info"), ["query", "slow", "served"]);
        assert_eq!(messages("facescan=info"), ["served"]);
        assert!(messages("error").is_empty());
    }

    #[test]
    fn auto_is_text_on_a_terminal_and_json_elsewhere() {
        let text = Shape::Text { colors: true };
        assert_eq!(Shape::new(LogFormat::Auto, true, true), text);
        assert_eq!(Shape::new(LogFormat::Auto, false, false), Shape::Json);
        assert_eq!(Shape::new(LogFormat::Json, true, true), Shape::Json);
        assert_eq!(
            Shape::new(LogFormat::Pretty, false, false),
            Shape::Text { colors: false }
        );
    }
}
