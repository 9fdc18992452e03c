//! Where images come from.
