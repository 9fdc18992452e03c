//! All integration tests in one binary, with one module for each area.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::too_many_lines,
    reason = "some tests are a list of cases or one long story"
)]

mod access;
mod admission;
mod batches;
mod batching;
mod bench;
mod collections;
mod command;
mod config;
// scripts/setup fetches libjpeg-turbo for this platform only.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod decode_modes;
mod devices;
mod encode;
mod erasures;
mod errors;
mod fallbacks;
mod families;
#[cfg(unix)]
mod first_start;
mod folders;
mod formats;
mod forms;
mod golden;
mod hostile;
mod imaging;
mod indexes;
mod kserve;
mod mistakes;
mod models;
mod orientation;
#[cfg(unix)]
mod permissions;
mod precision;
mod preprocess;
mod process;
mod protocol;
mod schema;
#[cfg(unix)]
mod secrets;
mod service;
mod store;
mod stored;
mod support;
mod times;
mod tls;
#[cfg(feature = "otlp")]
mod traces;
mod turns;
mod unread;
mod urls;
mod verify;
