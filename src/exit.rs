//! The end of the process.

use std::{
    io::{self, Write},
    process::ExitCode,
};

/// Ends the process without the exit handlers of the C libraries. Call it last in `main`.
///
/// The thread of a device that hangs never ends, and the threads of other devices may still free their sessions. Exit handlers
/// of ONNX Runtime and OpenVINO destroy what these threads use, and the process then crashes after all its work is done.
pub fn without_handlers(code: ExitCode) -> ! {
    // Nobody reads the output any more if this fails.
    let _ = io::stdout().flush();
    let code = match code {
        ExitCode::SUCCESS => 0,
        ExitCode::FAILURE => 1,
        _ => 2,
    };
    end(code)
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "there is no safe function for this")]
fn end(code: i32) -> ! {
    // SAFETY: `_exit` takes any status and does not return.
    unsafe { libc::_exit(code) }
}

/// Runs the exit handlers, because only the libraries for Linux are known to fail in them.
#[cfg(not(target_os = "linux"))]
fn end(code: i32) -> ! {
    std::process::exit(code)
}
