//! The real application in the test process, with real models and its own SQLite file. Tests call the router directly.

use std::{
    collections::BTreeMap,
    fmt::Display,
    io::Cursor,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode},
    response::Response,
};
use bytes::Bytes;
use facescan::{
    app::{App, Parts},
    http,
};
use facescan_config::{Config, Sources};
use facescan_inference::{
    backend::{Backend, combined::CombinedBackend, openvino::OpenvinoBackend, ort::OrtBackend},
    prepare::prepare,
    registry::Registry,
};
use facescan_pipeline::ingest::fetch::Fetcher;
use http_body_util::BodyExt;
use image::{DynamicImage, ImageFormat};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tower::ServiceExt;

use super::database::Database;

/// Returns the folder of the runtime, the models and the images that `scripts/setup` fetched.
pub fn runtime_dir() -> PathBuf {
    match std::env::var_os("FACESCAN_RUNTIME") {
        Some(path) => path.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".runtime"),
    }
}

/// Returns the library of ONNX Runtime.
pub fn runtime_library() -> PathBuf {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    let name = format!("{DLL_PREFIX}onnxruntime{DLL_SUFFIX}");
    runtime_dir().join("onnxruntime").join(name)
}

/// Returns the folder of the models, and prepares those that are missing.
pub fn models_dir() -> &'static Path {
    static MODELS: OnceLock<PathBuf> = OnceLock::new();
    MODELS.get_or_init(|| {
        let (models, shipped) = (runtime_dir().join("models"), runtime_dir().join("shipped"));
        for spec in Registry::embedded().unwrap().iter() {
            prepare(spec, &shipped, &models)
                .unwrap_or_else(|error| panic!("{error}; run `make test`"));
        }
        models
    })
}

/// Reads an image that `scripts/setup --tests` fetched.
pub fn image_file(name: &str) -> Bytes {
    let path = runtime_dir().join("pictures").join(name);
    let bytes = std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run `make test`", path.display()));
    bytes.into()
}

/// Returns the file of an image.
pub fn encoded(image: &DynamicImage, format: ImageFormat) -> Bytes {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner().into()
}

/// Returns a folder of the accuracy and robustness data. Tests that need it are ignored, and run by name or if `make test` finds
/// the variable.
pub fn testdata(folder: &str) -> PathBuf {
    let root = std::env::var_os("FACESCAN_TESTDATA").expect("FACESCAN_TESTDATA names no folder");
    PathBuf::from(root).join(folder)
}

/// Returns every file below a folder, sorted by name. Panics if there is none.
pub fn files(folder: &std::path::Path) -> Vec<PathBuf> {
    let files: Vec<PathBuf> = walkdir::WalkDir::new(folder)
        .sort_by_file_name()
        .into_iter()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().is_file())
        .map(walkdir::DirEntry::into_path)
        .collect();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

/// Returns the backend, which is loaded once for the whole test binary.
fn backend() -> Arc<dyn Backend> {
    static BACKEND: OnceLock<Arc<CombinedBackend>> = OnceLock::new();
    let backend = BACKEND.get_or_init(|| {
        let plugins = runtime_dir().join("plugins");
        let onnx = OrtBackend::load(&runtime_library(), &plugins).unwrap();
        let openvino = OpenvinoBackend::new(&plugins.join("openvino"));
        Arc::new(CombinedBackend::new(Box::new(onnx), Box::new(openvino)))
    });
    Arc::clone(backend) as Arc<dyn Backend>
}

/// Returns the environment of a test: its data folder, the models, and `settings`.
fn settings_for(data: &Path, settings: &[(&str, &str)]) -> BTreeMap<String, String> {
    let data_dir = data.display().to_string();
    let models_dir = models_dir().display().to_string();
    [
        ("FACESCAN__DATA_DIR", data_dir.as_str()),
        ("FACESCAN__MODELS__DIR", models_dir.as_str()),
        // The reference values need 32-bit arithmetic, also on machines that are faster in bf16.
        ("FACESCAN__CPU__PROVIDER", "default"),
    ]
    .iter()
    .chain(settings)
    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
    .collect()
}

/// An application and its router.
pub struct TestApp {
    pub app: Arc<App>,
    router: Router,
    data: TempDir,
}

impl TestApp {
    /// Starts an application with the default settings.
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// Starts an application with settings from environment variables.
    pub async fn with(settings: &[(&str, &str)]) -> Self {
        let (data, config) = Self::configured(settings);
        Self::over(data, Self::try_start(config).await.unwrap()).await
    }

    /// Starts an application on a database.
    pub async fn with_database(database: &Database, settings: &[(&str, &str)]) -> Self {
        let url = database.url();
        Self::with(&[&[("DATABASE_URL", url.as_str())][..], settings].concat()).await
    }

    /// Starts an application that fetches URLs through `fetcher`.
    pub async fn fetching(settings: &[(&str, &str)], fetcher: Arc<dyn Fetcher>) -> Self {
        let (data, config) = Self::configured(settings);
        let parts = Parts {
            fetcher: Some(fetcher),
            ..Parts::new(backend())
        };
        Self::over(data, parts.start(config).await.unwrap()).await
    }

