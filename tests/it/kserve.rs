//! Models on a remote server, over real connections. The tests use an exchange that was recorded with Triton, and a Triton
//! server if `FACESCAN_TEST_TRITON` names one.

use std::{path::PathBuf, sync::mpsc, thread, time::Duration};

use facescan_inference::{
    backend::{
        BackendError, Batch, Session,
        kserve::{Kserve, RemoteContext, RemoteSpec},
    },
    tensor::Tensor,
};
use facescan_telemetry::metrics::Metrics;
use tokio::{runtime::Handle, sync::oneshot};

use crate::support::wire::{Reply, WireServer, first_line, forward};

mod application;
mod failures;

/// The requests that open the model and run it once, in this order, with the names of their fixtures.
const EXCHANGE: [(&str, &str); 4] = [
    ("GET /v2/health/ready HTTP/1.1", "server-ready"),
    ("GET /v2/models/encoder/ready HTTP/1.1", "model-ready"),
    ("GET /v2/models/encoder HTTP/1.1", "metadata"),
    ("POST /v2/models/encoder/infer HTTP/1.1", "infer"),
];

const ROWS: usize = 2;
const ROW: [usize; 3] = [3, 32, 32];

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/kserve")
        .join(name)
}

fn recorded(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

/// Returns Triton's recorded response to the request.
fn recorded_answer(request: &[u8]) -> Vec<u8> {
    let (_, name) = EXCHANGE
        .iter()
        .find(|(line, _)| *line == first_line(request))
        .unwrap();
    recorded(&format!("{name}.response"))
}

/// Returns a message without its `host` header, which differs in each run.
fn without_host(message: &[u8]) -> Vec<u8> {
    let is_host = |line: &[u8]| line.len() > 5 && line[..5].eq_ignore_ascii_case(b"host:");
    message
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !is_host(line))
        .flatten()
        .copied()
        .collect()
}

fn spec(server: &WireServer, more: &str) -> RemoteSpec {
    serde_saphyr::from_str(&format!("url: {}\nmodel: encoder\n{more}", server.url())).unwrap()
}

struct Rig {
    server: WireServer,
    metrics: Metrics,
    session: Result<Box<dyn Session>, BackendError>,
}

