//! Errors at the edge.
