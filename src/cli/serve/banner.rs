//! What a server says when it starts: where it listens, what it keeps and for how long, and who may use it.

use std::path::Path;

use facescan_config::{Config, shown};
use facescan_inference::device_task::DeviceTask;

use crate::app::App;

/// The picture that `scripts/setup` fetches, as an example.
const EXAMPLE: &str = ".runtime/pictures/t1.jpg";

/// Returns the lines for standard output.
pub(super) fn banner(app: &App, bound: &str) -> String {
    let config = &app.config;
    let url = format!("{}://{bound}", config.server.scheme());
    let rows = [
        ("database", database(config)),
        ("results", results(config)),
        ("keys", keys(config)),
        ("batches", batches(config)),
        ("models", models(app)),
    ];
    let rows = rows.map(|(name, text)| format!("  {name:<9} {text}\n"));
    format!(
        "facescan {} listens on {url} (its pages: {url}/docs/)\n{}try:  curl -s -F image=@{} '{url}/detect?timings=true'\n",
        env!("CARGO_PKG_VERSION"),
        rows.concat(),
        match Path::new(EXAMPLE).exists() {
            true => EXAMPLE,
            false => "photo.jpg",
        }
    )
}

fn database(config: &Config) -> String {
    let kind = match config.uses_sqlite() {
        true => "SQLite",
        false => "Postgres",
    };
    format!("{kind}, {}", config.shown_database())
}

fn results(config: &Config) -> String {
    if !config.store.enabled {
        return "not stored, unless a request has store=true".to_owned();
    }
    let days = config.retention.results_days;
    let time = match days {
        0 => "without an end (retention.results_days sets one)".to_owned(),
        1 => "for 1 day".to_owned(),
        days => format!("for {days} days"),
    };
    format!("faces and vectors are stored {time}; images are not, and nothing is with store=false")
}

fn keys(config: &Config) -> String {
    if config.requires_keys() {
        "needed (facescan keys create)".to_owned()
    } else if config.is_for_this_machine() {
        "none needed, because only this machine reaches the server".to_owned()
    } else {
        "none needed: access.mode is off, and every caller may do everything".to_owned()
    }
}

fn batches(config: &Config) -> String {
    let place = match &config.batches.payloads {
        None => config.data_dir.join("payloads").display().to_string(),
        Some(url) => shown(url),
    };
    let workers = match config.batches.workers {
        0 => "; this server processes none, `facescan worker` does",
        _ => "",
    };
    format!("images wait in {place} until they are processed{workers}")
}

fn models(app: &App) -> String {
    let devices = &app.pipeline.devices;
    let on = |task: DeviceTask| {
        let assignment = devices.assignment(task)?;
        let placement = match &assignment.device {
            Ok(active) => active.placement,
            Err(_) => assignment.cpu,
        };
        let precision = placement.numeric_precision();
        let precision = precision.map_or_else(String::new, |precision| format!(" in {precision}"));
        Some(format!(" on {placement}{precision}"))
    };
    let models = &app.pipeline.models;
    format!(
        "{}{}, {}{}",
        models.detector.spec.id,
        on(DeviceTask::FaceDetection).unwrap_or_default(),
        models.embedder.spec().id,
        on(DeviceTask::FaceEmbedding).unwrap_or_default()
    )
}
