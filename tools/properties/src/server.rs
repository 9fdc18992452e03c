//! A server without models and without stored results, for the code that reads requests.

use std::{
    convert::Infallible,
    fs,
    path::Path,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use axum::{body::Body, extract::Request, http::header::CONTENT_TYPE};
use bytes::Bytes;
use facescan::{
    app::Parts,
    http::{AppState, error::ApiError},
};
use facescan_config::{Config, Sources};
use facescan_inference::{
    backend::{Backend, BackendError, Opening, Session, fake::FakeBackend},
    graphs::session::GraphSession,
    placement::DevicePlacement,
    tensor::{Port, Signature},
};
use facescan_pipeline::context::{Principal, RequestContext, RequestId};
use futures::stream;
use tokio::runtime::{Builder, Runtime};

/// A detector and an embedder. Their files are empty.
const REGISTRY: &str = "
models:
  - id: faces
    role: detector
    family: centerface
    file: faces.onnx
    sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    license: none
    commercial_use: true
    source: none
    input: { width: 640, height: 640, size_multiple: 32, channel_order: rgb, mean: [0, 0, 0], scale: [1, 1, 1] }
  - id: vectors
    role: embedder
    family: sface
    file: vectors.onnx
    sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    license: none
    commercial_use: true
    source: none
    dim: 4
    input: { width: 112, height: 112, channel_order: rgb, mean: [0, 0, 0], scale: [1, 1, 1] }
";

/// The longest text of an error in a response, in bytes.
const MAX_TEXT: usize = 1200;

struct Server {
    runtime: Runtime,
    state: AppState,
}

/// Only one request at a time, so that the budgets never refuse one.
static SERVER: LazyLock<Mutex<Server>> = LazyLock::new(|| Mutex::new(Server::start()));

impl Server {
    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let folder = tempfile::tempdir().expect("a folder");
        let config = configured(folder.path());
        let app = Parts::new(Arc::new(Models)).start(config);
        let app = runtime.block_on(app).expect("the server starts");
        let migrated = runtime.block_on(app.store.migrate());
        migrated.expect("the tables are created");
        Self {
            runtime,
            state: Arc::new(app),
        }
    }
}

/// Opens the models of [`REGISTRY`]. No request runs them.
struct Models;

impl Models {
    fn named(path: &Path) -> FakeBackend {
        let port = |dims: &[Option<usize>]| Port {
            name: "port".to_owned(),
            dims: dims.to_owned(),
            is_f32: true,
        };
        let map = |channels| port(&[None, Some(channels), None, None]);
        let outputs = match path.ends_with("vectors.onnx") {
            true => vec![port(&[None, Some(4)])],
            false => [1, 2, 2, 10].map(map).into(),
        };
        let signature = Signature {
            inputs: vec![map(3)],
            outputs,
        };
        FakeBackend::new(signature, |_| Ok(Vec::new()))
    }
}

impl Backend for Models {
    fn name(&self) -> &str {
        "none"
    }

    fn check_available(&self, _placement: DevicePlacement) -> Result<(), BackendError> {
        Ok(())
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Vec<Box<dyn Session>>, BackendError> {
        Self::named(&opening.model.path()).open(opening)
    }

    fn open_graph(&self, opening: &Opening<'_>) -> Result<Box<dyn GraphSession>, BackendError> {
        Self::named(&opening.model.path()).open_graph(opening)
    }
}

/// Writes the files of a server, and returns its settings.
fn configured(folder: &Path) -> Config {
    let registry = folder.join("models.yaml");
    fs::write(&registry, REGISTRY)
        .and_then(|()| fs::write(folder.join("faces.onnx"), []))
        .and_then(|()| fs::write(folder.join("vectors.onnx"), []))
        .expect("the folder can be written");
    let folder = folder.display().to_string();
    let registry = registry.display().to_string();
    let environment = [
        ("DATA_DIR", folder.as_str()),
        ("MODELS__DIR", &folder),
        ("MODELS__REGISTRY", &registry),
        ("MODELS__DETECTOR", "faces"),
        ("MODELS__EMBEDDER", "vectors"),
        ("DATABASE__URL", "sqlite::memory:"),
        ("CPU__PROVIDER", "default"),
        ("IMAGING__WORKERS", "1"),
        ("URLS__ENABLED", "true"),
    ];
    let environment =
        environment.map(|(name, value)| (format!("FACESCAN__{name}"), value.to_owned()));
    let sources = Sources {
        environment: environment.into(),
        ..Sources::default()
    };
    Config::load(&sources).expect("the settings are valid").0
}

/// Runs `work` with the state of the server.
pub fn with_server<T>(work: impl AsyncFnOnce(&AppState) -> T) -> T {
    let server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    server.runtime.block_on(work(&server.state))
}

/// Returns a request with the context that the middleware gives it.
pub fn request(content_type: &str, body: Body) -> Request {
    let id = RequestId::from_caller("a property");
    let context = RequestContext::new(id, Principal::of_tenant("default"));
    Request::post("/")
        .header(CONTENT_TYPE, content_type)
        .extension(context)
        .body(body)
        .expect("a request")
}

/// Returns a body that arrives at once.
pub fn whole(body: &[u8]) -> Body {
    Body::from(Bytes::copy_from_slice(body))
}

/// Returns a body that arrives in pieces. Their length depends on the body, so that a fuzzer varies it.
pub fn in_pieces(body: &[u8]) -> Body {
    let pieces: Vec<Result<Bytes, Infallible>> = body
        .chunks(1 + body.len() % 61)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    Body::from_stream(stream::iter(pieces))
}

/// Checks that an error blames the request, in a few words. Returns its code.
pub fn refused(error: &ApiError) -> &'static str {
    let kind = error.kind();
    let text = error.public_detail();
    assert!(
        (400..500).contains(&kind.status),
        "{}: {error:?}",
        kind.status
    );
    assert!(text.len() <= MAX_TEXT, "{} bytes: {text}", text.len());
    kind.code
}
