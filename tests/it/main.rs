//! One integration binary, one file per area.

mod store;
mod support;
