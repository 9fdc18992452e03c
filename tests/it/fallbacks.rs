//! What answers and the log say of work that a device failed on.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use facescan_inference::{
    backend::{Backend, BackendError, Batch, Opening, Session},
    graphs::session::GraphSession,
    log_recorder::LogRecorder,
    placement::{DevicePlacement, Provider},
    tensor::{Signature, Tensor},
};
use serde_json::json;

use crate::support::{
    app::{TestApp, image_file},
    values::photo,
};

/// A backend whose CUDA device is the CPU. The device fails the next `failures` runs.
struct FlakyDevice {
    backend: Arc<dyn Backend>,
    failures: Arc<AtomicUsize>,
}

struct FlakySession {
    session: Box<dyn Session>,
    failures: Arc<AtomicUsize>,
}

impl Session for FlakySession {
    fn signature(&self) -> &Signature {
        self.session.signature()
    }

    fn run(&mut self, batch: Batch<'_>) -> Result<Vec<Tensor>, BackendError> {
        let one_less = |left: usize| left.checked_sub(1);
        let taken = self
            .failures
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        match taken {
            Ok(_) => Err(BackendError::run("on purpose")),
            Err(_) => self.session.run(batch),
        }
    }
}

impl FlakyDevice {
    /// Opens on the CPU what is to be opened on the device.
    fn on_cpu<'a>(opening: &Opening<'a>) -> Opening<'a> {
        Opening {
            placement: DevicePlacement::CPU,
            memory_limit: None,
            ..*opening
        }
    }
}

impl Backend for FlakyDevice {
    fn name(&self) -> &str {
        self.backend.name()
    }

    fn check_available(&self, placement: DevicePlacement) -> Result<(), BackendError> {
        match placement.provider {
            Provider::Cuda => Ok(()),
            _ => self.backend.check_available(placement),
        }
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Vec<Box<dyn Session>>, BackendError> {
        if opening.placement.provider != Provider::Cuda {
            return self.backend.open(opening);
        }
        let sessions = self.backend.open(&Self::on_cpu(opening))?;
        let flaky = |session| -> Box<dyn Session> {
            Box::new(FlakySession {
                session,
                failures: Arc::clone(&self.failures),
            })
        };
        Ok(sessions.into_iter().map(flaky).collect())
    }

    fn open_graph(&self, opening: &Opening<'_>) -> Result<Box<dyn GraphSession>, BackendError> {
        self.backend.open_graph(&Self::on_cpu(opening))
    }
}

/// Returns an application whose detector runs on a device, and the number of runs that fail next.
async fn flaky_app() -> (TestApp, Arc<AtomicUsize>) {
    let failures = Arc::new(AtomicUsize::new(0));
    let settings = [
        ("FACE_DETECTION_GPU", "1"),
        ("GPU_BACKEND", "cuda"),
        ("GPU_BATCH_SIZE", "1"),
    ];
    let backend = |backend| -> Arc<dyn Backend> {
        Arc::new(FlakyDevice {
            backend,
            failures: Arc::clone(&failures),
        })
    };
    (TestApp::on(&settings, backend).await, failures)
}

/// One resolution, so that an image is one row.
const DETECT: &str = "/detect?second_det_size=0";

#[tokio::test]
async fn an_answer_names_the_device_that_ran_each_image() {
    let (app, failures) = flaky_app().await;
    let uri = format!("{DETECT}&store=false");
    let reply = app.post(&uri, image_file("t1.jpg"));
    let answer = reply.await.json();
    let state = &answer["devices"]["face_detection"];
    assert_eq!(state, &json!({"requested": "cuda:0", "active": "cuda:0"}));

    failures.store(1, Ordering::Relaxed);
    let options = json!({"second_det_size": 0, "store": false});
    let body = json!({"images": vec![photo("t1.jpg"); 3], "options": options});
    let reply = app.post_as("/detect", "application/json", body.to_string());
    let answer = reply.await.json();
    assert_eq!(answer["devices"]["face_detection"]["active"], "cuda:0");
    let results = answer["results"].as_array().unwrap();
    let fell_back = results.iter().filter_map(|result| result.get("devices"));
    let fell_back: Vec<_> = fell_back.collect();
    assert_eq!(fell_back.len(), 1, "{answer}");
    let reason = "a run on cuda:0 failed (failed)";
    let expected = json!({"requested": "cuda:0", "active": "cpu", "reason": reason});
    assert_eq!(fell_back[0]["face_detection"], expected);
}

#[tokio::test]
async fn a_cached_answer_names_the_device_that_ran_it_then() {
    let (app, failures) = flaky_app().await;
    failures.store(1, Ordering::Relaxed);
    let uri = format!("{DETECT}&store=true");
    let first = app.post(&uri, image_file("t1.jpg")).await.json();
    // The device works again, and this response still comes from the CPU.
    let again = app.post(&uri, image_file("t1.jpg")).await.json();
    assert_eq!(again["results"][0]["cached"], true);
    assert_eq!(again["devices"]["face_detection"]["active"], "cpu");
    assert_eq!(again["devices"], first["devices"]);

    let id = first["results"][0]["image_id"].as_str().unwrap();
    let stored = app.get(&format!("/images/{id}")).await.json();
    assert_eq!(stored["scans"][0]["devices"], first["devices"]);
    let report = app.get("/devices").await.json();
    assert_eq!(report["operations"]["face_detection"]["active"], "cuda:0");
}

/// Posts an image with a request id of its own.
async fn post_as_request(app: &TestApp, uri: &str, id: &str) {
    let headers = [("content-type", "image/jpeg"), ("x-request-id", id)];
    app.call("POST", uri, &headers, image_file("t1.jpg")).await;
}

#[tokio::test]
async fn warnings_of_devices_and_of_the_store_have_the_id_of_the_request() {
    let log = LogRecorder::install();
    let (app, failures) = flaky_app().await;
    failures.store(1, Ordering::Relaxed);
    let uri = format!("{DETECT}&store=false");
    post_as_request(&app, &uri, "fails-on-the-device").await;
    let lines = log.lines_with("fails-on-the-device");
    let warned = |line: &String| line.contains("WARN") && line.contains("on purpose");
    assert!(lines.iter().any(warned), "{lines:#?}");

    app.app.store.close().await;
    post_as_request(&app, &format!("{DETECT}&store=true"), "fails-in-the-store").await;
    let lines = log.lines_with("fails-in-the-store");
    let warned = |line: &String| line.contains("WARN") && line.contains("find_scan");
    assert!(lines.iter().any(warned), "{lines:#?}");
}
