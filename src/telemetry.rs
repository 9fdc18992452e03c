//! What the server says about itself.

pub mod logging;
