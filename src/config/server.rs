//! The listener and the bounds of a request.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::rule::{Kind, Rule};

/// The most that `server.max_images_per_request` may be.
pub const MOST_IMAGES: usize = 4096;

/// Section `server`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// IP address or host name to listen on.
    pub host: String,
    /// TCP port; 0 takes any free one.
    pub port: u16,
    /// Largest request body, in bytes.
    pub max_body_bytes: usize,
    /// Most images in one request.
    pub max_images_per_request: usize,
    /// Time a request may take before it is answered with `deadline_exceeded`, in milliseconds.
    pub request_timeout_ms: u64,
    /// Time a client has to send the head of a request, in milliseconds; see [`Server::header_timeout`].
    pub header_timeout_ms: u64,
    /// Time requests in flight get at shutdown, in milliseconds; see [`Server::shutdown_timeout`].
    pub shutdown_timeout_ms: u64,
}

impl Server {
    /// Time that a client has to send the head of a request, and that a kept connection may be idle.
    pub fn header_timeout(&self) -> Duration {
        Duration::from_millis(self.header_timeout_ms)
    }

    /// Time that requests in flight get to finish at shutdown.
    pub fn shutdown_timeout(&self) -> Duration {
        Duration::from_millis(self.shutdown_timeout_ms)
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule::checked(
        "server.host",
        Kind::Text,
        "an IP address or a host name",
        |c| {
            let host = &c.server.host;
            !host.is_empty() && !host.contains(|ch: char| ch.is_whitespace() || ch == '/')
        },
    ),
    Rule::typed(
        "server.port",
        Kind::Yaml,
        "a whole number from 0 to 65535 (0 = any free port)",
    ),
    Rule::checked(
        "server.max_body_bytes",
        Kind::Yaml,
        "a whole number from 1024 to 4294967296",
        |c| (1 << 10..=1 << 32).contains(&(c.server.max_body_bytes as u64)),
    ),
    Rule::checked(
        "server.max_images_per_request",
        Kind::Yaml,
        "a whole number from 1 to 4096",
        |c| (1..=MOST_IMAGES).contains(&c.server.max_images_per_request),
    ),
    Rule::checked(
        "server.request_timeout_ms",
        Kind::Yaml,
        "a whole number from 1 to 3600000",
        |c| (1..=3_600_000).contains(&c.server.request_timeout_ms),
    ),
    Rule::checked(
        "server.header_timeout_ms",
        Kind::Yaml,
        "a whole number from 1 to 3600000",
        |c| (1..=3_600_000).contains(&c.server.header_timeout_ms),
    ),
    Rule::checked(
        "server.shutdown_timeout_ms",
        Kind::Yaml,
        "a whole number from 0 to 600000",
        |c| c.server.shutdown_timeout_ms <= 600_000,
    ),
];
