//! Which version of HTTP a connection speaks.
//!
//! hyper can find this out by itself, but waits without a limit for a client that sends only the beginning of what an HTTP/2
//! connection begins with.

use std::{io, time::Duration};

use axum::http::Version;
use tokio::{net::TcpStream, time::sleep};

/// What an HTTP/2 connection begins with (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The pause before the server looks for the rest of these bytes.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns the version that the first bytes of a connection decide, and leaves the bytes there.
///
/// # Errors
/// Returns an error if the client closes the connection before.
pub(super) async fn from_first_bytes(stream: &TcpStream) -> io::Result<Version> {
    let mut first = [0; PREFACE.len()];
    loop {
        match stream.peek(&mut first).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count if first[..count] != PREFACE[..count] => return Ok(Version::HTTP_11),
            count if count == PREFACE.len() => return Ok(Version::HTTP_2),
            _ => sleep(PAUSE).await,
        }
    }
}

/// Returns the version that client and server agreed on in the TLS handshake.
pub(super) fn from_protocol(protocol: Option<&[u8]>) -> Version {
    match protocol {
        Some(b"h2") => Version::HTTP_2,
        _ => Version::HTTP_11,
    }
}
