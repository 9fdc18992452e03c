//! Logging and metrics.

pub mod causes;
pub mod logging;
pub mod metrics;
pub mod opt_out;
