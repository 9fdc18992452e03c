//! One integration binary, one file per area.
