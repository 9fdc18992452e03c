//! facescan: an async server that finds, embeds, grades and enhances faces.
//!
//! The crate is layered, and dependencies point one way:
//! `http, cli → pipeline → inference, imaging, store, ingest`. Work for the CPU goes to the [`pool`],
//! and how much is let in is up to the [`admission`]. What `ingest` and `inference` ask of other servers goes through
//! [`outbound`].

pub mod admission;
pub mod app;
pub mod cli;
pub mod config;
pub mod context;
pub mod http;
pub mod ingest;
pub mod lifecycle;
pub mod pipeline;
pub mod preprocessor;
pub mod telemetry;
