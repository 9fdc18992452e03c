//! The command line.

pub mod models;
