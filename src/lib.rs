//! facescan: an async server that finds, embeds, grades and enhances faces.
//!
//! The crate is layered, and dependencies point one way:
//! `http, cli → pipeline → inference, imaging, store, ingest`. Work for the CPU goes to the [`pool`],
//! and how much is let in is up to the [`admission`]. What `ingest` and `inference` ask of other servers goes through
//! [`outbound`].

pub mod admission;
pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod error;
pub mod http;
pub mod imaging;
pub mod inference;
pub mod ingest;
pub mod lifecycle;
pub mod outbound;
pub mod pipeline;
pub mod pool;
pub mod preprocessor;
pub mod store;
pub mod telemetry;
pub mod tls;
