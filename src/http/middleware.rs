//! The layers around every handler, one in each file, except `problem::describe`.

pub mod access_log;
pub mod context;
pub mod deadline;
pub mod panics;
