//! Records the log in tests. Device threads and the pool's threads write to it too, so it is global.

use std::{
    io,
    sync::{Mutex, Once, PoisonError},
};

/// The log of all tests that run in this process.
#[derive(Clone, Copy)]
pub struct LogRecorder;

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

impl LogRecorder {
    /// Records from now on, together with every other test that calls this.
    pub fn install() -> Self {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            let subscriber = tracing_subscriber::fmt()
                .with_ansi(false)
                .with_writer(|| Self);
            tracing::subscriber::set_global_default(subscriber.finish())
                .expect("no test sets another subscriber");
        });
        Self
    }

    /// Returns the lines that contain `text`, such as the value of a span's field.
    pub fn lines_with(&self, text: &str) -> Vec<String> {
        let bytes = LOG.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes)
            .lines()
            .filter(|line| line.contains(text))
            .map(str::to_owned)
            .collect()
    }
}

impl io::Write for LogRecorder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
