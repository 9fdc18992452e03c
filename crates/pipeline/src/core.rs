//! What every operation needs: the bytes and pixels of an image, prices and limits, the run, options, and the data of results.
//!
//! This room is the lowest: it uses no model and no operation.

pub mod base64_text;
pub mod error;
pub mod image_file;
pub mod json;
pub mod memory;
pub mod options;
pub mod run;
pub mod scan;
pub mod work;
