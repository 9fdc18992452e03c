//! Scans: what was found on images, with the images and where they were seen.

mod check;
mod find;
mod look_ups;
mod models;
mod new_rows;
pub(crate) mod queues;
mod read;
mod records;
mod rows;
mod save;
mod save_new;
mod sources;
mod writer;

pub use check::check_scan;
pub(crate) use new_rows::ScanToSave;
pub use records::*;
pub(crate) use save::save_scans;
