//! Stored results.
