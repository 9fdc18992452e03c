//! Images as callers name them, to bytes: those of a URL are fetched here.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use url::Url;

use super::{
    fetch::{FetchError, Fetcher},
    guard::Refused,
    source::{Content, ImageInput},
};
use crate::{
    admission::{
        Full, Priority,
        byte_budget::{ByteBudget, Reservation},
    },
    config::Config,
    ingest::error::IngestError,
    telemetry::metrics::Metrics,
};
use facescan_clock::Clock;

/// Longest URL; the longest that is stored too.
const LONGEST_URL: usize = 4096;

/// Turns images as they are named into bytes.
pub struct Intake {
    /// `None` where no URL is fetched.
    fetcher: Option<Arc<dyn Fetcher>>,
    budget: ByteBudget,
    limit: u64,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
}

/// An image whose bytes are there.
#[derive(Debug)]
pub struct Loaded {
    /// The caller's name for where it came from.
    pub source: Option<String>,
    /// The address that the caller says it was found at.
    pub source_url: Option<String>,
    /// The URL that it was fetched from.
    pub url: Option<String>,
    /// The encoded bytes.
    pub bytes: Bytes,
    /// Milliseconds that fetching it took, the wait for room included.
    pub fetch_ms: f64,
    /// The room that fetched bytes take, to be held as long as they are.
    pub reservation: Option<Reservation>,
}

/// Whether a fetch waits where there is no room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WhenFull {
    Wait,
    Refuse,
}

impl Intake {
    /// An intake that fetches through `fetcher`, where there is one and the settings allow it.
    pub fn new(
        config: &Config,
        fetcher: Option<Arc<dyn Fetcher>>,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
    ) -> Self {
        let limit = config.fetched_bytes();
        Self {
            fetcher: fetcher.filter(|_| config.urls.enabled),
            budget: ByteBudget::new(config.urls.max_concurrent, limit),
            limit,
            clock,
            metrics,
        }
    }

    /// An image's bytes; those of a URL when there is room for them, until which this waits.
    ///
    /// # Errors
    /// [`IngestError`] says why there are none.
    pub async fn load(&self, image: ImageInput, priority: Priority) -> Result<Loaded, IngestError> {
        self.loaded(image, priority, WhenFull::Wait).await
    }

    /// The same for what a request holds while it takes more: it may not wait, or two such requests could wait for each
    /// other.
    ///
    /// # Errors
    /// As [`Intake::load`], and [`IngestError::Full`] where there is no room now.
    pub async fn load_at_once(
        &self,
        image: ImageInput,
        priority: Priority,
    ) -> Result<Loaded, IngestError> {
        self.loaded(image, priority, WhenFull::Refuse).await
    }

    async fn loaded(
        &self,
        image: ImageInput,
        priority: Priority,
        when_full: WhenFull,
    ) -> Result<Loaded, IngestError> {
        let loaded = Loaded {
            source: image.source,
            source_url: image.source_url,
            url: None,
            bytes: Bytes::new(),
            fetch_ms: 0.0,
            reservation: None,
        };
        let named = match image.content? {
            Content::Bytes(bytes) => return Ok(Loaded { bytes, ..loaded }),
            Content::Url(named) => named,
        };
        let began = self.clock.monotonic();
        let fetcher = self.fetcher.as_deref().ok_or(Refused::Off);
        let fetcher = fetcher.map_err(FetchError::from)?;
        let url = read_url(&named)?;
        let reservation = match when_full {
            WhenFull::Wait => self.budget.reserve(priority).await,
            WhenFull::Refuse => self.budget.try_reserve(priority),
        };
        let mut reservation = reservation.ok_or(Full::Fetches)?;
        let bytes = self.fetch(fetcher, &url).await?;
        reservation.shrink_to(bytes.len());
        Ok(Loaded {
            url: Some(url.into()),
            bytes,
            fetch_ms: self.since(began).as_secs_f64() * 1e3,
            reservation: Some(reservation),
            ..loaded
        })
    }

    async fn fetch(&self, fetcher: &dyn Fetcher, url: &Url) -> Result<Bytes, FetchError> {
        let mut counted = Counted {
            intake: self,
            began: self.clock.monotonic(),
            outcome: "abandoned",
        };
        let fetched = fetcher.fetch(url, self.limit).await;
        counted.outcome = match &fetched {
            Ok(_) => "ok",
            Err(error) => error.outcome(),
        };
        fetched
    }

    fn since(&self, began: Duration) -> Duration {
        self.clock.monotonic().saturating_sub(began)
    }
}

/// Counts a fetch when it is over, also when nobody waits for it any more.
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

/// A URL as it is asked for and stored: without its fragment, which no server sees.
fn read_url(text: &str) -> Result<Url, FetchError> {
    // Before it is parsed, as a body may hold megabytes of it.
    if text.len() > LONGEST_URL {
        return Err(FetchError::NotAUrl);
    }
    let mut url = Url::parse(text).map_err(|_| FetchError::NotAUrl)?;
    url.set_fragment(None);
    if url.as_str().len() > LONGEST_URL {
        return Err(FetchError::NotAUrl);
    }
    Ok(url)
}

#[cfg(test)]
mod tests;
