//! The images of batches, in an object store: a folder, S3, Google Cloud Storage or Azure.
//!
//! An object has the key `{tenant}/{batch}/{kind}/{sha256}`, so equal images of a batch are stored once, and the objects of
//! a batch are deleted by their prefix. Two batches never share an object: otherwise a batch that is submitted while another
//! one is deleted could lose an image.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::Context;
use bytes::Bytes;
use facescan_config::{Config, shown};
use facescan_outbound::tls;
use facescan_pipeline::core::image_file::{ContentHash, hex};
use futures::{StreamExt, TryStreamExt};
use object_store::{
    ClientOptions, Error as ObjectError, ObjectStore, ObjectStoreExt, RetryConfig,
    aws::AmazonS3Builder,
    azure::MicrosoftAzureBuilder,
    client::{HttpClient, HttpConnector},
    gcp::GoogleCloudStorageBuilder,
    local::LocalFileSystem,
    path::Path,
    prefix::PrefixStore,
};
use thiserror::Error;
use url::Url;
use uuid::Uuid;

use crate::permissions;

/// The time limit of one request to an object store.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The time in which a request to an object store is repeated. A submission then fails, and a worker waits.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// The objects of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Images that were submitted.
    Input,
    /// Images that an operation made.
    Output,
}

impl ObjectKind {
    fn folder(self) -> &'static str {
        match self {
            Self::Input => "in",
            Self::Output => "out",
        }
    }
}

/// The batch that an object belongs to.
#[derive(Clone, Copy, Debug)]
pub struct ObjectOwner<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// The batch.
    pub batch: Uuid,
}

impl ObjectOwner<'_> {
    fn prefix(&self) -> Path {
        Path::from_iter([self.tenant, &self.batch.to_string()])
    }

    fn key(&self, kind: ObjectKind, hash: &ContentHash) -> Path {
        self.prefix().join(kind.folder()).join(hex(hash))
    }
}

/// Why an object cannot be written or read.
#[derive(Debug, Error)]
pub enum PayloadError {
    /// The object does not exist.
    #[error("the image is no longer there")]
    Missing,
    /// The object store does not answer, has no space, or refuses.
    #[error("the store of images cannot be used: {0}")]
    Unavailable(#[source] ObjectError),
}

impl From<ObjectError> for PayloadError {
    fn from(error: ObjectError) -> Self {
        match error {
            ObjectError::NotFound { .. } => Self::Missing,
            other => Self::Unavailable(other),
        }
    }
}

/// The images of batches. Cheap to clone.
#[derive(Clone)]
pub struct Payloads {
    store: Arc<OnceLock<Arc<dyn ObjectStore>>>,
    /// The folder that is created at the first use. `None` if the store is open already.
    folder: Option<PathBuf>,
}

impl fmt::Debug for Payloads {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.store.get(), &self.folder) {
            (Some(store), _) => write!(formatter, "Payloads({store})"),
            (None, folder) => write!(formatter, "Payloads({folder:?})"),
        }
    }
}

impl Payloads {
    /// Opens the object store that the settings name. It connects to nothing and creates no folder yet.
    ///
    /// # Errors
    /// Returns an error if the URL or the credentials cannot be used.
    pub fn open(config: &Config) -> anyhow::Result<Self> {
        match &config.batches.payloads {
            None => Ok(Self::in_folder(config.data_dir.join("payloads"))),
            Some(url) => Self::at(url),
        }
    }

