//! The `facescan` binary.

fn main() {}
