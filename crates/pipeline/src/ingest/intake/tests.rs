use std::sync::{
    LazyLock,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use async_trait::async_trait;
use facescan_config::Sources;
use futures::{FutureExt, future::join_all};
use tokio::sync::Semaphore;

use super::*;
use facescan_clock::SystemClock;

/// Answers every URL with as many bytes as its path says. The semaphore, if any, holds the responses back.
#[derive(Default)]
struct Fake {
    running: AtomicUsize,
    permits: Option<Semaphore>,
}

#[async_trait]
impl Fetcher for Fake {
    async fn fetch(&self, url: &Url, limit: u64) -> Result<Bytes, FetchError> {
        self.running.fetch_add(1, Relaxed);
        if let Some(permits) = &self.permits {
            permits.acquire().await.unwrap().forget();
        }
        self.running.fetch_sub(1, Relaxed);
        let length: u64 = url.path()[1..]
            .parse()
            .map_err(|_| FetchError::Status(404))?;
        if length > limit {
            return Err(FetchError::TooLarge { limit });
        }
        Ok(vec![7; usize::try_from(length).unwrap()].into())
    }
}

fn intake(fetcher: Arc<Fake>, settings: &[(&str, &str)]) -> Intake {
    let settings = settings
        .iter()
        .map(|(name, value)| (format!("FACESCAN__{name}"), (*value).to_owned()));
    let sources = Sources {
        environment: settings.collect(),
        ..Sources::default()
    };
    let config = Config::load(&sources).unwrap().0;
    let clock = Arc::new(SystemClock::start());
    Intake::new(&config, Some(fetcher), clock, Metrics::default())
}

fn image(url: &str) -> ImageInput {
    ImageInput::from_url(url.to_owned())
}

static TENANT: LazyLock<Arc<str>> = LazyLock::new(|| "one".into());

fn requester(priority: Priority) -> Requester<'static> {
    Requester {
        tenant: &TENANT,
        priority,
    }
}

/// Loads an interactive image.
async fn load(intake: &Intake, url: &str) -> Result<LoadedImage, IngestError> {
    let requester = requester(Priority::Interactive);
    intake.load(image(url), requester).await
}

/// Returns an intake whose fetches wait for permits, and its fetcher.
fn held_back(settings: &[(&str, &str)]) -> (Intake, Arc<Fake>) {
    let fetcher = Arc::new(Fake {
        permits: Some(Semaphore::new(0)),
        ..Fake::default()
    });
    (intake(Arc::clone(&fetcher), settings), fetcher)
}

impl Fake {
    fn running(&self) -> usize {
        self.running.load(Relaxed)
    }

    fn release(&self, fetches: usize) {
        self.permits.as_ref().unwrap().add_permits(fetches);
    }
}

const ENABLED: (&str, &str) = ("URLS__ENABLED", "true");

