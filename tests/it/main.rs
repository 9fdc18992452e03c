//! One integration binary, one file per area.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod store;
mod support;
