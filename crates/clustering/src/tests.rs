//! Tests of the crate through its interface.
