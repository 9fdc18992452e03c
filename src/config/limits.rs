//! Limits of one image.

use serde::{Deserialize, Serialize};

use super::rule::{Kind, Rule};

/// Section `limits`. All but the bytes are checked on the image's header, before anything is allocated.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Largest encoded image, in bytes.
    pub max_image_bytes: u64,
    /// Largest width, in pixels.
    pub max_width: u32,
    /// Largest height, in pixels.
    pub max_height: u32,
    /// Largest width × height, in pixels.
    pub max_pixels: u64,
}

pub(super) const RULES: &[Rule] = &[
    Rule::checked(
        "limits.max_image_bytes",
        Kind::Yaml,
        "a whole number from 1 to 4294967296",
        |c| (1..=1 << 32).contains(&c.limits.max_image_bytes),
    ),
    Rule::checked(
        "limits.max_width",
        Kind::Yaml,
        "a whole number from 1 to 65535",
        |c| (1..=65_535).contains(&c.limits.max_width),
    ),
    Rule::checked(
        "limits.max_height",
        Kind::Yaml,
        "a whole number from 1 to 65535",
        |c| (1..=65_535).contains(&c.limits.max_height),
    ),
    Rule::checked(
        "limits.max_pixels",
        Kind::Yaml,
        "a whole number from 1 to 1000000000",
        |c| (1..=1_000_000_000).contains(&c.limits.max_pixels),
    ),
];
