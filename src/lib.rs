//! facescan: an async server that finds, embeds, grades and enhances faces.
//!
//! This package has the HTTP server and the command line. The crates below it have the rest, and dependencies point one way:
//! `http, cli → batches → recognition → audit → pipeline → telemetry → config → inference, store → imaging`.
//! `docs/architecture.md` is the map.

pub mod access;
pub mod app;
pub mod cli;
mod descriptors;
pub mod erasure;
pub mod exit;
pub mod heap;
pub mod http;
mod lifecycle;
mod permissions;
pub mod preprocessor;
