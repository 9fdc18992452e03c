//! The listener, the bounds of a request, and how much work is admitted.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use std::time::Duration;

use garde::Validate;
use serde::{Deserialize, Serialize};

use super::{Config, holds};

/// The most that `server.max_images_per_request` may be.
pub const MOST_IMAGES: usize = 4096;

/// The largest `admission.interactive_images` and `admission.bulk_images`.
const MOST_ADMITTED: usize = 1 << 20;

/// Section `server`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
#[garde(allow_unvalidated)]
pub struct Server {
    #[garde(custom(holds(is_host)))]
    pub host: String,
    pub port: u16,
    #[garde(range(min = 1024, max = 1 << 32))]
    pub max_body_bytes: usize,
    #[garde(range(min = 1, max = MOST_IMAGES))]
    pub max_images_per_request: usize,
    #[garde(range(min = 1, max = 3_600_000))]
    pub request_timeout_ms: u64,
    #[garde(range(min = 1, max = 3_600_000))]
    pub header_timeout_ms: u64,
    #[garde(range(max = 600_000))]
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

fn is_host(host: &str) -> bool {
    !host.is_empty() && !host.contains(|ch: char| ch.is_whitespace() || ch == '/')
}

/// Section `limits`. All but the bytes are checked on the image's header, before anything is allocated.
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
}

/// Section `admission`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Admission {
    #[garde(range(max = MOST_ADMITTED))]
    pub interactive_images: usize,
    #[garde(range(max = MOST_ADMITTED))]
    pub bulk_images: usize,
    #[garde(range(min = 1024, max = 1 << 42))]
    pub max_bytes: usize,
    #[garde(range(min = 1, max = MOST_ADMITTED))]
    pub bulk_min_images: usize,
    #[garde(range(max = 3_600_000))]
    pub bulk_max_wait_ms: u64,
}

impl Admission {
    /// How long a bulk image waits before it is served like an interactive one.
    pub fn bulk_max_wait(&self) -> Duration {
        Duration::from_millis(self.bulk_max_wait_ms)
    }
}

impl Config {
    /// Images of interactive and of bulk requests in the server at a time.
    pub fn admitted_images(&self) -> (usize, usize) {
        let workers = self.imaging.worker_threads().get();
        let or = |limit: usize, each: usize| if limit == 0 { each * workers } else { limit };
        let Admission {
            interactive_images,
            bulk_images,
            ..
        } = self.admission;
        (or(interactive_images, 8), or(bulk_images, 64))
    }
}
