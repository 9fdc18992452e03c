//! Where traces go.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use garde::Validate;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    checks::must,
    masks::{hidden, masked_url},
    urls::{is_http, is_printable},
};

/// Section `traces`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Traces {
    #[garde(inner(custom(must(is_http))))]
    #[serde(serialize_with = "masked_url")]
    pub endpoint: Option<Url>,
    #[garde(inner(custom(must(is_header))))]
    #[serde(serialize_with = "hidden")]
    pub authorization: Option<SecretString>,
    #[garde(range(min = 0.0, max = 1.0))]
    pub sample_ratio: f64,
    #[garde(skip)]
    pub accept_traceparent: bool,
}

pub(super) fn is_header(text: &SecretString) -> bool {
    !text.expose_secret().is_empty() && is_printable(text.expose_secret())
}
