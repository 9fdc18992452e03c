//! The listener, the limits of a request, and the budgets of admission.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use std::{net::SocketAddr, path::PathBuf};

use garde::Validate;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{checks::must, milliseconds::Milliseconds};

/// The largest value of `server.max_images_per_request`.
pub const MAX_IMAGES: usize = 4096;

/// The largest value of `admission.interactive_images` and `admission.bulk_images`.
const MAX_ADMITTED: usize = 1 << 20;

/// Section `server`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Server {
    #[garde(custom(must(is_host)))]
    pub host: String,
    #[garde(skip)]
    pub port: u16,
    #[garde(skip)]
    pub tls_certificate: Option<PathBuf>,
    #[garde(skip)]
    pub tls_key: Option<PathBuf>,
    #[garde(inner(custom(must(is_origin))))]
    pub cors_origins: Vec<String>,
    #[garde(range(min = 1024, max = 1 << 32))]
    pub max_body_bytes: usize,
    #[garde(range(min = 1, max = MAX_IMAGES))]
    pub max_images_per_request: usize,
    #[garde(range(min = 1, max = 3_600_000))]
    pub request_timeout_ms: u64,
    #[garde(range(min = 1, max = 1 << 20))]
    pub max_connections: usize,
    #[garde(range(min = 1, max = 3_600_000))]
    pub header_timeout_ms: Milliseconds,
    #[garde(range(min = 1, max = 3_600_000))]
    pub idle_timeout_ms: Milliseconds,
    #[garde(range(max = 1 << 30))]
    pub min_body_bytes_per_s: u64,
    #[garde(range(max = 1 << 30))]
    pub min_response_bytes_per_s: u64,
    #[garde(range(max = 600_000))]
    pub shutdown_timeout_ms: Milliseconds,
}

impl Server {
    /// Returns the scheme of its URLs: `https` with a certificate, and `http` without one.
    pub fn scheme(&self) -> &'static str {
        match self.tls_certificate {
            None => "http",
            Some(_) => "https",
        }
    }
}

/// Section `metrics`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Metrics {
    pub address: Option<SocketAddr>,
}

/// Returns whether a browser can send this origin: a scheme, a host and perhaps a port, without a path.
fn is_origin(origin: &str) -> bool {
    let parsed = Url::parse(origin).ok();
    parsed.is_some_and(|url| url.origin().ascii_serialization() == origin)
}

fn is_host(host: &str) -> bool {
    !host.is_empty() && !host.contains(|ch: char| ch.is_whitespace() || ch == '/')
}

/// Section `limits`. All limits except that of bytes are checked on the image's header, before any memory is allocated.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Limits {
    #[garde(range(min = 1, max = 1 << 32))]
    pub max_image_bytes: u64,
    #[garde(range(min = 1, max = 65_535))]
    pub max_width: u32,
    #[garde(range(min = 1, max = 65_535))]
    pub max_height: u32,
    #[garde(range(min = 1, max = 1_000_000_000))]
    pub max_pixels: u64,
    #[garde(range(min = 1, max = 1_000_000_000))]
    pub max_work: u64,
}

/// Section `admission`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Admission {
    #[garde(range(max = MAX_ADMITTED))]
    pub max_requests: usize,
    #[garde(range(max = MAX_ADMITTED))]
    pub interactive_images: usize,
    #[garde(range(max = MAX_ADMITTED))]
    pub bulk_images: usize,
    #[garde(range(min = 1024, max = 1 << 42))]
    pub max_bytes: usize,
    #[garde(range(min = 1, max = MAX_ADMITTED))]
    pub bulk_min_images: usize,
    #[garde(range(max = 3_600_000))]
    pub bulk_max_wait_ms: Milliseconds,
    #[garde(range(max = 600_000))]
    pub max_wait_ms: Milliseconds,
}

/// The numbers of images that are admitted at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmittedImages {
    /// Images of interactive requests.
    pub interactive: usize,
    /// Images of bulk requests.
    pub bulk: usize,
}
