//! The public keys of an issuer.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use facescan_clock::Clock;
use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{Jwk, JwkSet, PublicKeyUse},
};
use tokio::sync::Mutex;

use super::web::{JwksError, WebJwks};

/// How long keys are used before they are read again.
const FRESH: Duration = Duration::from_secs(3600);

/// The keys are read again for a token with an unknown key, but at most this often, because anyone can make such a token.
const RETRY: Duration = Duration::from_secs(30);

/// While the issuer is unavailable, keys are used for this long.
const MAX_STALE: Duration = Duration::from_secs(24 * 3600);

/// The keys of an issuer, read when they are needed.
pub(super) struct KeySet {
    source: WebJwks,
    clock: Arc<dyn Clock>,
    known: RwLock<Option<Known>>,
    /// Held while the keys are read, so that one request at a time reads them.
    reading: Mutex<Option<Duration>>,
}

#[derive(Clone)]
struct Known {
    keys: Arc<JwkSet>,
    /// When the keys were read: a monotonic time.
    read_at: Duration,
}

impl KeySet {
    pub(super) fn new(source: WebJwks, clock: Arc<dyn Clock>) -> Self {
        Self {
            source,
            clock,
            known: RwLock::default(),
            reading: Mutex::default(),
        }
    }

    /// Returns the key that verifies tokens of an algorithm. A token without a key id needs a set with one such key.
    pub(super) async fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Option<DecodingKey>, JwksError> {
        let find = |known: &Known| key(&known.keys, id, algorithm);
        let now = self.clock.monotonic();
        let age = |known: &Known| now.saturating_sub(known.read_at);
        let known = self.known();
        if let Some(known) = known.filter(|known| age(known) < FRESH)
            && let Some(key) = find(&known)
        {
            return Ok(Some(key));
        }
        let failure = self.refresh(now).await.err();
        match (self.known(), failure) {
            (Some(known), None) => Ok(find(&known)),
            (Some(known), Some(_)) if age(&known) < MAX_STALE => Ok(find(&known)),
            (_, Some(failure)) => Err(failure),
            (None, None) => Err(JwksError("they could not be read lately".into())),
        }
    }

    fn known(&self) -> Option<Known> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }

    /// Reads the keys, unless that was tried lately.
    async fn refresh(&self, now: Duration) -> Result<(), JwksError> {
        let mut tried_at = self.reading.lock().await;
        if tried_at.is_some_and(|tried_at| now.saturating_sub(tried_at) < RETRY) {
            return Ok(());
        }
        *tried_at = Some(now);
        let keys = self.source.read().await.inspect_err(|error| {
            tracing::warn!(error = %facescan_telemetry::causes::with_causes(error), "the keys of the OpenID issuer cannot be read");
        })?;
        let known = Known {
            keys: Arc::new(keys),
            read_at: now,
        };
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
        Ok(())
    }
}

fn key(keys: &JwkSet, id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
    let fits = |key: &&Jwk| {
        let common = &key.common;
        let is_named = id.is_none() || common.key_id.as_deref() == id;
        let signs = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature));
        let is_for = common
            .key_algorithm
            .is_none_or(|own| own.to_string() == format!("{algorithm:?}"));
        is_named && signs && is_for
    };
    let usable = |key: &Jwk| {
        let decoding = DecodingKey::from_jwk(key).ok()?;
        (decoding.family() == algorithm.family()).then_some(decoding)
    };
    let mut found = keys.keys.iter().filter(fits).filter_map(usable);
    match (found.next(), found.next(), id) {
        (Some(_), Some(_), None) => None,
        (first, ..) => first,
    }
}
