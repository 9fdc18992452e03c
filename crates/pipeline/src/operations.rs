//! The operations on an image. Each is a [`Plan`](crate::plan::Plan), and none knows the database.

pub mod embed_image;
pub mod enhance;
pub mod preprocess;
pub mod process;
pub mod scan;
