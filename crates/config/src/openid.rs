//! An OpenID Connect issuer whose tokens are accepted.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use garde::Validate;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{checks::must, masks::masked_url, urls::is_http};

/// Section `openid`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct OpenId {
    #[garde(inner(custom(must(is_http))))]
    #[serde(serialize_with = "masked_url")]
    pub issuer: Option<Url>,
    #[garde(inner(length(min = 1)))]
    pub audience: Option<String>,
    #[garde(inner(custom(must(is_http))))]
    #[serde(serialize_with = "masked_url")]
    pub jwks_url: Option<Url>,
    #[garde(inner(length(min = 1)))]
    pub tenant_claim: Option<String>,
    #[garde(length(min = 1))]
    pub scopes_claim: String,
    #[garde(skip)]
    pub scope_prefix: String,
}
