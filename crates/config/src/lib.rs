//! Configuration: one struct per section, loaded and validated once.
//!
//! Four layers contribute settings, and a later layer overrides an earlier one: the defaults in `configs/config.yaml`
//! (built into the binary), a file, `.env`, and the environment. The loader remembers the origin of each value. garde
//! checks the range of each field. One report lists all errors, each with the key, the value, the origin and the allowed
//! values.
//!
//! Every setting is defined in two places. A field here has its type and range. A line of `configs/config.yaml` has its
//! default and its documentation. A test checks that both agree.

#![warn(unreachable_pub)]

mod access;
mod batches;
mod checks;
mod compute;
mod config;
mod detection;
mod devices;
mod error;
mod load;
mod log;
mod masks;
mod milliseconds;
mod openid;
mod options;
mod origin;
mod recognition;
mod retention;
mod runtime_folder;
mod schema;
pub mod scope;
mod secrets;
mod server;
mod sources;
mod storage;
#[cfg(test)]
mod tests;
mod traces;
mod urls;
mod webhooks;

pub use self::{
    access::*,
    batches::*,
    compute::*,
    config::Config,
    detection::*,
    devices::*,
    error::*,
    log::*,
    masks::shown,
    milliseconds::*,
    openid::*,
    options::*,
    origin::*,
    recognition::*,
    retention::*,
    schema::{CONFIG_FILE, DEFAULTS, PREFIX, short_names},
    server::*,
    sources::*,
    storage::*,
    traces::*,
    urls::*,
    webhooks::*,
};
