//! One resource a file.

pub mod devices;
pub mod docs;
mod encode;
pub mod enhance;
pub mod faces;
mod fan_out;
pub mod health;
pub mod images;
pub mod metrics;
pub mod models;
pub mod preprocess;
pub mod process;
pub mod scan;
mod single_image;
