//! What the server says about itself.

pub mod logging;
pub mod opt_out;
