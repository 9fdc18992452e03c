//! What the server says about itself.

pub mod logging;
pub mod metrics;
pub mod opt_out;
