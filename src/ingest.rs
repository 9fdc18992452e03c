//! Where images come from: the bytes that a request carries, or a URL that it names.
//!
//! [`guard`] says which URLs and addresses are asked, [`fetch`] asks them, and [`intake`] makes bytes of either.

pub mod error;
pub mod fetch;
pub mod guard;
pub mod intake;
pub mod source;
