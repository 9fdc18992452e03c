//! facescan: an async server that finds, embeds, grades and enhances faces.
//!
//! Dependencies point one way: `http, cli → erasure → batches, recognition, access → audit → pipeline → ingest, inference, store, index → imaging`. The crates
//! below the server are `facescan_imaging`, `facescan_index`, `facescan_inference` and `facescan_store`. `docs/architecture.md` is the map.

pub mod access;
pub mod admission;
pub mod app;
pub mod audit;
pub mod batches;
pub mod cli;
pub mod config;
pub mod context;
pub mod descriptors;
pub mod erasure;
pub mod exit;
pub mod fields;
pub mod heap;
pub mod http;
pub mod ingest;
pub mod lifecycle;
pub mod permissions;
pub mod pipeline;
pub mod preprocessor;
pub mod recognition;
pub mod telemetry;
#[cfg(test)]
mod test_clock;
