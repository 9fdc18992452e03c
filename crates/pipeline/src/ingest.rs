//! The sources of images: bytes in a request, or a URL in a request.
//!
//! [`guard`] decides which URLs and addresses may be fetched, [`fetch`] fetches them, and [`intake`] loads the bytes of
//! both kinds. [`post`] sends messages. Tenants share the connections of both in [`tenant_slots`].

pub mod error;
pub mod fetch;
pub mod guard;
pub mod intake;
pub mod post;
pub mod source;
pub mod tenant_slots;
pub mod text;
