//! Records the log in tests. Device threads and the pool's threads write to it too, so it is global.

use std::{
    io,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use tracing_subscriber::fmt::MakeWriter;

/// The log of all tests that run in this process.
#[derive(Clone, Default)]
pub struct LogRecorder(Arc<Mutex<Vec<u8>>>);

impl LogRecorder {
    /// Records from now on, together with every other test that calls this.
    pub fn install() -> Self {
        static LOG: OnceLock<LogRecorder> = OnceLock::new();
        LOG.get_or_init(|| {
            let log = Self::default();
            let subscriber = tracing_subscriber::fmt()
                .with_ansi(false)
                .with_writer(log.clone());
            tracing::subscriber::set_global_default(subscriber.finish())
                .expect("no test sets another subscriber");
            log
        })
        .clone()
    }

    /// Returns the lines that contain `text`, such as the value of a span's field.
    pub fn lines_with(&self, text: &str) -> Vec<String> {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes)
            .lines()
            .filter(|line| line.contains(text))
            .map(str::to_owned)
            .collect()
    }
}

impl<'a> MakeWriter<'a> for LogRecorder {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl io::Write for LogRecorder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
