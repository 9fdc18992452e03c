//! Where traces go.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use garde::Validate;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};
use url::Url;

use super::{
    must,
    secrets::masked_url,
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

/// Shows only that there is a secret.
pub(super) fn hidden<S: Serializer>(
    secret: &Option<SecretString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(|_| "***").serialize(serializer)
}
