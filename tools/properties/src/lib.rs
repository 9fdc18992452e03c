//! Properties that hold for every input, however hostile.
//!
//! Each property is a function of bytes that panics if the code under it breaks a promise. The targets in `fuzz/` call
//! these functions with inputs that a fuzzer finds. The tests of this crate call the same functions with the inputs in
//! `fuzz/corpus/`, with parts of them, and with random changes of them.

mod bodies;
mod config;
mod cpu_time;
mod decode;
mod exif;
mod guard;
mod prepare;
mod registry;
mod routes;
mod server;
mod submissions;

pub use bodies::{json_body, msgpack_body, multipart};
pub use config::config;
pub use decode::decode;
pub use exif::exif;
pub use guard::url_guard;
pub use prepare::prepare;
pub use registry::registry;
pub use routes::{Answer, Route, routes_with_bodies};
pub use submissions::ndjson;

/// A property of bytes.
pub type Property = fn(&[u8]);

/// Every property by the name of its target, which is also the name of the folder of its inputs.
pub const ALL: [(&str, Property); 10] = [
    ("config", config),
    ("decode", decode),
    ("exif", exif),
    ("json_body", json_body),
    ("msgpack_body", msgpack_body),
    ("multipart", multipart),
    ("ndjson", ndjson),
    ("prepare", prepare),
    ("registry", registry),
    ("url_guard", url_guard),
];
