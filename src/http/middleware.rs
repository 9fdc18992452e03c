//! The layers around every handler, one a file.

pub mod access_log;
pub mod deadline;
pub mod panics;
pub mod request_id;
