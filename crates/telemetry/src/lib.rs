//! Logging, metrics and traces.

#![warn(unreachable_pub)]

pub mod causes;
pub mod logging;
pub mod metrics;
pub mod opt_out;
pub mod redaction;
pub mod sweeps;
pub mod traces;
