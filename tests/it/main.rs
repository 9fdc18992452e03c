//! One integration binary, one file per area.

mod config;
