//! Admission, request deadlines, and the times that a response reports.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{
        Request, StatusCode,
        header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE},
    },
};
use facescan_config::scope::Scope;
use facescan_pipeline::admission::Priority;
use futures::{StreamExt, stream};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    access::{LOCKED, key},
    support::app::{TestApp, image_file},
};

#[tokio::test]
async fn a_full_priority_is_refused_at_once_and_the_other_is_still_served() {
    let app = TestApp::with(&[
        ("FACESCAN__ADMISSION__INTERACTIVE_IMAGES", "2"),
        ("FACESCAN__ADMISSION__MAX_WAIT_MS", "0"),
        ("FACESCAN__ADMISSION__BULK_IMAGES", "4"),
    ])
    .await;
    let admission = &app.app.admission;
    let tenant = "default".into();
    let held = admission.admit_or_refuse(&tenant, Priority::Interactive, 2);
    let held = held.await.unwrap();
    let refused = app.post("/detect?store=false", image_file("t1.jpg")).await;
    refused.assert_error(429, "overloaded");
    assert_eq!(refused.headers["retry-after"], "1");
    let bulk = app
        .post("/detect?store=false&priority=bulk", image_file("t1.jpg"))
        .await;
    assert_eq!(bulk.status, StatusCode::OK);
    drop(held);
    let served = app.post("/detect?store=false", image_file("t1.jpg")).await;
    assert_eq!(served.status, StatusCode::OK);
    app.assert_metrics(&[
        "facescan_refused_total{reason=\"interactive\"} 1",
        "facescan_requests_total{route=\"/detect\",status=\"429\"} 1",
        "facescan_images_in_flight{priority=\"bulk\"} 0",
        "facescan_batch_rows_count{operation=\"face_detection\"} 2",
    ]);
}

#[tokio::test]
async fn more_interactive_requests_than_are_admitted_are_answered_in_turn() {
    let app = TestApp::with(&[("FACESCAN__ADMISSION__INTERACTIVE_IMAGES", "2")]).await;
    let requests = (0..16).map(|_| app.post("/detect?store=false", image_file("t1.jpg")));
    for answer in futures::future::join_all(requests).await {
        assert_eq!(answer.status, StatusCode::OK);
    }
    app.assert_metrics(&["facescan_images_in_flight{priority=\"interactive\"} 0"]);
}

#[tokio::test]
async fn a_request_is_admitted_with_all_its_images_or_with_none() {
    let app = TestApp::with(&[
        ("FACESCAN__ADMISSION__INTERACTIVE_IMAGES", "3"),
        ("FACESCAN__ADMISSION__MAX_WAIT_MS", "0"),
        ("FACESCAN__ADMISSION__BULK_MIN_IMAGES", "3"),
        ("FACESCAN__ADMISSION__BULK_IMAGES", "4"),
    ])
    .await;
    let admission = &app.app.admission;
    let tenant = "other".into();
    let held = admission.admit_or_refuse(&tenant, Priority::Interactive, 2);
    let held = held.await.unwrap();
    let body = |images: usize| {
        json!({"images": vec![json!({"data": ""}); images], "options": {"store": false}})
            .to_string()
    };
    let json = "application/json";
    let two = app.post_as("/detect", json, body(2)).await;
    assert_eq!(two.status, StatusCode::TOO_MANY_REQUESTS);
    // The number of images makes this request bulk.
    let three = app.post_as("/detect", json, body(3)).await;
    assert_eq!(three.status, StatusCode::OK);
    drop(held);
    let two = app.post_as("/detect", json, body(2)).await;
    assert_eq!(two.status, StatusCode::OK);
}

#[tokio::test]
async fn the_total_size_of_bodies_is_checked_before_they_are_read() {
    let app = TestApp::with(&[("FACESCAN__ADMISSION__MAX_BYTES", "1048576")]).await;
    let held = app
        .app
        .admission
        .try_reserve_body(&"other".into(), 1_000_000)
        .unwrap();
    let headers = [("content-type", "image/jpeg"), ("content-length", "500000")];
    let refused = app.call("POST", "/detect", &headers, "").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    drop(held);
}

