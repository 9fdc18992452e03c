//! Where images come from: the bytes that a request carries.
//!
//! URLs are accepted in requests and refused one by one, until the guarded fetcher is built.

pub mod source;
