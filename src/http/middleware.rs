//! The layers around every handler, one a file.

pub mod access_log;
pub mod context;
pub mod deadline;
pub mod panics;
