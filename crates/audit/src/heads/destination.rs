//! Where heads of chains go: a file, an object store, or an HTTP server.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use bytes::Bytes;
use facescan_store::StoreError;
use object_store::{ObjectStore, ObjectStoreExt, path::Path};
use reqwest::{Client, header::CONTENT_TYPE};
use thiserror::Error;
use url::Url;
use uuid::Uuid;

/// Where heads go.
#[derive(Clone, Debug)]
pub enum HeadDestination {
    /// A file that grows.
    File(PathBuf),
    /// An object for each delivery, `<time and random>.jsonl`.
    Objects(Arc<dyn ObjectStore>),
    /// A request for each delivery.
    Http {
        /// Sends it.
        client: Client,
        /// The address.
        url: Url,
    },
}

/// The heads cannot be read, or the destination does not take them.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what the errors are")]
pub enum DeliveryError {
    /// The chains cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the file of audit.heads cannot be written")]
    File(#[from] io::Error),
    #[error("the object store of audit.heads cannot be used")]
    Objects(#[from] object_store::Error),
    /// The server cannot be reached. The source has no address, which can have a secret.
    #[error("the server of audit.heads cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    #[error("the server of audit.heads answered with the status {0}")]
    Status(u16),
}

impl HeadDestination {
    /// Delivers lines. `name` sorts by time.
    ///
    /// # Errors
    /// [`DeliveryError`] if they may not have arrived.
    pub async fn deliver(&self, name: Uuid, lines: Bytes) -> Result<(), DeliveryError> {
        match self {
            Self::File(path) => {
                let path = path.clone();
                let written = tokio::task::spawn_blocking(move || append(path, &lines));
                Ok(written.await.map_err(io::Error::other)??)
            }
            Self::Objects(store) => {
                let path = Path::from(format!("{name}.jsonl"));
                store.put(&path, lines.into()).await?;
                Ok(())
            }
            Self::Http { client, url } => {
                let request = client
                    .post(url.clone())
                    .header(CONTENT_TYPE, "application/x-ndjson")
                    .body(lines);
                let response = request.send().await;
                let response =
                    response.map_err(|error| DeliveryError::Unreachable(error.without_url()))?;
                match response.status() {
                    status if status.is_success() => Ok(()),
                    status => Err(DeliveryError::Status(status.as_u16())),
                }
            }
        }
    }
}

/// Appends lines with one write, so that those of several processes do not mix.
fn append(path: PathBuf, lines: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(lines)?;
    file.sync_data()
}
