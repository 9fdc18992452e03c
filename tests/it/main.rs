//! One integration binary, one file per area.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod batching;
mod bench;
mod command;
mod config;
mod devices;
mod encode;
mod errors;
mod families;
mod formats;
mod forms;
mod golden;
mod imaging;
mod kserve;
mod models;
mod orientation;
mod precision;
mod preprocess;
mod process;
mod service;
mod store;
mod stored;
mod support;
mod urls;
