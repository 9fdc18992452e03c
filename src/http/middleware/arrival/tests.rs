use std::convert::Infallible;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http_body_util::BodyExt;
use tokio::time::sleep;

use super::*;

/// A body of single bytes, one after each `pause`.
fn trickling(pause: Duration, bytes: usize, pace: Pace) -> (Body, Arc<Arrival>) {
    let parts = stream::iter(0..bytes).then(move |_| async move {
        sleep(pause).await;
        Ok::<_, Infallible>(Bytes::from_static(b"x"))
    });
    let arrival = Arc::new(Arrival::default());
    let body = watched(Body::from_stream(parts), Arc::clone(&arrival), pace);
    (body, arrival)
}

const PACE: Pace = Pace {
    bytes_per_s: 10,
    grace: Duration::from_secs(15),
};

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_is_refused() {
    let began = Instant::now();
    let (body, arrival) = trickling(Duration::from_secs(4), 1000, PACE);
    let error = body.collect().await.unwrap_err();
    let mut causes = facescan_outbound::causes(&error);
    assert!(causes.any(|cause| cause.is::<TooSlow>()), "{error:?}");
    assert_eq!(began.elapsed().as_secs(), 15, "three bytes add nothing");
    assert!(!arrival.has_ended.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_keeps_the_lowest_rate_takes_its_time() {
    let (body, arrival) = trickling(Duration::from_millis(100), 1000, PACE);
    assert_eq!(body.collect().await.unwrap().to_bytes().len(), 1000);
    assert!(arrival.has_ended.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn only_the_time_counts_in_which_the_server_waits() {
    let (mut body, _) = trickling(Duration::from_secs(1), 10, PACE);
    for _ in 0..10 {
        assert!(body.frame().await.unwrap().is_ok());
        // The handler works on what it has.
        sleep(Duration::from_secs(60)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_lowest_rate_a_body_may_take_any_time() {
    let pace = Pace {
        bytes_per_s: 0,
        ..PACE
    };
    let (body, _) = trickling(Duration::from_secs(3600), 24, pace);
    assert_eq!(body.collect().await.unwrap().to_bytes().len(), 24);
}
