//! The handlers, one file for each group of routes; `run` and `single_image` are shared.

pub mod batches;
pub mod calibration;
pub mod collections;
pub mod devices;
pub mod docs;
mod embed_image;
pub mod enhance;
pub mod enrolments;
pub mod erasures;
pub mod faces;
pub mod health;
pub mod images;
pub mod keys;
pub mod metrics;
pub mod models;
mod named_faces;
pub mod preprocess;
pub mod process;
mod run;
pub mod scan;
pub mod searches;
pub mod single_image;
pub mod subjects;
pub mod verify;
pub mod webhooks;
