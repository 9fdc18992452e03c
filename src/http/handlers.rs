//! The handlers, one file for each resource.

pub mod devices;
pub mod docs;
mod encode;
pub mod enhance;
pub mod faces;
pub mod health;
pub mod images;
pub mod metrics;
pub mod models;
pub mod preprocess;
pub mod process;
mod run;
pub mod scan;
mod single_image;
