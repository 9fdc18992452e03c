//! Code that the test modules share.

pub mod app;
pub mod certificate;
pub mod chaos_proxy;
pub mod cli;
pub mod database;
pub mod nats;
#[cfg(feature = "qdrant")]
pub mod qdrant;
pub mod silent;
pub mod values;
pub mod wire;
