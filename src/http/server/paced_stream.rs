//! A connection that ends when its client reads too slowly.
//!
//! What the client does not read fills the buffer of the system, and then the server waits.

use std::{
    io,
    pin::Pin,
    sync::atomic::Ordering,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep_until},
};

use super::{
    head_timer::Arrived,
    pace::{Pace, ReadingLimit},
};

/// A TCP connection that fails a write with [`io::ErrorKind::TimedOut`] when its client is below the limit.
pub(super) struct PacedStream {
    stream: TcpStream,
    pace: Pace,
    due: Option<Pin<Box<Sleep>>>,
    arrived: Arrived,
}

impl PacedStream {
    /// `arrived` counts what the client sends.
    pub fn new(stream: TcpStream, limit: ReadingLimit, arrived: Arrived) -> Self {
        Self {
            stream,
            pace: Pace::new(limit),
            due: None,
            arrived,
        }
    }

    /// Counts what a write has written, or the wait for it.
    fn written(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let now = Instant::now();
        if let Poll::Ready(written) = written {
            self.pace
                .read(now, written.as_ref().map_or(0, |bytes| *bytes));
            return Poll::Ready(written);
        }
        self.pace.wait(now);
        let Some(at) = self.pace.due() else {
            return Poll::Pending;
        };
        let due = self.due.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if due.deadline() != at {
            due.as_mut().reset(at);
        }
        ready!(due.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for PacedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let bytes = buffer.filled().len() - before;
        self.arrived.fetch_add(bytes as u64, Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for PacedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