    /// Uses a store that is already open.
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self {
            store: Arc::new(OnceLock::from(store)),
            folder: None,
        }
    }

    fn in_folder(folder: PathBuf) -> Self {
        Self {
            store: Arc::default(),
            folder: Some(folder),
        }
    }

    /// Returns the store. Creates the folder at the first call, because most commands need none.
    fn store(&self) -> Result<&Arc<dyn ObjectStore>, PayloadError> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let folder = self.folder.clone().unwrap_or_default();
        permissions::create_private_folder(&folder).map_err(|source| {
            PayloadError::Unavailable(ObjectError::Generic {
                store: "folder",
                source: source.into(),
            })
        })?;
        let store = LocalFileSystem::new_with_prefix(folder).map_err(PayloadError::Unavailable)?;
        // Otherwise the folders of deleted batches would stay.
        let store: Arc<dyn ObjectStore> = Arc::new(store.with_automatic_cleanup(true));
        Ok(self.store.get_or_init(|| store))
    }

    fn at(url: &Url) -> anyhow::Result<Self> {
        let opening = || format!("opening batches.payloads, {}", shown(url));
        if url.scheme() == "file" {
            let folder = url.to_file_path().ok().with_context(opening)?;
            return Ok(Self::in_folder(folder));
        }
        Ok(Self::new(open_bucket(url).with_context(opening)?))
    }

    /// Writes an object. It replaces an equal one.
    ///
    /// # Errors
    /// Returns [`PayloadError::Unavailable`] if the object cannot be written.
    pub async fn put(
        &self,
        owner: ObjectOwner<'_>,
        kind: ObjectKind,
        hash: &ContentHash,
        bytes: Bytes,
    ) -> Result<(), PayloadError> {
        self.store()?
            .put(&owner.key(kind, hash), bytes.into())
            .await?;
        Ok(())
    }

    /// Reads an object.
    ///
    /// # Errors
    /// Returns [`PayloadError::Missing`] if it does not exist, and [`PayloadError::Unavailable`] if it cannot be read.
    pub async fn get(
        &self,
        owner: ObjectOwner<'_>,
        kind: ObjectKind,
        hash: &ContentHash,
    ) -> Result<Bytes, PayloadError> {
        let found = self.store()?.get(&owner.key(kind, hash)).await?;
        Ok(found.bytes().await?)
    }

    /// Deletes images of a batch. Images that do not exist are skipped.
    ///
    /// # Errors
    /// Returns [`PayloadError::Unavailable`] if an image cannot be deleted.
    pub async fn delete(
        &self,
        owner: ObjectOwner<'_>,
        kind: ObjectKind,
        hashes: &[ContentHash],
    ) -> Result<(), PayloadError> {
        if hashes.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = hashes
            .iter()
            .map(|hash| Ok(owner.key(kind, hash)))
            .collect();
        self.delete_keys(futures::stream::iter(keys).boxed()).await
    }

    /// Deletes all objects of a batch.
    ///
    /// # Errors
    /// Returns [`PayloadError::Unavailable`] if an object cannot be listed or deleted.
    pub async fn delete_all(&self, owner: ObjectOwner<'_>) -> Result<(), PayloadError> {
        let listed = self.store()?.list(Some(&owner.prefix()));
        let keys = listed.map_ok(|object| object.location).boxed();
        self.delete_keys(keys).await
    }

    async fn delete_keys(
        &self,
        keys: futures::stream::BoxStream<'static, Result<Path, ObjectError>>,
    ) -> Result<(), PayloadError> {
        let mut deleted = self.store()?.delete_stream(keys);
        while let Some(result) = deleted.next().await {
            match result.map_err(PayloadError::from) {
                Ok(_) | Err(PayloadError::Missing) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Opens a bucket of S3 (`s3`), Google (`gs`) or Azure (`az`), or a folder in it. It connects to nothing yet.
///
/// # Errors
/// Returns an error if the URL or the credentials of the environment cannot be used.
pub fn open_bucket(url: &Url) -> anyhow::Result<Arc<dyn ObjectStore>> {
    let retry = RetryConfig {
        retry_timeout: RETRY_TIMEOUT,
        ..RetryConfig::default()
    };
    let connector = Connector;
    let text = url.as_str();
    let store: Arc<dyn ObjectStore> = match url.scheme() {
        "s3" => {
            let builder = AmazonS3Builder::from_env().with_url(text);
            let builder = builder.with_retry(retry).with_http_connector(connector);
            Arc::new(builder.build()?)
        }
        "gs" => {
            let builder = GoogleCloudStorageBuilder::from_env().with_url(text);
            let builder = builder.with_retry(retry).with_http_connector(connector);
            Arc::new(builder.build()?)
        }
        _ => {
            let builder = MicrosoftAzureBuilder::from_env().with_url(text);
            let builder = builder.with_retry(retry).with_http_connector(connector);
            Arc::new(builder.build()?)
        }
    };
    let prefix = Path::parse(url.path())?;
    Ok(match prefix.as_ref() {
        "" => store,
        _ => Arc::new(PrefixStore::new(store, prefix)),
    })
}

/// Makes the HTTP clients of object stores. They use the TLS of all other requests.
#[derive(Debug)]
struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| ObjectError::Generic {
            store: "HTTP client",
            source,
        };
        let tls = tls::client_config().map_err(|error| failed(error.into()))?;
        let client = facescan_outbound::client(tls)
            .timeout(REQUEST_TIMEOUT)
            .build()
            .map_err(|error| failed(error.into()))?;
        Ok(HttpClient::new(client))
    }
}