#[tokio::test]
async fn a_url_is_loaded_and_keeps_its_address() {
    let intake = intake(Arc::default(), &[ENABLED]);
    let loaded = load(&intake, "https://A.test/5?b=%00#part").await.unwrap();
    assert_eq!(loaded.bytes.len(), 5);
    assert_eq!(loaded.url.as_deref(), Some("https://a.test/5?b=%00"));
    assert!(loaded.fetch_ms >= 0.0 && loaded.source_url.is_none());
    let missing = load(&intake, "https://a.test/x").await.unwrap_err();
    assert!(
        matches!(missing, IngestError::Fetch(FetchError::Status(404))),
        "{missing}"
    );
    let text = intake.metrics.text().unwrap();
    for line in [
        "facescan_fetches_total{outcome=\"ok\"} 1",
        "facescan_fetches_total{outcome=\"status\"} 1",
        "facescan_fetch_seconds_count 2",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[tokio::test]
async fn an_invalid_url_is_not_fetched() {
    let intake = intake(Arc::default(), &[ENABLED]);
    let long = format!("https://a.test/{}", "a".repeat(4096));
    // This text exceeds the limit only after percent-encoding.
    let grows = format!("https://a.test/{}", "é".repeat(1000));
    for text in ["", "a.jpg", "//a.test/a.jpg", "https://", &long, &grows] {
        let error = load(&intake, text).await.unwrap_err();
        assert!(
            matches!(error, IngestError::Fetch(FetchError::NotAUrl)),
            "{text}: {error}"
        );
    }
}

#[tokio::test]
async fn the_lower_of_the_two_limits_applies() {
    for (fetched, sent) in [("10", "20"), ("20", "10")] {
        let limits = [
            ("URLS__MAX_BYTES", fetched),
            ("LIMITS__MAX_IMAGE_BYTES", sent),
        ];
        let intake = intake(Arc::default(), &[ENABLED, limits[0], limits[1]]);
        assert!(load(&intake, "https://a.test/10").await.is_ok());
        let error = load(&intake, "https://a.test/11").await.unwrap_err();
        assert!(
            matches!(error, IngestError::Fetch(FetchError::TooLarge { .. })),
            "{error}"
        );
    }
}

#[tokio::test]
async fn the_number_of_concurrent_fetches_is_limited() {
    let (intake, fetcher) = held_back(&[ENABLED, ("URLS__MAX_CONCURRENT", "3")]);
    let mut all = Box::pin(join_all((0..5).map(|_| load(&intake, "https://a.test/9"))));
    assert!((&mut all).now_or_never().is_none());
    assert_eq!(fetcher.running(), 2);
    // A mask does not wait behind the images. It is refused before it is fetched.
    let mask = intake
        .try_load(image("https://a.test/9"), requester(Priority::Interactive))
        .await;
    assert!(matches!(
        mask,
        Err(IngestError::Full(AdmissionError::Fetches))
    ));
    assert_eq!(fetcher.running(), 2);
    // Finished fetches keep only their actual size, so the other fetches can run before any image is answered.
    fetcher.release(5);
    let loaded = all.await;
    assert!(
        loaded
            .iter()
            .all(|image| matches!(image, Ok(image) if image.bytes.len() == 9))
    );
}

#[tokio::test]
async fn an_interactive_image_is_fetched_while_bulk_images_wait() {
    let (intake, fetcher) = held_back(&[ENABLED, ("URLS__MAX_CONCURRENT", "5")]);
    let bulk = (0..64).map(|_| intake.load(image("https://a.test/9"), requester(Priority::Bulk)));
    let mut bulk = Box::pin(join_all(bulk));
    assert!((&mut bulk).now_or_never().is_none());
    assert_eq!(fetcher.running(), 3);
    let mut alone = Box::pin(load(&intake, "https://a.test/9"));
    assert!((&mut alone).now_or_never().is_none());
    assert_eq!(
        fetcher.running(),
        4,
        "the interactive image is fetched at once"
    );
    fetcher.release(65);
    assert!(bulk.await.iter().all(Result::is_ok) && alone.await.is_ok());
}

#[tokio::test]
async fn an_abandoned_fetch_releases_its_reservation() {
    let (intake, fetcher) = held_back(&[ENABLED, ("URLS__MAX_CONCURRENT", "1")]);
    let mut leaving = Box::pin(load(&intake, "https://a.test/9"));
    assert!((&mut leaving).now_or_never().is_none());
    drop(leaving);
    let text = intake.metrics.text().unwrap();
    let abandoned = "facescan_fetches_total{outcome=\"abandoned\"} 1";
    assert!(text.contains(abandoned), "{text}");
    fetcher.release(1);
    let next = intake.try_load(image("https://a.test/9"), requester(Priority::Interactive));
    assert!(next.await.is_ok());
}

#[tokio::test]
async fn a_silent_host_of_one_tenant_does_not_delay_another_tenant() {
    let (intake, fetcher) = held_back(&[ENABLED]);
    for priority in [Priority::Interactive, Priority::Bulk] {
        let noisy = (0..60).map(|_| intake.load(image("https://a.test/9"), requester(priority)));
        let mut noisy = Box::pin(join_all(noisy));
        assert!((&mut noisy).now_or_never().is_none());
        let held = fetcher.running();
        assert!((8..=12).contains(&held), "{held}");
        for tenant in ["two", "three"] {
            let other = Requester {
                tenant: &tenant.into(),
                priority,
            };
            let before = fetcher.running();
            let mut alone = Box::pin(intake.load(image("https://a.test/9"), other));
            assert!((&mut alone).now_or_never().is_none());
            assert_eq!(fetcher.running(), before + 1, "it is fetched at once");
        }
        drop(noisy);
        fetcher.running.store(0, Relaxed);
    }
}
