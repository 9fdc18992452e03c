//! The layers around every handler, one in each file.

pub mod access;
pub mod access_log;
pub mod address;
pub mod arrival;
pub mod context;
pub mod cors;
pub mod deadline;
pub mod local;
pub mod panics;
pub mod problem_body;
pub mod security_headers;
