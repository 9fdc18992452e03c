//! Tokens of an OpenID Connect issuer: JSON Web Tokens (RFC 7519) whose keys the issuer publishes (RFC 7517).

mod key_set;
mod signatures;
mod web;

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use facescan_clock::Clock;
use facescan_config::{OpenId as Settings, is_tenant, scope::Scope};
use facescan_pipeline::{context::Principal, core::image_file::hex};
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

pub use self::web::JwksError;
use self::{key_set::KeySet, web::WebJwks};
use super::error::AccessError;

/// How far the clocks of the issuer and of this machine may differ.
const LEEWAY: Duration = Duration::from_secs(60);

/// The algorithms that are accepted. All of them have a public key. A token that is signed with a secret or not at all is
/// refused.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Accepts the tokens of one issuer.
pub struct OpenId {
    settings: Settings,
    issuer: String,
    audience: String,
    /// The tenant of tokens if no claim names one.
    tenant: String,
    keys: KeySet,
    clock: Arc<dyn Clock>,
}

impl OpenId {
    /// Accepts the tokens that the settings ask for. Returns `None` if they name no issuer.
    ///
    /// # Errors
    /// Returns an error if the settings name no audience, or if the client of the issuer cannot be set up.
    pub fn from_settings(
        settings: &Settings,
        tenant: &str,
        clock: Arc<dyn Clock>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(url) = settings.issuer.clone() else {
            return Ok(None);
        };
        let audience = settings.audience.clone().context(
            "openid.issuer needs openid.audience; set it to the audience of the tokens for this server",
        )?;
        signatures::install();
        // The issuer of a token is compared as text, and a URL ends with a slash that issuers leave out.
        let issuer = url.as_str().trim_end_matches('/').to_owned();
        let source = WebJwks::new(url, settings.jwks_url.clone())
            .context("setting up the client of the OpenID issuer")?;
        Ok(Some(Self {
            issuer,
            audience,
            settings: settings.clone(),
            tenant: tenant.to_owned(),
            keys: KeySet::new(source, Arc::clone(&clock)),
            clock,
        }))
    }

    /// Returns whether a credential has the form of a token.
    pub fn is_token(credential: &str) -> bool {
        credential.split('.').count() == 3
    }

    /// Returns the principal of a token.
    ///
    /// # Errors
    /// Returns [`AccessError::InvalidCredential`] if the token is not valid for this server, and
    /// [`AccessError::Issuer`] if the keys of the issuer cannot be read.
    pub async fn principal(&self, token: &str) -> Result<Principal, AccessError> {
        let refused = |_| AccessError::InvalidCredential;
        let header = decode_header(token).map_err(refused)?;
        // `crit` names extensions that must be understood (RFC 7515, section 4.1.11). None is.
        if !ALGORITHMS.contains(&header.alg) || header.crit.is_some() {
            return Err(AccessError::InvalidCredential);
        }
        let key = self.keys.find(header.kid.as_deref(), header.alg).await?;
        let key = key.ok_or(AccessError::InvalidCredential)?;
        let claims = decode::<Map<String, Value>>(token, &key, &self.validation(header.alg));
        let claims = claims
            .inspect_err(|error| tracing::debug!(%error, "a token is refused"))
            .map_err(refused)?
            .claims;
        if !self.is_current(&claims) {
            return Err(AccessError::InvalidCredential);
        }
        self.principal_of(&claims)
            .ok_or(AccessError::InvalidCredential)
    }

    /// Returns the checks of the library. The times are checked by the clock of the application instead.
    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.set_audience(&[&self.audience]);
        validation.set_issuer(&[&self.issuer, &format!("{}/", self.issuer)]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.validate_exp = false;
        validation
    }

    fn is_current(&self, claims: &Map<String, Value>) -> bool {
        let now = self.clock.now().unix_timestamp();
        let leeway = LEEWAY.as_secs().cast_signed();
        // Times can have a fraction.
        let time = |name: &str| {
            claims
                .get(name)
                .map(|time| time.as_f64().unwrap_or(f64::NAN))
        };
        let is_after = |time: f64, limit: i64| time > limit as f64;
        let ends_later = time("exp").is_some_and(|end| is_after(end, now - leeway));
        let began = time("nbf").is_none_or(|begin| begin <= (now + leeway) as f64);
        ends_later && began
    }

    /// Reads who the caller is. Returns `None` if the token names no tenant.
    fn principal_of(&self, claims: &Map<String, Value>) -> Option<Principal> {
        let tenant = match &self.settings.tenant_claim {
            None => self.tenant.as_str(),
            Some(claim) => claims.get(claim)?.as_str()?,
        };
        if !is_tenant(tenant) {
            return None;
        }
        let prefix = &self.settings.scope_prefix;
        let names = names(claims.get(&self.settings.scopes_claim));
        let names = names.filter_map(|name| name.strip_prefix(prefix.as_str()));
        Some(Principal {
            tenant: tenant.into(),
            key_id: Some(self.key_id(claims).into()),
            scopes: Scope::of_names(names),
        })
    }

    /// Returns an id of the subject for limits, logs and the audit trail. It has no name, because `sub` can be one.
    fn key_id(&self, claims: &Map<String, Value>) -> String {
        let subject = claims.get("sub").and_then(Value::as_str);
        let subject = format!("{}|{}", self.issuer, subject.unwrap_or_default());
        format!("openid-{}", &hex(&Sha256::digest(subject))[..16])
    }
}

/// Returns the names of a claim that is a list, or one text with spaces.
fn names(claim: Option<&Value>) -> impl Iterator<Item = &str> {
    let list = claim.and_then(Value::as_array).into_iter().flatten();
    let text = claim.and_then(Value::as_str).unwrap_or_default();
    list.filter_map(Value::as_str)
        .chain(text.split_ascii_whitespace())
}
