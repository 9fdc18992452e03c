//! A NATS server with JetStream for one test.

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;

use super::app::runtime_dir;

/// A server, and the folder with its storage.
pub struct NatsServer {
    port: u16,
    storage: TempDir,
    process: Option<Child>,
}

impl NatsServer {
    /// Starts a server on a free port.
    pub fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut server = Self {
            port: free.local_addr().unwrap().port(),
            storage: tempfile::tempdir().unwrap(),
            process: None,
        };
        drop(free);
        server.restart();
        server
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Starts the server on its port and its storage.
    pub fn restart(&mut self) {
        let program = runtime_dir().join("nats/nats-server");
        let process = Command::new(&program)
            .args([
                "-a",
                "127.0.0.1",
                "-js",
                "-p",
                &self.port.to_string(),
                "-sd",
            ])
            .arg(self.storage.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; run `make test`", program.display()));
        self.process = Some(process);
        let address = format!("127.0.0.1:{}", self.port);
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while std::net::TcpStream::connect(&address).is_err() {
            assert!(
                std::time::Instant::now() < deadline,
                "the NATS server does not start"
            );
            std::thread::yield_now();
        }
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().ok();
            process.wait().ok();
        }
    }

    /// Removes everything that the server has stored.
    pub fn empty(&mut self) {
        self.storage = tempfile::tempdir().unwrap();
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}
