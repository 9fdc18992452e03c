//! One integration binary, one file per area.

mod config;
mod forms;
mod golden;
mod store;
mod support;
