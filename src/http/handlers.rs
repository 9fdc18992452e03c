//! The handlers, one file for each group of routes; `run` and `single_image` are shared.

pub mod batches;
pub mod calibration;
pub mod devices;
pub mod docs;
mod embed_image;
pub mod enhance;
pub mod erasures;
pub mod faces;
pub mod health;
pub mod images;
pub mod keys;
pub mod metrics;
pub mod models;
pub mod preprocess;
pub mod process;
mod run;
pub mod scan;
pub mod single_image;
pub mod verify;
pub mod webhooks;
