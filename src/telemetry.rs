//! What the server says about itself.

pub mod causes;
pub mod logging;
pub mod metrics;
pub mod opt_out;
