//! Loads the bytes of images. It fetches the images that a request names by URL.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use facescan_config::Config;
use facescan_telemetry::metrics::Metrics;
use tracing::field::Empty;
use url::Url;

use super::{
    fetch::{FetchError, Fetcher},
    guard::Refused,
    source::{Content, ImageInput},
    tenant_slots::{Slot, TenantSlots},
};
use crate::{
    admission::{
        AdmissionError, Priority,
        byte_budget::{ByteBudget, Reservation},
    },
    context::RequestContext,
    ingest::error::IngestError,
};
use facescan_clock::Clock;

/// The maximum length of a URL in bytes. Stored URLs have the same limit.
const MAX_URL_BYTES: usize = 4096;

/// Loads the bytes of images.
pub struct Intake {
    /// `None` if fetching is disabled.
    fetcher: Option<Arc<dyn Fetcher>>,
    /// A fetch holds one until it ends.
    slots: TenantSlots,
    /// A fetch, and then its image, hold a part until the image has been processed.
    budget: ByteBudget,
    limit: u64,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
}

/// An image with its bytes.
#[derive(Debug, Default)]
pub struct LoadedImage {
    /// The caller's name for the origin of the image.
    pub source: Option<String>,
    /// The address where the caller found the image.
    pub source_url: Option<String>,
    /// The URL that the image was fetched from.
    pub url: Option<String>,
    /// The encoded bytes.
    pub bytes: Bytes,
    /// The sha256 of the bytes, if it is already computed.
    pub hash: Option<[u8; 32]>,
    /// The duration of the fetch in milliseconds, with the wait for a reservation.
    pub fetch_ms: f64,
    /// The reservation of fetched bytes. Hold it as long as the bytes.
    pub reservation: Option<Reservation>,
}

impl From<Bytes> for LoadedImage {
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }
}

/// Whom an image is loaded for. Tenants share what fetches take.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// The tenant.
    pub tenant: &'a Arc<str>,
    /// The priority.
    pub priority: Priority,
}

impl<'a> From<&'a RequestContext> for Requester<'a> {
    fn from(context: &'a RequestContext) -> Self {
        Self {
            tenant: &context.principal.tenant,
            priority: context.priority,
        }
    }
}

/// Whether a fetch waits if the tenant may hold no more slots, or if the byte budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WhenFull {
    Wait,
    Refuse,
}

impl Intake {
    /// Creates an intake. It fetches URLs if `fetcher` is `Some` and the settings allow it.
    pub fn new(
        config: &Config,
        fetcher: Option<Arc<dyn Fetcher>>,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
    ) -> Self {
        let limit = config.max_fetched_bytes();
        Self {
            fetcher: fetcher.filter(|_| config.urls.enabled),
            slots: TenantSlots::new(config.urls.max_concurrent),
            budget: ByteBudget::new(config.urls.max_concurrent, limit),
            limit,
            clock,
            metrics,
        }
    }

    /// Loads the bytes of an image. A URL waits for a reservation first.
    ///
    /// # Errors
    /// Returns [`IngestError`] with the reason.
    pub async fn load(
        &self,
        image: ImageInput,
        requester: Requester<'_>,
    ) -> Result<LoadedImage, IngestError> {
        self.load_with(image, requester, WhenFull::Wait).await
    }

    /// Loads the bytes of an image without waiting for a reservation. Use it for a request that already holds one,
    /// because two such requests could wait for each other.
    ///
    /// # Errors
    /// Returns the errors of [`Intake::load`], and [`IngestError::Full`] if the byte budget is used up.
    pub async fn try_load(
        &self,
        image: ImageInput,
        requester: Requester<'_>,
    ) -> Result<LoadedImage, IngestError> {
        self.load_with(image, requester, WhenFull::Refuse).await
    }

    /// Checks a URL that is fetched later.
    ///
    /// # Errors
    /// Returns [`FetchError`] if fetching is disabled or the text is not a URL. The address is checked when it is fetched.
    pub fn check_url(&self, text: &str) -> Result<(), FetchError> {
        if self.fetcher.is_none() {
            return Err(Refused::Off.into());
        }
        read_url(text).map(drop)
    }

    async fn load_with(
        &self,
        image: ImageInput,
        requester: Requester<'_>,
        when_full: WhenFull,
    ) -> Result<LoadedImage, IngestError> {
        let loaded = LoadedImage {
            source: image.source,
            source_url: image.source_url,
            ..LoadedImage::default()
        };
        let named = match image.content? {
            Content::Bytes(bytes) => return Ok(LoadedImage { bytes, ..loaded }),
            Content::Url(named) => named,
        };
        let began = self.clock.monotonic();
        let fetcher = self.fetcher.as_deref().ok_or(Refused::Off);
        let fetcher = fetcher.map_err(FetchError::from)?;
        let url = read_url(&named)?;
        let admitted = self.admit(requester, when_full).await;
        let (_slot, mut reservation) = admitted.ok_or_else(|| {
            self.metrics.refused(AdmissionError::Fetches.refusal());
            AdmissionError::Fetches
        })?;
        let bytes = self.fetch(fetcher, &url).await?;
        reservation.shrink_to(bytes.len());
        Ok(LoadedImage {
            url: Some(url.into()),
            bytes,
            fetch_ms: self.since(began).as_secs_f64() * 1e3,
            reservation: Some(reservation),
            ..loaded
        })
    }

    async fn admit(
        &self,
        requester: Requester<'_>,
        when_full: WhenFull,
    ) -> Option<(Slot, Reservation)> {
        let Requester { tenant, priority } = requester;
        Some(match when_full {
            // Only who has a slot waits for bytes, so the shares of tenants hold for bytes, too.
            WhenFull::Wait => (
                self.slots.take(tenant, priority).await?,
                self.budget.reserve(priority).await?,
            ),
            WhenFull::Refuse => (
                self.slots.try_take(tenant, priority)?,
                self.budget.try_reserve(priority)?,
            ),
        })
    }

    async fn fetch(&self, fetcher: &dyn Fetcher, url: &Url) -> Result<Bytes, FetchError> {
        let mut counted = Counted {
            intake: self,
            began: self.clock.monotonic(),
            outcome: "abandoned",
        };
        let span = tracing::info_span!(
            target: "otlp",
            "fetch",
            otel.kind = "client",
            host = url.host_str(),
            outcome = Empty,
        );
        let fetched = fetcher.fetch(url, self.limit).await;
        counted.outcome = match &fetched {
            Ok(_) => "ok",
            Err(error) => error.outcome(),
        };
        span.record("outcome", counted.outcome);
        fetched
    }

    fn since(&self, began: Duration) -> Duration {
        self.clock.monotonic().saturating_sub(began)
    }
}

/// Counts a fetch when it ends, even if the caller has left.
struct Counted<'a> {
    intake: &'a Intake,
    began: Duration,
    outcome: &'static str,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let elapsed = self.intake.since(self.began);
        self.intake.metrics.fetched(self.outcome, elapsed);
    }
}

/// Parses a URL and removes its fragment, which is never sent to a server.
fn read_url(text: &str) -> Result<Url, FetchError> {
    // Checks the length before parsing, because a body may contain megabytes of text.
    if text.len() > MAX_URL_BYTES {
        return Err(FetchError::NotAUrl);
    }
    let mut url = Url::parse(text).map_err(|_| FetchError::NotAUrl)?;
    url.set_fragment(None);
    if url.as_str().len() > MAX_URL_BYTES {
        return Err(FetchError::NotAUrl);
    }
    Ok(url)
}

#[cfg(test)]
mod tests;
