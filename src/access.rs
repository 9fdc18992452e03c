//! Access control: who sends a request, for which tenant, and what they may do.
//!
//! [`secret`] is the format of keys. [`Authenticator`](authenticator::Authenticator) turns the credential of a request into a
//! principal. `src/http/middleware/access.rs` compares its scopes with that of the route.

pub mod authenticator;
pub mod error;
pub mod first_key;
mod key_cache;
pub mod keys;
pub mod openid;
pub mod rate_limit;
pub mod secret;
