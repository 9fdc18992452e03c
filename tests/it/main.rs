//! One integration binary, one file per area.

mod imaging;