#[tokio::test]
async fn a_client_can_shorten_its_deadline_but_not_extend_it() {
    let app = TestApp::with(&[("FACESCAN__SERVER__REQUEST_TIMEOUT_MS", "30000")]).await;
    let within = async |timeout: &str| {
        let headers = [
            ("content-type", "image/jpeg"),
            ("x-request-timeout-ms", timeout),
        ];
        let image = image_file("t1.jpg");
        app.call("POST", "/detect?store=false", &headers, image)
            .await
    };
    let late = within("1").await;
    assert_eq!(late.status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(
        late.json()["detail"],
        "the request took longer than 1 ms; send fewer images, or allow more time"
    );
    assert_eq!(within("60000").await.status, StatusCode::OK);
    for wrong in ["0", "-1", "1.5", "soon", ""] {
        let refused = within(wrong).await;
        refused.assert_error_of(wrong, 422, "invalid_option");
    }
}

#[tokio::test]
async fn the_answer_reports_the_time_of_each_stage() {
    let app = TestApp::start().await;
    let reply = app
        .post("/embed?store=false&timings=true", image_file("t1.jpg"))
        .await;
    let time = |name: &str| {
        reply.headers[name]
            .to_str()
            .unwrap()
            .parse::<f64>()
            .unwrap()
    };
    let [queue, inference, total] = ["x-queue-time", "x-inference-time", "x-total-time"].map(time);
    assert!(
        inference > 0.0 && queue >= 0.0 && total >= inference,
        "{queue} {inference} {total}"
    );
    let timings = &reply.result()["timings_ms"];
    let stage = |name: &str| timings[name].as_f64().unwrap();
    assert!((stage("detect") + stage("embed") - inference).abs() < 0.01);
    // The stages do not overlap, so their sum is at most the total.
    let stages = ["queue", "decode", "detect", "align", "embed"].map(stage);
    assert!(stages.iter().all(|stage| *stage >= 0.0));
    assert!(
        stages.iter().sum::<f64>() <= stage("total") + 0.01,
        "{timings}"
    );
}

/// A request to `/detect` with a body that arrives in these parts and then never ends.
fn slow(parts: Vec<Vec<u8>>, stated: Option<&str>) -> Request<Body> {
    let parts = stream::iter(parts.into_iter().map(Ok::<_, std::io::Error>));
    let mut request = Request::post("/detect?store=false").header(CONTENT_TYPE, "image/jpeg");
    if let Some(stated) = stated {
        request = request.header(CONTENT_LENGTH, stated);
    }
    let body = Body::from_stream(parts.chain(stream::pending()));
    request.body(body).unwrap()
}

const MIB: usize = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_do_not_arrive_leave_others_the_byte_budget() {
    let app = Arc::new(TestApp::with(&[("FACESCAN__ADMISSION__MAX_BYTES", "8388608")]).await);
    let slow_ones: Vec<_> = [None, Some("4000000"), None, Some("4000000")]
        .into_iter()
        .map(|stated| {
            let app = Arc::clone(&app);
            tokio::spawn(async move { app.send(slow(Vec::new(), stated)).await })
        })
        .collect();
    let tenant = "default".into();
    let can_hold = |bytes| app.app.admission.check_body(&tenant, bytes).is_ok();
    // Each of them holds 16 KiB.
    let left = 8 * MIB - 4 * (16 << 10);
    let all_reserved = async {
        while can_hold(left + 1) {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), all_reserved)
        .await
        .unwrap();
    assert!(can_hold(left));
    let reply = app.post("/detect?store=false", image_file("t1.jpg")).await;
    assert_eq!(reply.status, StatusCode::OK);
    for slow in slow_ones {
        slow.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_of_one_tenant_leave_requests_to_others() {
    let limit = ("FACESCAN__ADMISSION__MAX_REQUESTS", "2");
    let app = Arc::new(TestApp::with(&[LOCKED, limit]).await);
    let alice = key(&app, "alice", &[Scope::Infer]).await;
    let bob = key(&app, "bob", &[Scope::Infer]).await;
    let of = |mut request: Request<Body>, key: &str| {
        let value = format!("Bearer {key}").parse().unwrap();
        request.headers_mut().insert(AUTHORIZATION, value);
        request
    };
    let slow_ones = [(); 2].map(|()| {
        let (app, alice) = (Arc::clone(&app), alice.clone());
        // The test looks by taking a permit, which a request may miss.
        tokio::spawn(async move {
            loop {
                let reply = app.send(of(slow(Vec::new(), None), &alice)).await;
                assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);
            }
        })
    });
    let tenant = "alice".into();
    let all_in_work = async {
        while app.app.admission.try_enter(&tenant).is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), all_in_work).await.unwrap();
    let image = || {
        let request = Request::post("/detect?store=false").header(CONTENT_TYPE, "image/jpeg");
        request.body(Body::from(image_file("t1.jpg"))).unwrap()
    };
    let refused = app.send(of(image(), &alice)).await;
    refused.assert_error(429, "overloaded");
    let served = app.send(of(image(), &bob)).await;
    assert_eq!(served.status, StatusCode::OK, "{served:?}");
    for slow in slow_ones {
        slow.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_outgrows_the_byte_budget_is_refused() {
    let app = TestApp::with(&[("FACESCAN__ADMISSION__MAX_BYTES", "2097152")]).await;
    let admission = &app.app.admission;
    let held = admission.try_reserve_body(&"default".into(), MIB).unwrap();
    let head = b"--b\r\ncontent-disposition: form-data; name=\"image\"; filename=\"a\"\r\n\r\n";
    let zeros = vec![0; MIB / 2];
    let parts = vec![head.to_vec(), zeros.clone(), zeros.clone(), zeros];
    for format in ["image/jpeg", "multipart/form-data; boundary=b"] {
        let mut request = slow(parts.clone(), None);
        request
            .headers_mut()
            .insert(CONTENT_TYPE, format.parse().unwrap());
        let refused = app.send(request).await;
        refused.assert_error_of(format, 429, "overloaded");
    }
    drop(held);
    let reply = app.post("/detect?store=false", image_file("t1.jpg")).await;
    assert_eq!(reply.status, StatusCode::OK);
}
