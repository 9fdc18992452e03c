//! What the areas' tests share.

pub mod chaos_proxy;
pub mod database;
