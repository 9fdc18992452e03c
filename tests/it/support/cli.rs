//! The built binary, with the fetched runtime and models. It ignores the settings of the machine.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

use super::app::{models_dir, runtime_library};

/// Returns a command of the binary with an empty environment, in a working directory without `.env`.
pub fn facescan<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_facescan"));
    command
        .args(args)
        .env_clear()
        .env("FACESCAN__MODELS__DIR", models_dir())
        .env("FACESCAN__RUNTIME__LIBRARY", runtime_library())
        // As in `settings_for`.
        .env("FACESCAN__CPU__PROVIDER", "default")
        .env("LOG_LEVEL", "warn")
        .current_dir(env!("CARGO_TARGET_TMPDIR"));
    command
}

/// A server in a process of its own. Dropping it kills the process.
pub struct Serving {
    pub process: Child,
    /// The address, such as `http://127.0.0.1:4711`.
    pub address: String,
    /// The rest of its standard output.
    pub output: BufReader<ChildStdout>,
}

impl Serving {
    /// Starts `facescan serve` with a free port, and waits until it listens.
    pub fn start(command: &mut Command) -> Self {
        let mut process = command
            .env("FACESCAN__SERVER__PORT", "0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let address = line
            .split_whitespace()
            .find(|word| word.starts_with("http://"))
            .unwrap_or_else(|| panic!("{line}"));
        Self {
            process,
            address: address.to_owned(),
            output,
        }
    }

    /// Returns the lines of the banner, up to the example of a request.
    pub fn banner(&mut self) -> String {
        let mut banner = String::new();
        while !banner.contains("try:  ") {
            assert_ne!(self.output.read_line(&mut banner).unwrap(), 0, "{banner}");
        }
        banner
    }

    /// Stops the server with SIGTERM, and waits until it has ended.
    #[cfg(unix)]
    pub fn stop(mut self) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").arg(pid).status().unwrap();
        assert!(sent.success());
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
