//! Scans: what was found on images, with the images and where they were seen.

mod check;
mod find;
mod models;
mod read;
mod records;
mod rows;
mod save;
mod sources;

pub use check::check_scan;
pub use records::*;
pub(crate) use save::save_scan;