    /// Starts an application that encodes large images in processes of the built binary.
    pub async fn encoding_apart() -> Self {
        let (data, config) = Self::configured(&[]);
        let parts = Parts {
            encoder: Some(env!("CARGO_BIN_EXE_facescan").into()),
            ..Parts::new(backend())
        };
        Self::over(data, parts.start(config).await.unwrap()).await
    }

    /// Starts an application on another backend, made from the usual one.
    pub async fn on(
        settings: &[(&str, &str)],
        wrap: impl FnOnce(Arc<dyn Backend>) -> Arc<dyn Backend>,
    ) -> Self {
        let (data, config) = Self::configured(settings);
        let app = Parts::new(wrap(backend())).start(config).await.unwrap();
        Self::over(data, app).await
    }

    pub fn configured(settings: &[(&str, &str)]) -> (TempDir, Config) {
        let data = tempfile::tempdir().unwrap();
        let sources = Sources {
            environment: settings_for(data.path(), settings),
            ..Sources::default()
        };
        let (config, _) = Config::load(&sources).unwrap();
        (data, config)
    }

    async fn over(data: TempDir, app: App) -> Self {
        let app = Arc::new(app);
        app.prepare_store().await.unwrap();
        Self {
            router: http::router(Arc::clone(&app)),
            app,
            data,
        }
    }

    /// Starts an application whose database is not prepared.
    pub async fn unprepared(config: Config) -> Self {
        let app = Arc::new(Self::try_start(config).await.unwrap());
        Self {
            router: http::router(Arc::clone(&app)),
            app,
            data: tempfile::tempdir().unwrap(),
        }
    }

    /// Starts an application without a router, or returns why it does not start.
    pub async fn try_start(config: Config) -> anyhow::Result<App> {
        Parts::new(backend()).start(config).await
    }

    /// Returns why an application does not start.
    pub async fn refusal(settings: &[(&str, &str)]) -> String {
        let (_data, config) = Self::configured(settings);
        match Self::try_start(config).await {
            Ok(_) => panic!("the application starts with {settings:?}"),
            Err(error) => format!("{error:#}"),
        }
    }

    /// Serves the application at a loopback address.
    pub async fn serve(&self) -> SocketAddr {
        let (listener, address) = listen().await;
        let app = Arc::clone(&self.app);
        tokio::spawn(http::serve(listener, None, app, std::future::pending()));
        address
    }

    /// Returns the SQLite database of an application with the default settings.
    pub fn database(&self) -> Database {
        let file = self.data_dir().join("facescan.sqlite");
        let url = format!("sqlite://{}", file.display());
        Database::Sqlite { url }
    }

    /// Returns the folder with the files of the application.
    pub fn data_dir(&self) -> &Path {
        self.data.path()
    }

    /// Sends a request. The caller reads the body.
    pub async fn open(&self, request: Request<Body>) -> Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.open(request).await;
        let (parts, body) = response.into_parts();
        Reply {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    /// Posts one image as a raw body.
    pub async fn post(&self, uri: &str, image: Bytes) -> Reply {
        self.post_as(uri, "application/octet-stream", image).await
    }

    /// Posts a body of any type.
    pub async fn post_as(&self, uri: &str, media_type: &str, body: impl Into<Body>) -> Reply {
        self.call("POST", uri, &[("content-type", media_type)], body)
            .await
    }

    pub async fn get(&self, uri: &str) -> Reply {
        self.call("GET", uri, &[], "").await
    }

    pub async fn delete(&self, uri: &str) -> Reply {
        self.call("DELETE", uri, &[], "").await
    }

    /// Sends a request with headers.
    pub async fn call(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Reply {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(body.into()).unwrap()).await
    }

    /// Checks that the metrics have these texts.
    #[track_caller]
    pub fn assert_metrics(&self, texts: &[&str]) {
        let metrics = self.app.metrics.text().unwrap();
        for text in texts {
            assert!(metrics.contains(text), "{text} in {metrics}");
        }
    }
}

/// Posts a photo as a raw body, and returns its result. The status must be 200.
pub async fn result_of(app: &TestApp, uri: &str, photo: &str) -> Value {
    app.post(uri, image_file(photo)).await.result()
}

/// Listens on a free loopback port.
pub async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Serves routes at a loopback address.
pub async fn serve(routes: Router) -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

/// A response with its whole body.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// Returns the result of the first image. The status must be 200.
    pub fn result(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{:?}", self.body);
        self.json()["results"][0].clone()
    }

    /// Checks the status and the code of an error.
    #[track_caller]
    pub fn assert_error(&self, status: u16, code: &str) {
        self.assert_error_of("the request", status, code);
    }

    /// Checks the status and the code of the error of one of several requests.
    #[track_caller]
    pub fn assert_error_of(&self, what: impl Display, status: u16, code: &str) {
        let found = (self.status.as_u16(), self.code());
        assert_eq!(found, (status, code.to_owned()), "{what}: {:?}", self.body);
    }

    /// Returns the code of an error.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// Returns a JSON list of numbers as floats.
pub fn numbers(value: &Value) -> Vec<f32> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap() as f32)
        .collect()
}
