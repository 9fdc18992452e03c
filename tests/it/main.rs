//! One integration binary, one file per area.

mod command;
mod config;
mod errors;
mod formats;
mod forms;
mod golden;
mod orientation;
mod service;
mod store;
mod stored;
mod support;
