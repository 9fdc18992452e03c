//! The way of an image.
