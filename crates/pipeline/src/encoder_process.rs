//! Encoding in a process of its own, which ends when the caller leaves. The encoders of WebP and AVIF cannot be stopped in another way.

use std::{
    io::{self, Read as _, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use facescan_imaging::encode::{EncodeError, OutputFormat};
use facescan_inference::pool::{CpuPool, Stage};
use image::RgbImage;

use super::core::error::PipelineError;

/// The command of the program that encodes an image. `--width` and `--height` follow, and `--format` with the name of the format. The
/// program reads RGB samples, row by row, from its standard input, and writes the file to its standard output.
pub const COMMAND: &str = "encode-image";

/// Returns the program that runs.
///
/// # Errors
/// Returns an error if the operating system does not know it.
pub fn this_program() -> io::Result<PathBuf> {
    // Linux knows this file also after an upgrade has replaced it.
    match cfg!(target_os = "linux") {
        true => Ok(PathBuf::from("/proc/self/exe")),
        false => std::env::current_exe(),
    }
}

/// Starts processes that encode an image each.
#[derive(Clone)]
pub struct EncoderProcesses {
    program: PathBuf,
    pool: Arc<CpuPool>,
}

/// A process, which is killed when this is dropped.
struct EncoderProcess {
    state: Arc<Mutex<State>>,
}

enum State {
    NotStarted,
    Running(Child),
    /// Nobody waits for the process.
    Unwanted,
}

impl EncoderProcesses {
    /// Starts processes of a program that has the command [`COMMAND`]. The threads of `pool` wait for them, so it has as many turns
    /// as there are processes.
    pub fn new(program: PathBuf, pool: Arc<CpuPool>) -> Self {
        Self { program, pool }
    }

    /// Returns the pool whose threads wait for the processes.
    pub fn pool(&self) -> &CpuPool {
        &self.pool
    }

    /// Encodes an image in a process, which is killed if the future is dropped.
    pub(crate) async fn encode(
        &self,
        image: Arc<RgbImage>,
        output: OutputFormat,
    ) -> Result<Vec<u8>, PipelineError> {
        let (_process, encode) = self.prepare(image, output);
        Ok(self.pool.run(Stage::Begin, encode).await??)
    }

    /// Returns a process that has not started, and the work that starts it, sends it an image and waits for the file.
    fn prepare(
        &self,
        image: Arc<RgbImage>,
        output: OutputFormat,
    ) -> (
        EncoderProcess,
        impl FnOnce() -> Result<Vec<u8>, EncodeError> + Send + use<>,
    ) {
        let state = Arc::new(Mutex::new(State::NotStarted));
        let process = EncoderProcess {
            state: Arc::clone(&state),
        };
        let mut command = Command::new(&self.program);
        command
            .args([COMMAND, "--format", output.name()])
            .args(["--width".to_owned(), image.width().to_string()])
            .args(["--height".to_owned(), image.height().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // A Ctrl-C at the terminal is for the server, which ends when this is done.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let encode = move || {
            run(&state, &mut command, &image).map_err(|error| EncodeError::Encoder {
                format: output.name(),
                source: error.into(),
            })
        };
        (process, encode)
    }
}

impl Drop for EncoderProcess {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if let State::Running(child) = &mut *state {
            // The thread that waits for the process sees its end.
            child.kill().ok();
        } else {
            *state = State::Unwanted;
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(state: &Mutex<State>, command: &mut Command, image: &RgbImage) -> io::Result<Vec<u8>> {
    let (mut samples, mut output) = start(state, command)?;
    // The process writes nothing before it has read everything.
    let sent = samples.write_all(image.as_raw());
    drop(samples);
    let mut file = Vec::new();
    let received = output.read_to_end(&mut file);
    let status = wait(state)?;
    if !status.success() {
        return Err(io::Error::other(format!(
            "the process of the encoder ended with {status}"
        )));
    }
    sent.and(received)?;
    Ok(file)
}

fn start(state: &Mutex<State>, command: &mut Command) -> io::Result<(ChildStdin, ChildStdout)> {
    let mut state = lock(state);
    if matches!(*state, State::Unwanted) {
        return Err(io::ErrorKind::Interrupted.into());
    }
    let mut child = command.spawn()?;
    let pipes = child.stdin.take().zip(child.stdout.take());
    *state = State::Running(child);
    pipes.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
}

/// Waits for the end of a process that has closed its output.
fn wait(state: &Mutex<State>) -> io::Result<ExitStatus> {
    match &mut *lock(state) {
        State::Running(child) => child.wait(),
        State::NotStarted | State::Unwanted => Err(io::ErrorKind::NotFound.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn processes(program: &str) -> EncoderProcesses {
        let pool = Arc::new(CpuPool::new(NonZeroUsize::MIN).unwrap());
        EncoderProcesses::new(program.into(), pool)
    }

    /// Encodes with a program that does not know the command.
    fn encode_with(program: &str) -> (EncoderProcess, Result<Vec<u8>, String>) {
        let image = Arc::new(RgbImage::new(64, 64));
        let (process, encode) = processes(program).prepare(image, OutputFormat::Avif);
        let encoded = encode().map_err(|error| {
            let source = std::error::Error::source(&error);
            source.map(ToString::to_string).unwrap_or_default()
        });
        (process, encoded)
    }

    #[test]
    fn a_process_that_fails_or_does_not_start_is_an_error() {
        let (_, encoded) = encode_with("/bin/false");
        let error = encoded.unwrap_err();
        assert!(error.contains("exit status: 1"), "{error}");
        assert!(encode_with("/nowhere").1.is_err());
    }

    #[test]
    fn a_process_that_nobody_waits_for_does_not_start_or_ends() {
        let image = Arc::new(RgbImage::new(64, 64));
        let (process, encode) = processes("/bin/cat").prepare(image, OutputFormat::Avif);
        drop(process);
        assert!(encode().is_err());

        let state = Arc::new(Mutex::new(State::NotStarted));
        let mut command = Command::new("/bin/cat");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let (_samples, mut output) = start(&state, &mut command).unwrap();
        drop(EncoderProcess {
            state: Arc::clone(&state),
        });
        assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0);
        assert!(!wait(&state).unwrap().success());
    }
}
