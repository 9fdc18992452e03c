//! TLS of a listener. The certificate is read again when its files change.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use facescan_telemetry::causes::with_causes;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// The time between two looks at the files. Comparing times also notices links that point to other files, as in Kubernetes.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The protocols of a connection, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The files of a certificate, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the server, and then those that lead to a root.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// Why the certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or has no PEM of that kind.
    #[error("cannot read {}; it must be a file in PEM", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The key does not belong to the certificate, or its kind is not supported.
    #[error("the certificate and the key cannot be used together")]
    Pair(#[source] rustls::Error),
}

/// Accepts TLS connections.
pub struct Tls {
    acceptor: TlsAcceptor,
    certificate: Arc<Certificate>,
    /// When the files that were read had changed.
    read: [Option<SystemTime>; 2],
}

/// The certificate in use.
#[derive(Debug)]
struct Certificate {
    files: TlsFiles,
    current: RwLock<Arc<CertifiedKey>>,
}

impl Tls {
    /// Reads a certificate.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, or if the two do not belong together.
    pub fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let changed_before = changed_at(&files);
        let certificate = Arc::new(Certificate {
            current: RwLock::new(read(&files)?),
            files,
        });
        let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(&certificate) as _;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Pair)?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            certificate,
            read: changed_before,
        })
    }

    /// Does the handshake of a connection, and waits for its first bytes. The timers of hyper start only after them.
    ///
    /// # Errors
    /// Returns an error of the connection or of the handshake.
    pub async fn accept<S>(&self, stream: S) -> io::Result<BufReader<TlsStream<S>>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut stream = BufReader::new(self.acceptor.accept(stream).await?);
        stream.fill_buf().await?;
        Ok(stream)
    }

    /// Reads the certificate again when a file changes. Never returns. Until both files fit again, the old certificate stays.
    pub async fn reload(&self) {
        let files = &self.certificate.files;
        let mut known = self.read;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = changed_at(files);
            if now != known && self.certificate.read_again() {
                known = now;
            }
        }
    }
}

impl Certificate {
    /// Returns whether the files can be used.
    fn read_again(&self) -> bool {
        match read(&self.files) {
            Ok(certificate) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = certificate;
                tracing::info!(path = %self.files.certificate.display(), "the certificate was read again");
                true
            }
            Err(error) => {
                let error = with_causes(&error);
                tracing::error!(
                    error,
                    "the certificate has changed and cannot be used; the old one stays"
                );
                false
            }
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&current))
    }
}

/// Returns when the files were changed. `None` stands for a file that is missing.
fn changed_at(files: &TlsFiles) -> [Option<SystemTime>; 2] {
    [&files.certificate, &files.key].map(|path| fs::metadata(path).ok()?.modified().ok())
}

fn read(files: &TlsFiles) -> Result<Arc<CertifiedKey>, TlsError> {
    let of = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::File { path, source }
    };
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(of(&files.certificate))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(of(&files.key))?;
    let pair = CertifiedKey::from_der(chain, key, &ring::default_provider());
    pair.map(Arc::new).map_err(TlsError::Pair)
}

#[cfg(test)]
mod tests {
    use rcgen::generate_simple_self_signed;

    use super::*;

    /// Writes a new certificate and returns its DER.
    fn write(files: &TlsFiles) -> Vec<u8> {
        let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(&files.certificate, made.cert.pem()).unwrap();
        fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        made.cert.der().to_vec()
    }

    fn served(tls: &Tls) -> Vec<u8> {
        let current = tls.certificate.current.read().unwrap();
        current.cert[0].to_vec()
    }

    #[test]
    fn a_certificate_is_replaced_only_by_one_that_can_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let files = TlsFiles {
            certificate: folder.path().join("tls.crt"),
            key: folder.path().join("tls.key"),
        };
        assert!(matches!(
            Tls::open(files.clone()),
            Err(TlsError::File { .. })
        ));
        let first = write(&files);
        let tls = Tls::open(files.clone()).unwrap();
        assert_eq!(served(&tls), first);

        let key = fs::read(&files.key).unwrap();
        write(&files);
        fs::write(&files.key, key).unwrap();
        assert!(!tls.certificate.read_again());
        assert_eq!(
            served(&tls),
            first,
            "the key belongs to another certificate"
        );

        let second = write(&files);
        assert!(tls.certificate.read_again());
        assert_eq!(served(&tls), second);
    }
}
