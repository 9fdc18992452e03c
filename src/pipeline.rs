//! The way of an image.

pub mod heads;