/// Starts a server that answers inference requests with `reply` and all others with the recorded responses.
async fn rig(more: &str, reply: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Rig {
    rig_of(more, move |request, number| {
        if first_line(request).starts_with("POST") {
            reply(number)
        } else {
            Reply::Bytes(recorded_answer(request))
        }
    })
    .await
}

async fn rig_of(more: &str, reply: impl Fn(&[u8], usize) -> Reply + Send + Sync + 'static) -> Rig {
    let server = WireServer::start(reply).await;
    let (metrics, spec) = (Metrics::default(), spec(&server, more));
    let session = Kserve::open(&spec, context(&spec, &metrics))
        .await
        .map(|mut kserve| kserve.session());
    Rig {
        server,
        metrics,
        session,
    }
}

fn context(spec: &RemoteSpec, metrics: &Metrics) -> RemoteContext {
    let token = spec.token(|_| Some("hunter2".to_owned())).unwrap();
    RemoteContext {
        rng: fastrand::Rng::with_seed(7),
        first_pause: Duration::ZERO,
        ..RemoteContext::new(Handle::current(), metrics.remote(&spec.model), token)
    }
}

impl Rig {
    /// Runs two rows on a separate thread, as the engines do.
    async fn run(&mut self) -> Result<Vec<Tensor>, String> {
        let mut session = std::mem::replace(&mut self.session, Err(none())).unwrap();
        let (reply, answer) = oneshot::channel();
        thread::spawn(move || {
            let data = pixels();
            let outcome = session.run(Batch::new(&ROW, &data));
            reply.send((session, outcome)).ok();
        });
        let (session, outcome) = answer.await.unwrap();
        self.session = Ok(session);
        outcome.map_err(|error| error.to_string())
    }

    fn runs(&self) -> usize {
        let requests = self.server.requests();
        requests
            .iter()
            .filter(|request| first_line(request).starts_with("POST"))
            .count()
    }

    fn assert_counted(&self, line: &str) {
        let text = self.metrics.text().unwrap();
        assert!(
            text.lines().any(|it| it == line),
            "{line} is not in\n{text}"
        );
    }
}

fn none() -> BackendError {
    BackendError::unavailable("the session is in use")
}

/// Returns whole numbers, so that means over a power of two of them are exact.
fn pixels() -> Vec<f32> {
    (0..ROWS * 3 * 32 * 32)
        .map(|index| (index * 7 % 253) as f32)
        .collect()
}

/// Returns the model's output for a row: the mean of each channel, then the means of its 4 × 4 cells.
fn embedding(row: &[f32]) -> Vec<f32> {
    let channels = || row.chunks_exact(32 * 32);
    let mean = |values: &mut dyn Iterator<Item = f32>| {
        let values: Vec<f64> = values.map(f64::from).collect();
        (values.iter().sum::<f64>() / values.len() as f64) as f32
    };
    let means = channels().map(|channel| mean(&mut channel.iter().copied()));
    let cells = channels().flat_map(|channel| {
        (0..16).map(move |cell| {
            let (top, left) = (cell / 4 * 8, cell % 4 * 8);
            mean(&mut (0..64).map(|at| channel[(top + at / 8) * 32 + left + at % 8]))
        })
    });
    means.chain(cells).collect()
}

fn assert_right(outputs: &[Tensor]) {
    let [output] = outputs else {
        panic!("{} outputs", outputs.len());
    };
    assert_eq!(output.name, "embedding");
    assert_eq!(output.shape, [ROWS, 51]);
    let right: Vec<f32> = pixels()
        .chunks_exact(3 * 32 * 32)
        .flat_map(embedding)
        .collect();
    assert_eq!(output.data, right);
}

#[tokio::test]
async fn the_client_sends_the_recorded_requests_byte_for_byte() {
    let mut rig = rig("", |_| Reply::Bytes(recorded("infer.response"))).await;
    assert_right(&rig.run().await.unwrap());
    let requests = rig.server.requests();
    assert_eq!(requests.len(), EXCHANGE.len());
    for (request, (_, name)) in requests.iter().zip(EXCHANGE) {
        let right = without_host(&recorded(&format!("{name}.request")));
        assert!(
            without_host(request) == right,
            "{name}: {} and not {}",
            String::from_utf8_lossy(request),
            String::from_utf8_lossy(&right)
        );
    }
    rig.assert_counted(r#"facescan_remote_runs_total{model="encoder",outcome="ok"} 1"#);
}

/// Needs a server, such as `FACESCAN_TEST_TRITON=http://127.0.0.1:8000`; `scripts/triton run` starts one. If
/// `FACESCAN_RECORD` is set, the test replaces the recorded messages.
#[tokio::test]
#[ignore = "needs a Triton server; `make test-triton` starts one"]
async fn triton_exchanges_the_recorded_messages() {
    let url = std::env::var("FACESCAN_TEST_TRITON").expect("FACESCAN_TEST_TRITON names no server");
    let address = url
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .to_owned();
    let (sender, exchanged) = mpsc::channel();
    let mut rig = rig_of("", move |request, _| {
        let answer = forward(&address, request);
        sender.send((request.to_vec(), answer.clone())).unwrap();
        Reply::Bytes(answer)
    })
    .await;
    assert_right(&rig.run().await.unwrap());
    let exchanged: Vec<_> = exchanged.try_iter().collect();
    assert_eq!(exchanged.len(), EXCHANGE.len());
    for ((request, answer), (line, name)) in exchanged.into_iter().zip(EXCHANGE) {
        assert_eq!(first_line(&request), line);
        for (message, kind) in [(request, "request"), (answer, "response")] {
            let name = format!("{name}.{kind}");
            if std::env::var_os("FACESCAN_RECORD").is_some() {
                std::fs::write(fixture(&name), message).unwrap();
            } else {
                let right = without_host(&recorded(&name));
                assert!(
                    without_host(&message) == right,
                    "{name} differs from the recording"
                );
            }
        }
    }
}

#[tokio::test]
async fn the_token_is_sent_with_every_request_and_appears_in_no_error() {
    let mut rig = rig("token_env: MODELS_TOKEN", |_| {
        Reply::json("403 Forbidden", "", "")
    })
    .await;
    let told = rig.run().await.unwrap_err();
    assert!(!told.contains("hunter2"), "{told}");
    let requests = rig.server.requests();
    assert_eq!(requests.len(), 4);
    for request in requests {
        let text = String::from_utf8_lossy(&request).into_owned();
        assert!(
            text.contains("\r\nauthorization: Bearer hunter2\r\n"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn the_version_is_part_of_the_request_paths() {
    let rig = rig_of("version: '1'", |request, _| {
        let line = first_line(request).replace("/versions/1", "");
        Reply::Bytes(recorded_answer(format!("{line}\r\n").as_bytes()))
    })
    .await;
    rig.session.unwrap();
    let requests = rig.server.requests();
    let lines: Vec<&str> = requests.iter().map(|request| first_line(request)).collect();
    assert_eq!(
        lines,
        [
            "GET /v2/health/ready HTTP/1.1",
            "GET /v2/models/encoder/versions/1/ready HTTP/1.1",
            "GET /v2/models/encoder/versions/1 HTTP/1.1",
        ]
    );
}
